"""What a consumer group reads: by its positions, its members, and the names that Kafka Streams gives."""

from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from chaos.cluster import groups
from chaos.cluster.broker import Brokers
from chaos.cluster.kafka import Cluster, Kafka

TOPICS = {"orders": 2, "app-sums-repartition": 3, "app-sums-changelog": 3, "apple-x-repartition": 1, "between": 1}


def given(value):
    future = Future()
    future.set_result(value)
    return future


class Admin:
    """A cluster with these topics, and a group with these positions and members."""

    def __init__(self, positions=(), members=()):
        self.positions, self.members = positions, members

    def list_consumer_group_offsets(self, asked, *, require_stable, **_options):
        assert require_stable, "a position that is under way would be missed"
        return {asked[0].group_id: given(SimpleNamespace(topic_partitions=list(self.positions)))}

    def describe_consumer_groups(self, names, **_options):
        members = [
            SimpleNamespace(assignment=SimpleNamespace(topic_partitions=[TopicPartition(topic, 0) for topic in topics]))
            for topics in self.members
        ]
        return {names[0]: given(SimpleNamespace(members=members))}

    def list_topics(self, *_names, timeout):
        assert timeout
        return SimpleNamespace(topics={name: SimpleNamespace(partitions=range(count)) for name, count in TOPICS.items()})


def reads(admin, prefix=""):
    cluster = Cluster({1: ("b", 1)}, prefix)
    asked = Kafka(cluster, Brokers(None))
    asked._admin = admin
    return asked.reads("app")


def test_a_group_reads_what_it_committed_what_its_members_have_and_what_streams_made_for_it():
    """Its changelogs are not read by it, nor what another application made for itself; what is gone is left out."""
    known = [TopicPartition("orders", 0, 7), TopicPartition("orders", 1, -1001), TopicPartition("gone", 0, 3)]

    found = reads(Admin(known, [["orders"], ["between"]]))

    assert found == {"app-sums-repartition": (3, {}), "between": (1, {}), "orders": (2, {0: 7})}


def test_on_a_cluster_that_others_use_only_what_is_ours_counts():
    """Nobody knows when others stop writing to theirs."""
    assert reads(Admin([TopicPartition("orders", 0, 7)], [["between"]]), prefix="app-") == {"app-sums-repartition": (3, {})}


def test_a_position_that_cannot_be_told_is_no_position():
    """Its coordinator is moving: the group is asked again."""
    broken = SimpleNamespace(topic="orders", partition=0, offset=7, error=KafkaError(KafkaError._TIMED_OUT))

    with pytest.raises(KafkaException):
        groups.positions(Admin([broken]), "app", 1)
