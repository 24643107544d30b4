"""Topics that a consumer group reads: by its positions, its members, and the names that Kafka Streams gives."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException, TopicPartition

from chaos.cluster import kafka, members
from chaos.cluster.broker import Brokers
from chaos.cluster.kafka import Cluster, Kafka
from chaos.cluster.members import Member, Members
from chaos.common.errors import InconclusiveError
from chaos.contract import clients
from tests.unit.wording import raised

TOPICS = {"orders": 2, "app-sums-repartition": 3, "app-sums-changelog": 3, "apple-x-repartition": 1, "between": 1}


def given(value):
    future: Future[Any] = Future()
    future.set_result(value)
    return future


def member(topics=(), name="m", instance=None):
    """As confluent-kafka describes one."""
    places = [TopicPartition(topic, 0) for topic in topics]
    return SimpleNamespace(
        member_id=name, group_instance_id=instance, client_id="c", assignment=SimpleNamespace(topic_partitions=places)
    )


def stable(*members):
    """A classic group."""
    return SimpleNamespace(state=ConsumerGroupState.STABLE, members=members)


def refusal(code):
    """An answer that is an error."""
    future: Future[Any] = Future()
    future.set_exception(KafkaException(KafkaError(code)))
    return future


class Admin:
    """A cluster with these topics, and a group with these positions and members."""

    def __init__(self, positions=(), members=()):
        self.positions, self.members = positions, members

    def __call__(self, options):
        """A consumer of the group; an admin client must not ask (librdkafka #5040)."""
        assert options["isolation.level"] == "read_committed", "a position that is under way would be missed"
        assert (options["group.id"], options["enable.auto.commit"]) == ("app", False)
        return self

    def committed(self, asked, timeout):
        assert timeout
        known = {(one.topic, one.partition): one for one in self.positions}
        return [known.get((one.topic, one.partition), TopicPartition(one.topic, one.partition, -1001)) for one in asked]

    def close(self):
        self.closed = True

    def describe_consumer_groups(self, names, **_options):
        return {names[0]: given(stable(*(member(topics) for topics in self.members)))}

    def list_topics(self, *_names, timeout):
        assert timeout
        return SimpleNamespace(topics={name: SimpleNamespace(partitions=range(count)) for name, count in TOPICS.items()})


@pytest.fixture
def reads(monkeypatch):
    def ask(admin, prefix=""):
        monkeypatch.setattr(clients, "Consumer", admin)
        asked = Kafka(Cluster({1: ("b", 1)}, prefix), Brokers(None))
        asked._admin = admin
        return asked.reads("app")

    return ask


def test_a_group_reads_what_it_committed_what_its_members_have_and_what_streams_made_for_it(reads):
    """Its changelogs are not read by it, nor what another application made for itself; what is gone is left out."""
    known = [TopicPartition("orders", 0, 7), TopicPartition("orders", 1, -1001), TopicPartition("gone", 0, 3)]

    found = reads(Admin(known, [["orders"], ["between"]]))

    assert found == {"app-sums-repartition": (3, {}), "between": (1, {}), "orders": (2, {0: 7})}


def test_on_a_cluster_that_others_use_only_what_is_ours_counts(reads):
    """Nobody knows when others stop writing to theirs."""
    assert reads(Admin([TopicPartition("orders", 0, 7)], [["between"]]), prefix="app-") == {"app-sums-repartition": (3, {})}


def test_a_position_that_cannot_be_told_is_no_position(reads):
    """Its coordinator is moving: the group is asked again, and this consumer is closed."""
    broken = SimpleNamespace(topic="orders", partition=0, offset=7, error=KafkaError(KafkaError._TIMED_OUT))
    admin: Any = Admin([broken])

    with pytest.raises(KafkaException):
        reads(admin)
    assert admin.closed


class Occupied(Admin):
    """A group with a static and a dynamic member; both are there until they are removed, or for so many questions."""

    def __init__(self, answers, code=KafkaError.NON_EMPTY_GROUP):
        super().__init__()
        self.answers, self.code, self.deleted = answers, code, []

    def delete_consumer_groups(self, names, **_options):
        self.answers -= 1
        if self.answers < 0:
            return {names[0]: given(None)}
        return {names[0]: refusal(self.code)}

    def describe_consumer_groups(self, names, **_options):
        return {names[0]: given(stable(*(member(name=f"m-{one}", instance=one) for one in ("static", None))))}

    def delete_topics(self, names, **_options):
        self.deleted += names
        return {name: given(None) for name in names}


@pytest.fixture
def cleared(monkeypatch):
    """Clears the group of a cluster for which this admin client answers; what members were removed is kept."""
    removed = []
    monkeypatch.setattr("chaos.common.clock.time.sleep", lambda _seconds: None)
    monkeypatch.setattr(kafka, "_LEAVE_WITHIN_S", 0.2)
    monkeypatch.setattr(Kafka, "leader", lambda *_place: 1)
    monkeypatch.setattr(Kafka, "group_partition", lambda _self, group: (group, 0))
    monkeypatch.setattr("chaos.cluster.protocol.remove_members", lambda _at, _group, members: removed.extend(members))

    def clear(admin, *, is_ours=True, prefix=""):
        brokers: Any = SimpleNamespace(planned=is_ours)
        asked = Kafka(Cluster({1: ("b", 1)}, prefix), brokers)
        asked._admin = admin
        asked.clear_group("app")
        return removed

    return clear


@pytest.mark.parametrize(("is_ours", "removed"), [(True, [("m-static", "static"), ("m-None", None)]), (False, [])])
def test_members_of_a_run_before_are_removed_where_the_cluster_is_ours(cleared, is_ours, removed):
    """Elsewhere they are waited for; and what Kafka Streams made for itself is deleted with the group."""
    admin = Occupied(1)

    assert cleared(admin, is_ours=is_ours) == removed
    assert sorted(admin.deleted) == ["app-sums-changelog", "app-sums-repartition"]


def test_a_group_that_stays_in_use_is_told_with_the_mend(cleared):
    """A run that began in it would read what another program leaves over."""
    with raised(InconclusiveError, "the group app ", "{suffix}"):
        cleared(Occupied(10**9))


@pytest.mark.parametrize("code", [KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.GROUP_ID_NOT_FOUND])
def test_a_group_that_never_was_is_clear_and_a_refusal_is_an_error(cleared, code):
    """At once in both cases."""
    if code == KafkaError.GROUP_ID_NOT_FOUND:
        assert cleared(Occupied(10**9, code)) == []
    else:
        with pytest.raises(KafkaException):
            cleared(Occupied(10**9, code))


@pytest.mark.parametrize("dead", [KafkaError.GROUP_ID_NOT_FOUND, KafkaError.UNSUPPORTED_VERSION, "state"])
def test_a_group_of_the_new_protocol_is_described_by_its_own_request(reads, monkeypatch, dead):
    """confluent-kafka describes classic groups only (KIP-848)."""
    admin: Any = Admin([TopicPartition("between", 0, 7)])
    answer = given(SimpleNamespace(state=ConsumerGroupState.DEAD, members=[])) if dead == "state" else refusal(dead)
    admin.describe_consumer_groups = lambda names, **_options: {names[0]: answer}
    monkeypatch.setattr(Kafka, "group_partition", lambda _self, group: (group, 0))
    monkeypatch.setattr(Kafka, "leader", lambda *_place: 1)
    found = Members(True, (Member("m", None, "c", frozenset({"orders"})),))  # noqa: FBT003
    monkeypatch.setattr(members, "of_consumer_protocol", lambda at, *_words: found if at == ("b", 1) else None)

    assert reads(admin) == {"app-sums-repartition": (3, {}), "between": (1, {0: 7}), "orders": (2, {})}


def test_a_coordinator_that_does_not_answer_is_an_error(reads):
    """It is asked again."""
    admin: Any = Admin([TopicPartition("between", 0, 7)])
    admin.describe_consumer_groups = lambda names, **_options: {names[0]: refusal(KafkaError._TIMED_OUT)}

    with pytest.raises(KafkaException):
        reads(admin)
