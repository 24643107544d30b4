"""Consumer groups: where their coordinators are, and which positions they committed."""

from contextlib import closing
from functools import partial
from operator import eq

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from chaos.common import clock
from chaos.engine.ends import OfGroup, lag_beside
from verifiers.base import Evidence, Verdict
from verifiers.commits import Commits

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

TOPIC, NOWHERE = "groups", "groups-nowhere"
NAMES = [f"{name}-{number}" for name in ("group", "copier") for number in range(8)]  # the hashes of copier-… are below 0


@pytest.fixture
def kafka(system):
    system.kafka.create([TOPIC], 3)
    yield system.kafka
    system.kafka.delete([TOPIC])


def consumer(kafka, group):
    return closing(Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group, "enable.auto.commit": "false"}))


def commit(kafka, group, *positions, partition=0):
    """One position after the other."""
    with consumer(kafka, group) as member:
        for position in positions:
            member.commit(offsets=[TopicPartition(TOPIC, partition, position)], asynchronous=False)


def test_a_topic_that_is_made_is_known_to_every_broker(kafka):
    """To each of them, whoever was asked to make it; and to ask for one that nobody made does not make it."""
    knows = kafka.cluster.knows

    assert [knows(number, [TOPIC]) for number in kafka.broker_ids] == [True, True, True]
    assert [knows(number, [TOPIC, NOWHERE]) for number in kafka.broker_ids] == [False, False, False]
    assert NOWHERE not in kafka.admin.list_topics(timeout=60).topics


def test_coordinators_are_where_kafka_has_them(kafka):
    """Whether the hash of a name is above 0 or below: a fault that is aimed at a coordinator must not meet another broker."""
    for name in NAMES:
        commit(kafka, name, 1)

    def both():
        asked = kafka.admin.describe_consumer_groups(NAMES, request_timeout=60)
        coordinators = {name: answer.result(120).coordinator.id for name, answer in asked.items()}
        return {name: kafka.leader(*kafka.group_partition(name)) for name in NAMES}, coordinators

    # leaders may move meanwhile: brokers were killed before, and get their partitions back
    agree = partial(clock.wait_until, reason="the same coordinators", every_s=1, ignore=(KafkaException,), seen=both)
    agree(lambda: eq(*both()), within_s=300)


def test_every_position_that_a_group_committed_is_read(kafka, chaos_session):
    """In order, with those that were set back or deleted; those of other groups and of aborted transactions are not."""
    group, other = "group-read", "group-other"
    commit(kafka, other, 3)
    commit(kafka, group, 5, 9, 9, 4)
    commit(kafka, group, 7, partition=2)
    in_transactions(kafka, group, (6, "abort"), (8, "commit"))
    kafka.admin.delete_consumer_groups([group], request_timeout=60)[group].result(120)

    found = list(kafka.committed(group, TOPIC))

    assert [(one.partition, one.position) for one in found[:-2]] == [(0, 5), (0, 9), (0, 9), (0, 4), (2, 7), (0, 8)]
    assert sorted((one.partition, one.position) for one in found[-2:]) == [(0, None), (2, None)]
    assert [one.seq for one in found] == sorted(one.seq for one in found)
    assert all(one.committed_at_ms > 0 for one in found)
    assert judged(chaos_session.spark(), found) == (Verdict.INVALID, {"set back": 1, "removed": 2})


