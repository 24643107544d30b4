"""Questions to a broken cluster, and the names that they touch; an admin client plays the cluster."""

from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import cycle
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import IsolationLevel, KafkaError, KafkaException
from confluent_kafka.admin import ListOffsetsResultInfo

from chaos.cluster import kafka as kafka_module
from chaos.cluster.broker import Brokers
from chaos.cluster.kafka import Cluster, Kafka, java_hash
from chaos.cluster.topics import log_ends
from chaos.common.errors import DeadlineError, ForeignNameError, RuntimeUnavailableError
from tests.unit.wording import raised

FOREIGN = ["orders", "chaos-a", "chaos-a-", "", "Chaos-a-x", "x-chaos-a-", "__consumer_offsets"]
BROKERS = {1: ("kafka-1", 9092), 4: ("kafka-4", 9092)}


@dataclass(frozen=True)
class Played(Cluster):
    """A cluster for which an admin client of the test answers."""

    admin: Any = None

    def client(self, *_arguments):
        return self.admin

    def answers(self, number):
        return number != 4

    def knows(self, number, topics):
        return number in self.brokers and all(topics)


@dataclass(frozen=True)
class Hearing(Played):
    """A cluster whose second broker hears of topics when it has been asked some times."""

    asked: list[int] = field(default_factory=list)
    deaf: int = 3

    def knows(self, number, topics):
        self.asked.append(number)
        return all(topics) and (number != 4 or self.asked.count(4) > self.deaf)


def kafka(admin, brokers=BROKERS, prefix="chaos-a-", started=None):
    """With two replicas of a topic."""
    return Kafka(Played(brokers, prefix, 2, admin=admin), started or Brokers(None))


class Late:
    """An answer that librdkafka owes beyond its own time limit."""

    def result(self, _within_s):
        raise TimeoutError


class Invalid:
    """The answer of librdkafka 2.16 for a partition with a frozen leader; it is no error there."""

    def result(self, _within_s):
        return ListOffsetsResultInfo(-1001, -1, -1)


class Given:
    """An offset."""

    def result(self, _within_s):
        return ListOffsetsResultInfo(1000, -1, 0)


class Admin:
    """An admin client with these answers, over and over."""

    def __init__(self, *answers):
        self._answers = cycle(answers)

    def list_offsets(self, wanted, **_options):
        return dict(zip(wanted, self._answers, strict=False))


def test_a_sum_is_of_all_partitions_or_of_none():
    """Without the leader that does not answer the output would seem to shrink, and then to grow again."""
    asked = kafka(Admin(Given(), Invalid(), Given(), Given(), Given(), Given()))

    with pytest.raises(KafkaException, match="_TIMED_OUT"):
        asked.end("topic", 3, IsolationLevel.READ_COMMITTED)

    assert asked.end("topic", 3, IsolationLevel.READ_COMMITTED) == 3000


def test_offsets_that_are_late_are_asked_for_again():
    """Samplers and drains expect `KafkaException`; a TimeoutError of a future would end the run."""
    with pytest.raises(KafkaException, match="_TIMED_OUT"):
        kafka(Admin(Late())).end("topic", 3, IsolationLevel.READ_COMMITTED)


@pytest.mark.parametrize("answer", [Late(), Invalid()])
def test_an_audit_has_all_bounds_or_none(answer):
    """With an end that was never given, the rows below it would be called lost."""
    admin: Any = Admin(Given(), answer)
    with pytest.raises(KafkaException, match="_TIMED_OUT"):
        log_ends(admin, "topic", range(3), 1)


class Untouchable:
    """An admin client that must not be asked anything."""

    def __getattr__(self, name):
        raise AssertionError(name)


@pytest.mark.parametrize("name", FOREIGN)
def test_nothing_is_made_or_removed_without_the_prefix(name):
    """Topics and groups: the cluster is not even asked, and one foreign name among ours is enough to stop."""
    asked = kafka(Untouchable())
    for touch in (lambda: asked.create([name], 3), lambda: asked.delete(["chaos-a-1", name]), lambda: asked.delete_group(name)):
        with pytest.raises(ForeignNameError, match="does not begin with 'chaos-a-'"):
            touch()


