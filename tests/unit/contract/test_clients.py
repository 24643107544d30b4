"""Clients of Kafka: options go through the environment, names begin with the prefix, and a group is asked past the faults."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from chaos.contract import clients
from chaos.contract.base import Endpoints, Topic, Topics
from chaos.loader.declaration import FillSource
from tests import deployed

SECRET = "hunter2"  # noqa: S105 - not a real one
ENDPOINTS = Endpoints(
    "link:1", "audit:1", options={"sasl.password": SECRET}, java={"sasl.jaas.config": SECRET}, spark_options={"x": SECRET}
)
TOPICS = Topics((Topic("chaos-a-datasource-7", 3),), "chaos-a-datasink-7", "chaos-a-", "7")
IDS = ("{prefix}t-{suffix}-{partition}",)
COMMAND = deployed.command(("copy", "{source}", "{prefix}"), "{prefix}copier-{suffix}", transactional_ids=IDS)


@pytest.mark.parametrize("process", [COMMAND, FillSource(1, 1.0)], ids=lambda process: type(process).__name__)
def test_a_password_is_only_in_the_environment(process, monkeypatch, tmp_path):
    """Every user of a machine can read command lines."""
    command = process.command(ENDPOINTS, TOPICS, tmp_path)

    assert not any(SECRET in text for text in (*command.argv, *(file.read_text() for file in tmp_path.iterdir())))
    assert "SPARK_APPLICATION_OPTIONS" in command.env
    for name, value in command.env.items():
        monkeypatch.setenv(name, value)
    assert clients.librdkafka_options() == {"sasl.password": SECRET}


def test_without_options_nothing_is_handed_on(monkeypatch):
    """As in a local run."""
    for name in clients.option_variables(ENDPOINTS):
        monkeypatch.delenv(name, raising=False)

    assert clients.option_variables(Endpoints("a:1", "a:1")) == {}
    assert clients.librdkafka_options() == {}


def test_spark_takes_options_of_its_kafka_clients_by_another_name():
    """Without the prefix they would be options of the source itself."""
    assert clients.for_spark({"sasl.jaas.config": SECRET}) == {"kafka.sasl.jaas.config": SECRET}


def test_every_name_begins_with_the_prefix():
    """Groups and transactional ids come into being when they are used, so a check before they are made is not possible."""
    names = (COMMAND.consumer_group(TOPICS), *COMMAND.transactional_ids(TOPICS))

    assert len(names) == 4
    assert all(name.startswith("chaos-a-") for name in names)


def test_a_command_is_told_the_prefix():
    """It is empty on a local cluster: the same scenario runs on both."""
    assert COMMAND.consumer_group(TOPICS) == "chaos-a-copier-7"
    assert COMMAND.consumer_group(Topics((Topic("datasource-7", 3),), "datasink-7", suffix="7")) == "copier-7"


class Group:
    """A client of the group; it answers with two positions, and with none for the second partition."""

    def __init__(self, settings):
        self.settings = settings
        self.done = []

    def committed(self, asked, *, timeout):
        assert timeout > 0
        self.done.append(("committed", [(one.topic, one.partition) for one in asked]))
        return [TopicPartition("source", 0, 7), TopicPartition("source", 1, -1001), TopicPartition("source", 2, 0)]

    def commit(self, *, offsets, asynchronous):
        assert not asynchronous
        self.done.append(("commit", [(one.topic, one.partition, one.offset) for one in offsets]))
        return offsets

    def close(self):
        self.done.append("closed")


@pytest.fixture
def groups(monkeypatch):
    """The clients that were made."""
    made = []

    def make(settings):
        made.append(Group(settings))
        return made[-1]

    monkeypatch.setattr(clients, "Consumer", make)
    return made


def test_a_group_is_asked_through_the_audit_listener(groups):
    """A fault on the pipeline's links must not hide its progress, and an open commit must be waited for."""
    assert COMMAND.positions(ENDPOINTS, TOPICS, Path("run")) == {0: 7, 2: 0}

    (group,) = groups
    assert group.done == [("committed", [("chaos-a-datasource-7", partition) for partition in range(3)]), "closed"]
    assert (group.settings["bootstrap.servers"], group.settings["group.id"]) == ("audit:1", "chaos-a-copier-7")
    assert (group.settings["isolation.level"], group.settings["sasl.password"]) == ("read_committed", SECRET)


def test_a_group_begins_at_the_start_of_every_partition(groups):
    """Otherwise its first start would depend on auto.offset.reset."""
    COMMAND.prepare(ENDPOINTS, TOPICS)

    (group,) = groups
    assert group.done == [("commit", [("chaos-a-datasource-7", partition, 0) for partition in range(3)]), "closed"]


def test_an_error_for_one_partition_is_raised():
    """A position that is not known is not one that was never committed."""

    class Unknown(TopicPartition):
        error = KafkaError(KafkaError._TIMED_OUT)

    with pytest.raises(KafkaException, match="TIMED_OUT"):
        clients.known([TopicPartition("source", 0, 7), Unknown("source", 1)])


class FakeObserver:
    """A consumer whose commits have these answers, one after the other: an error of all, or of single partitions."""

    def __init__(self, *answers):
        self.answers, self.commits = list(answers), []

    def commit(self, offsets, asynchronous):
        assert not asynchronous
        self.commits.append([(one.partition, one.offset) for one in offsets])
        answer = self.answers.pop(0)
        if isinstance(answer, KafkaException):
            raise answer
        return [SimpleNamespace(partition=one.partition, offset=0, error=answer.get(one.partition)) for one in offsets]

    def close(self):
        """Nothing to close."""


UNKNOWN_TOPIC = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)


def seeded(monkeypatch, *answers):
    """The commits with which a group was seeded."""
    observer = FakeObserver(*answers)
    monkeypatch.setattr(clients, "observer", lambda _options, _group: observer)
    clients.seed(ENDPOINTS, "g", Topics((Topic("in", 3),), "out"))
    return observer.commits


@pytest.mark.parametrize("not_yet", [KafkaException(UNKNOWN_TOPIC), {1: UNKNOWN_TOPIC}])
def test_a_coordinator_may_not_know_a_new_topic_yet(monkeypatch, not_yet):
    """As a whole, or a partition of it; then the position is committed once more."""
    assert seeded(monkeypatch, not_yet, {}) == [[(0, 0), (1, 0), (2, 0)]] * 2


@pytest.mark.parametrize("refused", [KafkaException(KafkaError(29)), {2: KafkaError(29)}])
def test_another_error_of_the_coordinator_is_told(monkeypatch, refused):
    """A topic that may not be read will not be known later either."""
    with pytest.raises(KafkaException):
        seeded(monkeypatch, refused, {})


def test_a_group_begins_at_the_start_of_all_topics_that_are_read(groups):
    """Only one of several topics is filled, but a reader of the others must find its position, too."""
    several = Topics((Topic("b-7", 1),), "out-7", suffix="7", read=(Topic("a-7", 2), Topic("b-7", 1)))

    clients.seed(ENDPOINTS, "g", several)

    (group,) = groups
    assert group.done == [("commit", [("a-7", 0, 0), ("a-7", 1, 0), ("b-7", 0, 0)]), "closed"]