def in_transactions(kafka, group, *ends):
    """Each position in a transaction of its own, which ends so."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": f"{group}-writer"})
    producer.init_transactions(60)
    with consumer(kafka, group) as member:
        for position, end in ends:
            producer.begin_transaction()
            producer.produce(TOPIC, b"value", partition=1)
            producer.send_offsets_to_transaction([TopicPartition(TOPIC, 0, position)], member.consumer_group_metadata(), 60)
            (producer.commit_transaction if end == "commit" else producer.abort_transaction)(60)


def judged(spark, commits):
    """Verdict and counts of `verifiers.commits`."""
    frame = spark.createDataFrame(commits, "partition int, seq long, position long, committed_at_ms long")
    finding = Commits().check(Evidence("source", frame.limit(0), frame.limit(0), {}, commits=frame))
    return finding.verdict, finding.counts


def test_a_group_that_a_run_before_has_left_is_as_one_that_never_was(kafka):
    """Its static member would stay for ten minutes; what Kafka Streams made for itself goes with the group."""
    group, internal = "group-left", "group-left-sums-repartition"
    kafka.create([internal, "group-left-behind"], 1)
    commit(kafka, group, 7)
    static = {"group.instance.id": "one", "session.timeout.ms": 600_000, "max.poll.interval.ms": 600_000}
    member = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group, "enable.auto.commit": "false", **static})
    member.subscribe([TOPIC])
    clock.wait_until(lambda: member.poll(1) or member.assignment(), within_s=300, reason="an assignment")
    member.close()  # a static member does not leave
    assert kafka.members(group) == 1

    kafka.clear_group(group)

    assert kafka.members(group) == 0
    assert kafka.reads(group) == {}
    there = kafka.admin.list_topics(timeout=60).topics
    assert (internal in there, "group-left-behind" in there) == (False, True)
    kafka.delete(["group-left-behind"])


def test_a_group_reads_all_that_it_committed_or_that_its_members_have(kafka):
    """A program with one group over two topics reads both, so records of the second are not processed yet."""
    between, group = "group-two-steps-repartition", "group-two"
    kafka.create([between, "group-two-second"], 1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(between, b"value", partition=0)
    producer.flush(60)
    commit(kafka, group, 0)
    with consumer(kafka, group) as member:
        member.subscribe(["group-two-second"])
        clock.wait_until(lambda: member.poll(1) or member.assignment(), within_s=300, reason="an assignment")

        found = kafka.reads(group)
        positions = OfGroup(dict, kafka, group, frozenset({TOPIC}))

        assert found == {TOPIC: (3, {0: 0}), between: (1, {}), "group-two-second": (1, {})}
        assert lag_beside(kafka, positions) == {f"behind in {between}-0": 1}
    kafka.delete([between, "group-two-second"])


def test_a_group_is_asked_while_its_coordinator_moves(kafka):
    """The answer of a broker that is not the coordinator any more is an error; it ended the process (librdkafka #5040)."""
    group = "group-moving"
    commit(kafka, group, 7)
    place = kafka.group_partition(group)
    for _ in range(6):
        leader = clock.wait_until(partial(kafka.leader, *place), within_s=60, reason="a leader", ignore=(LookupError,))
        kafka.reassign(*place, [*(number for number in kafka.broker_ids if number != leader), leader])
        kafka.elect(*place)
        answered = partial(clock.wait_until, reason="an answer of the new coordinator", every_s=0.1, ignore=(KafkaException,))

        assert answered(lambda: kafka.reads(group), within_s=300) == {TOPIC: (3, {0: 7})}
        moved = partial(led_by_another, kafka, place, leader)
        clock.wait_until(moved, within_s=60, reason="the new leader", ignore=(LookupError,))


def led_by_another(kafka, place, former):
    """Whether the broker that is asked knows the new leader of a partition."""
    return kafka.leader(*place) != former


def test_a_position_in_a_transaction_takes_effect_with_its_marker(kafka):
    """Not when it was sent: until then nobody goes on from it."""
    group = "group-reached"
    commit(kafka, group, 5)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": f"{group}-writer"})
    producer.init_transactions(60)
    with consumer(kafka, group) as member:
        producer.begin_transaction()
        producer.send_offsets_to_transaction([TopicPartition(TOPIC, 0, 8)], member.consumer_group_metadata(), 60)
    clock.pause(1.5)
    ends_ms = clock.now_ms()
    producer.commit_transaction(60)
    commit(kafka, group, 9)

    found = list(kafka.reached(group, [("another", 2), (TOPIC, 3)]))

    assert [(one.partition, one.position, one.producer_id >= 0) for one in found] == [
        (2, 5, False),
        (2, 8, True),
        (2, 9, False),
    ]
    assert found[0].committed_at_ms < ends_ms <= found[1].committed_at_ms <= found[2].committed_at_ms


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_are_counted_whatever_their_protocol(kafka, protocol):
    """Also of KIP-848; the group reads what they have, before they commit anything."""
    group = f"members-{protocol}"
    options = {"bootstrap.servers": kafka.bootstrap, "group.id": group, "group.protocol": protocol}
    with closing(Consumer(options)) as one, closing(Consumer(options)) as two:
        for member in (one, two):
            member.subscribe([TOPIC])

        def joined():
            """Members are there when they poll."""
            one.poll(0.1)
            two.poll(0.1)
            return kafka.members(group)

        clock.wait_until(
            lambda: joined() == 2, within_s=300, reason="two members", every_s=0.1, ignore=(KafkaException,), seen=joined
        )
        assert kafka.reads(group) == {TOPIC: (3, {})}
    kafka.clear_group(group)
    assert kafka.members(group) == 0
