"""The exactly-once sink: algorithm A. One transaction per task, the source offset committed in the same transaction.

    1  a new producer with the transactional.id of this source partition; init_transactions fences and aborts
       whatever an earlier attempt left
    2  after that, and only then, read the end of the last committed transaction
    3  skip the rows before it: they are in the sink already; refuse a batch that begins after it, and leaves records out
    4  produce the others, add the new position to the transaction, commit
    5  on any error raise: Spark retries the task with a new producer, and step 2 learns the truth

Progress is in Kafka beside the data, so a task may be retried after a commit that Spark never learned of, by the successor of a
zombie, or by another driver: committed rows are skipped. Spark begins at its checkpoint, so the two must fit: a batch that
begins after the position (the group was reset, or restored from a backup) would leave records out for ever, and a source topic
that was made anew has other records below the position.

Requires one task per source partition (no ``minPartitions``, no repartition before the sink) and sink partition = source
partition.

Sources: KIP-98, KIP-447; librdkafka INTRODUCTION.md "Transactional producer". A producer is never used for a second
transaction: librdkafka has no KIP-890 (transactions v2), a late EndTxn of the first could end the second.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from pyspark import TaskContext

from pipelines.kafka import send_offsets
from pipelines.messages import monotonic_s

STATS = "part int, attempt int, skipped bigint, sent bigint, problem string"
REQUEST_MS = 6000
_TRANSACTION_MS = 25_000
_WITHIN_S = 30.0
_TURN_S = 0.5
_UNREPLICATED_S = 4.0  # brokers wait 5 s for their own log (offsets.commit.timeout.ms); another coordinator answers at once
# A client that knows no broker yet waits half of this, 11 ms at least, between the first connections that it tries
# (librdkafka, sparse_connect_intvl). A task has two new clients: with the default, 100 ms, it waited for 50 ms two times.
_QUICK = {"reconnect.backoff.ms": 10}

Batches = Iterator[pa.RecordBatch]
Row = tuple[str, int, int, bytes, bytes]
Reported = Callable[[KafkaError | None, Message], None]


def transactional_id(application: str, topic: str, partition: int) -> str:
    """Transactional id of a source partition, equal for all attempts and drivers."""
    return f"{application}-{topic}-{partition}"


class RefusedError(RuntimeError):
    """The checkpoint, the group's position and the topic do not fit together; another attempt would not help."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Spark's plan of a batch.

    Attributes:
        starts: source partition -> start of the batch; empty for the first batch of a checkpoint.
        source_id: the id of the source topic (KIP-516), which is written beside each position; empty if unknown.
    """

    starts: Mapping[int, int] = field(default_factory=dict)
    source_id: str = ""


@dataclass(frozen=True, slots=True)
class Sink:
    """The destination of batches.

    Attributes:
        kafka: bootstrap servers.
        application: consumer group that holds the positions, and prefix of the transactional ids.
        topic: the sink.
        options: further options of its clients, wherever they run.
    """

    kafka: str
    application: str
    topic: str
    options: Mapping[str, str] = field(default_factory=dict)

    def writer(self, plan: Plan) -> Callable[[Batches], Batches]:
        """Return a function for ``mapInArrow``: columns topic, partition, offset, key, value in; `STATS` out, one row per task.

        A task without rows returns none. One with a ``problem`` wrote nothing: the driver must stop, since all further attempts
        would find the same problem.
        """
        return lambda batches: _write(self, plan, batches)


def _write(sink: Sink, plan: Plan, batches: Batches) -> Batches:
    rows = read_rows(batches)
    first = next(rows, None)
    if first is None:
        return  # an empty task must not fence another producer
    source, partition, *_ = first
    producer = _new_producer(sink, source, partition)
    consumer = new_consumer(sink)
    producer.init_transactions(_WITHIN_S)
    committed = _committed(producer, consumer, source, partition)
    if problem := _problem(plan, consumer, committed):
        consumer.close()
        yield stats_of(partition, 0, 0, problem)
        return
    producer.begin_transaction()
    skipped, sent, end = _produce(producer, sink.topic, partition, chain([first], rows), committed.offset)
    if sent:
        position = TopicPartition(source, partition, end, plan.source_id)
        send_offsets(producer, [position], consumer.consumer_group_metadata(), _WITHIN_S)
    producer.commit_transaction(_WITHIN_S)
    consumer.close()
    yield stats_of(partition, skipped, sent)


def _problem(plan: Plan, consumer: Consumer, committed: TopicPartition) -> str:
    """Return the reason why the batch must not be written; empty if it may be."""
    place, position = f"{committed.topic}-{committed.partition}", committed.offset
    if committed.metadata and plan.source_id and committed.metadata != plan.source_id:
        return (
            f"{committed.topic} was made anew: the group's position {position} in {place} belongs to the topic with id "
            f"{committed.metadata}, but the present one has id {plan.source_id}; commit position 0 in every partition, "
            "and remove the checkpoint"
        )
    start = plan.starts.get(committed.partition, 0)
    missed = _first_record(consumer, committed, start) if position < start else None
    if missed is None:
        return ""
    return (
        f"the batch begins at {start} in {place}, after the group's position {position}: the record at {missed} would be left "
        "out for ever; remove the checkpoint, so that Spark reads all of the source again: the sink skips committed rows"
    )


def _first_record(consumer: Consumer, committed: TopicPartition, end: int) -> int | None:
    """Offset of the first committed record from the position on and before `end`; markers and aborted records do not count.

    Raises:
        RuntimeError: no leader answers.
        KafkaException: the record at the position has been removed.
    """
    consumer.assign([TopicPartition(committed.topic, committed.partition, committed.offset)])
    until_s = monotonic_s() + _WITHIN_S
    while monotonic_s() < until_s:
        message = consumer.poll(_TURN_S)
        if message is None:
            continue
        error, offset = message.error(), message.offset()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - it has no public name
            raise KafkaException(error)
        return None if error is not None or offset is None or offset >= end else int(offset)
    raise RuntimeError(f"no leader gave the records of {committed.topic}-{committed.partition} within {_WITHIN_S:g} s")


def _produce(producer: Producer, topic: str, partition: int, rows: Iterator[Row], start: int) -> tuple[int, int, int]:
    """Produce the rows; return the numbers of skipped and sent ones, and the position after the last one.

    Raises:
        RuntimeError: one task has rows of two source partitions.
    """
    skipped = sent = 0
    end = start
    for source, found, offset, key, value in rows:
        if found != partition:
            raise RuntimeError(f"one task has rows of {source}-{found} and -{partition}: do not repartition before the sink")
        if offset < start:
            skipped += 1
            continue
        enqueue(producer, topic, partition, key, value)
        sent += 1
        end = offset + 1
    return skipped, sent, end


def read_rows(batches: Batches) -> Iterator[Row]:
    """Yield topic, partition, offset, key and value of each row."""
    for batch in batches:
        columns = batch.to_pydict()
        yield from zip(columns["topic"], columns["partition"], columns["offset"], columns["key"], columns["value"], strict=True)


def enqueue(
    producer: Producer, topic: str, partition: int, key: bytes, value: bytes, on_delivery: Reported | None = None
) -> None:
    """Hand a row to a producer as soon as it takes it."""
    while True:
        try:
            producer.produce(topic, key=key, value=value, partition=partition, on_delivery=on_delivery)
        except BufferError:
            producer.poll(0.05)
        else:
            return


def _new_producer(sink: Sink, source: str, partition: int) -> Producer:
    producer = Producer(
        {
            **_QUICK,
            **sink.options,
            "bootstrap.servers": sink.kafka,
            "transactional.id": transactional_id(sink.application, source, partition),
            "transaction.timeout.ms": _TRANSACTION_MS,
            "message.timeout.ms": _TRANSACTION_MS,
            "socket.timeout.ms": REQUEST_MS,
            "linger.ms": 5,
            "log_level": 3,
        }
    )
    producer.list_topics(timeout=_WITHIN_S)  # otherwise a 500 ms timer looks up the coordinator (rdkafka_txnmgr.c)
    return producer


def new_consumer(sink: Sink) -> Consumer:
    """Make a consumer that requests offsets, and hardly ever reads.

    read_committed makes the broker wait for a commit under way (require_stable, KIP-447).
    """
    return Consumer(
        {
            **_QUICK,
            **sink.options,
            "bootstrap.servers": sink.kafka,
            "group.id": sink.application,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "socket.timeout.ms": REQUEST_MS,
            "log_level": 3,
        }
    )


def committed_position(consumer: Consumer, source: str, partition: int) -> TopicPartition:
    """Return the end of the last committed transaction.

    Raises:
        RuntimeError: nothing was ever committed, not even at deployment, so any start would be a guess.
    """
    found = consumer.committed([TopicPartition(source, partition)], timeout=_WITHIN_S)[0]
    if found.error is not None:
        raise KafkaException(found.error)
    if found.offset < 0:
        raise RuntimeError(
            f"the consumer group has no position in {source}-{partition}: it was never seeded, or it expired "
            "(offsets.retention.minutes); commit the position of the sink's last row, 0 for an empty sink, and remove the "
            "checkpoint"
        )
    return found


def _committed(producer: Producer, consumer: Consumer, source: str, partition: int) -> TopicPartition:
    """Return `committed_position`; if the coordinator does not answer, wake it, so that the next attempt may succeed.

    Raises:
        RuntimeError, KafkaException: as in `committed_position`.
    """
    asked_s = monotonic_s()
    try:
        return committed_position(consumer, source, partition)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.NOT_COORDINATOR and monotonic_s() - asked_s >= _UNREPLICATED_S:
            wake_coordinator(producer, consumer, source, partition)
        raise


def wake_coordinator(producer: Producer, consumer: Consumer, source: str, partition: int) -> None:
    """Let the coordinator of the group write a record without effect: a position, in a transaction that is aborted.

    A coordinator that began before its log was replicated may never notice the replication. Then it answers no request for
    positions until its log gets a record (docs/findings/coordinator-waits-for-ever.md). The producer must not be used again.

    Raises:
        RuntimeError, KafkaException: nothing was written.
    """
    producer.begin_transaction()
    send_offsets(producer, [TopicPartition(source, partition, 0)], consumer.consumer_group_metadata(), _WITHIN_S)
    producer.abort_transaction(_WITHIN_S)


def stats_of(partition: int, skipped: int, sent: int, problem: str = "") -> pa.RecordBatch:
    """Make one row of `STATS`."""
    context = TaskContext.get()
    attempt = context.attemptNumber() if context else 0
    columns = [
        pa.array([partition], pa.int32()),
        pa.array([attempt], pa.int32()),
        pa.array([skipped], pa.int64()),
        pa.array([sent], pa.int64()),
        pa.array([problem], pa.string()),
    ]
    return pa.record_batch(columns, names=["part", "attempt", "skipped", "sent", "problem"])