def test_what_has_the_prefix_reaches_the_cluster():
    """Names of ours pass; on a cluster of our own every name is ours."""
    with pytest.raises(AssertionError, match="delete_topics"):
        kafka(Untouchable()).delete(["chaos-a-datasource"])
    assert Cluster({}, "chaos-a-").mine(["chaos-a-x"]) == ["chaos-a-x"]
    assert Cluster({}).mine(["anything"]) == ["anything"]


def refused(code):
    """An answer that is an error."""
    future: Future[Any] = Future()
    future.set_exception(KafkaException(KafkaError(code)))
    return future


class Answering:
    """An admin client whose cluster answers with one error."""

    def __init__(self, code):
        self.code = code

    def delete_topics(self, names, **_options):
        return {name: refused(self.code) for name in names}

    create_topics = delete_topics


def test_deleting_a_topic_that_is_gone_is_no_error_but_a_refusal_is():
    """Topics are removed twice when a run ends badly."""
    topics = ["chaos-a-1"]

    kafka(Answering(KafkaError.UNKNOWN_TOPIC_OR_PART)).delete(topics)

    with pytest.raises(KafkaException):
        kafka(Answering(KafkaError.TOPIC_AUTHORIZATION_FAILED)).delete(topics)
    with pytest.raises(KafkaException):
        kafka(Answering(KafkaError.INVALID_REPLICATION_FACTOR)).create(topics, 1)


def given(value):
    """An answer."""
    future: Future[Any] = Future()
    future.set_result(value)
    return future


class Busy:
    """An admin client whose cluster makes topics, but the first answers do not come."""

    def __init__(self, unanswered, code=KafkaError._TIMED_OUT):
        self.code, self.unanswered, self.made = code, unanswered, set()

    def create_topics(self, topics, **_options):
        return {topic.topic: self._answer(topic.topic) for topic in topics}

    def _answer(self, name):
        was_there = name in self.made
        self.made.add(name)
        if self.unanswered:
            self.unanswered -= 1
            return refused(self.code)
        return refused(KafkaError.TOPIC_ALREADY_EXISTS) if was_there else given(None)

    def delete_topics(self, names, **_options):
        return {name: refused(self.code) if self.unanswered else given(None) for name in names}


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(kafka_module, "_ANSWERED_WITHIN_S", 1.0)
    monkeypatch.setattr(kafka_module, "_KNOWN_WITHIN_S", 1.0)
    monkeypatch.setattr("chaos.common.clock.time.sleep", lambda _seconds: None)
    monkeypatch.setattr(Kafka, "wait_until_healthy", lambda _self: None)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("code", [KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError.REQUEST_TIMED_OUT])
def test_topics_are_made_though_an_answer_does_not_come(code):
    """They may be there when they are asked for again; that they were there before is an error."""
    busy = Busy(3, code)

    kafka(busy).create(["chaos-a-1", "chaos-a-2"], 1)

    assert busy.made == {"chaos-a-1", "chaos-a-2"}
    with pytest.raises(KafkaException):
        kafka(busy).create(["chaos-a-1"], 1)


@pytest.mark.usefixtures("impatient")
def test_topics_are_made_when_every_broker_knows_them():
    """A coordinator that does not would refuse the first positions of a group, and its program would seem to be wrong."""
    cluster = Hearing(BROKERS, "chaos-a-", 2, admin=Busy(0))

    Kafka(cluster, Brokers(None)).create(["chaos-a-1"], 1)

    assert cluster.asked.count(4) == 4


@pytest.mark.usefixtures("impatient")
def test_a_broker_that_never_hears_of_topics_is_named():
    deaf = Hearing(BROKERS, "chaos-a-", 2, admin=Busy(0), deaf=10**9)

    with pytest.raises(DeadlineError, match=r"all brokers to know chaos-a-1.*\[4\]"):
        Kafka(deaf, Brokers(None)).create(["chaos-a-1"], 1)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("order", ["create", "delete"])
def test_a_cluster_that_never_answers_is_told(order):
    busy = Busy(10**9)

    with pytest.raises(DeadlineError, match=f"topics chaos-a-1 to be {order}d.*_TIMED_OUT"):
        kafka(busy).create(["chaos-a-1"], 1) if order == "create" else kafka(busy).delete(["chaos-a-1"])


class Creating:
    """An admin client that notes which topics it would create."""

    def __init__(self):
        self.created = {}

    def create_topics(self, topics, *, validate_only, **_options):
        self.created = {topic.topic: (topic.replica_assignment, validate_only) for topic in topics}
        return {}


def test_the_leaders_of_a_new_topic_are_not_left_to_chance():
    """Partition by partition the next broker leads; a mere question does not wait for replicas."""
    admin = Creating()

    kafka(admin).create(["chaos-a-1"], 3, validate_only=True)

    assert admin.created == {"chaos-a-1": ([[1, 4], [4, 1], [1, 4]], True)}


def test_the_health_of_what_others_own_is_not_our_business():
    """A foreign topic may be under-replicated for years."""
    cluster = Cluster(BROKERS, "chaos-a-", 2)

    assert [name for name in ("orders", "chaos-a-datasink", "__transaction_state") if cluster.watched(name)] == [
        "chaos-a-datasink",
        "__transaction_state",
    ]


class Described:
    """An admin client with the metadata of topics: name -> partitions of (leader, replicas, in sync)."""

    def __init__(self, **topics):
        self._topics = {
            name.replace("_", "-"): SimpleNamespace(
                partitions={
                    number: SimpleNamespace(leader=leader, replicas=replicas, isrs=isrs)
                    for number, (leader, replicas, isrs) in enumerate(partitions)
                }
            )
            for name, partitions in topics.items()
        }

    def list_topics(self, *_topic, **_options):
        return SimpleNamespace(topics=self._topics, brokers={1: None})


def test_a_partition_that_lacks_a_leader_or_a_replica_is_unhealthy():
    """Only topics of the run count; a broker that does not answer comes first, because it is the cause."""
    admin = Described(
        chaos_a_x=[(1, [1, 4], [1, 4]), (1, [1, 4], [1]), (-1, [1, 4], [1, 4])],
        orders=[(-1, [1, 4], [])],
    )

    assert kafka(admin, {1: ("kafka-1", 9092)}).unhealthy() == [
        "chaos-a-x-1 has 1 of 2 replicas in sync",
        "chaos-a-x-2 has 2 of 2 replicas in sync",
    ]
    assert kafka(admin).unhealthy() == ["broker-4 does not answer"]


def test_who_leads_and_who_follows():
    """From the metadata; a partition without a leader, or that does not exist, has none."""
    asked = kafka(Described(chaos_a_x=[(4, [4, 1], [1, 4]), (-1, [1, 4], [])]))

    assert (asked.leader("chaos-a-x", 0), asked.followers("chaos-a-x", 0)) == (4, [1])
    assert (asked.replicas("chaos-a-x", 0), asked.in_sync("chaos-a-x", 0)) == ([4, 1], [1, 4])
    with raised(LookupError, "chaos-a-x-1 "):
        asked.leader("chaos-a-x", 1)
    with raised(LookupError, "chaos-a-x-7"):
        asked.replicas("chaos-a-x", 7)
    with raised(LookupError):
        asked.group_partition("")


def test_a_broker_that_ended_is_reported_with_its_log():
    """At start, which then fails, and later."""
    brokers = Brokers(None)
    brokers.processes[4] = SimpleNamespace(alive=lambda: False, exit_code=lambda: 137, spec=SimpleNamespace(log="broker-4.log"))

    with pytest.raises(RuntimeUnavailableError, match=r"broker-4 ended with 137; see broker-4\.log"):
        kafka(Untouchable(), started=brokers).wait_until_ready()
    assert kafka(Untouchable(), started=brokers).unhealthy() == ["broker-4 does not run"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("a", 97), ("app-0", 93027204), ("polygenelubricants", 0), ("chaos-warm-up", 743598698)],
)
def test_a_transactional_id_is_hashed_as_java_hashes_it(text, expected):
    """Known absolute values of String.hashCode; that of the fourth is Integer.MIN_VALUE, that of the fifth is below 0."""
    assert java_hash(text) == expected
