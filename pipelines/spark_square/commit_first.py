"""The sink at most once: the position of a task is committed before its rows are sent, and no row is sent twice.

    1  request the position of the last task of this source partition, and skip the rows before it: they were sent, or lost
    2  commit the position after the last row
    3  send the rows, without a retry; unacknowledged ones are lost, and reported

If a task dies between 2 and 3, its rows are lost: Spark repeats the task, which finds the position of the first attempt and
skips them. This is the order of `pipelines.transactional.delivery.PositionsFirst`, and the opposite of Spark's stock sink,
whose position is written to the checkpoint when all rows are acknowledged.

Its requirements are those of the exactly-once sink (`pipelines.spark_square.sink`): one task per source partition, and a
consumer group that has a position.
"""

from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from pipelines.messages import monotonic_s
from pipelines.spark_square.sink import (
    REQUEST_MS,
    Batches,
    Row,
    Sink,
    committed_position,
    enqueue,
    new_consumer,
    read_rows,
    stats_of,
)

_DELIVERED_MS = 30_000  # longer than the election of a leader takes
_COMMITTED_WITHIN_S = 30.0
_TURN_S = 0.5
_BEING_ELECTED = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)
_FLUSHED_S = 1.2 * _DELIVERED_MS / 1000


@dataclass(frozen=True, slots=True)
class CommitFirst:
    """The destination of batches, at most once."""

    sink: Sink

    def writer(self) -> Callable[[Batches], Batches]:
        """Return a function for ``mapInArrow``, like `Sink.writer`; ``sent`` counts the acknowledged rows."""
        return lambda batches: _write(self.sink, batches)


def _write(sink: Sink, batches: Batches) -> Batches:
    rows = list(read_rows(batches))
    if not rows:
        return
    source, partition, *_ = rows[0]
    consumer = new_consumer(sink)
    start = committed_position(consumer, source, partition).offset
    left = [row for row in rows if row[2] >= start]
    if left:
        _commit(consumer, TopicPartition(source, partition, left[-1][2] + 1))
    consumer.close()
    yield stats_of(partition, len(rows) - len(left), _sent(sink, partition, left))


def _commit(consumer: Consumer, position: TopicPartition) -> None:
    """Commit a position, and wait for the answer; repeat it while a coordinator is being elected.

    Raises:
        KafkaException: it was refused, or the outcome is unknown; Spark repeats the task, which reads the position, and the
            rows are lost.
    """
    until_s = monotonic_s() + _COMMITTED_WITHIN_S
    while (error := _refusal(consumer, position)) is not None:
        if error.code() not in _BEING_ELECTED or monotonic_s() >= until_s:
            raise KafkaException(error)
        consumer.poll(_TURN_S)


def _refusal(consumer: Consumer, position: TopicPartition) -> KafkaError | None:
    try:
        answered = consumer.commit(offsets=[position], asynchronous=False)
    except KafkaException as raised:
        error: KafkaError = raised.args[0]
        return error
    return next((one.error for one in answered or [] if one.error), None)


def _sent(sink: Sink, partition: int, rows: list[Row]) -> int:
    """Send each row once; return the number of acknowledged ones."""
    acknowledged = 0

    def reported(error: KafkaError | None, _message: Message) -> None:
        nonlocal acknowledged
        acknowledged += error is None

    if not rows:
        return 0
    producer = _new_producer(sink)
    for *_, key, value in rows:
        enqueue(producer, sink.topic, partition, key, value, reported)
    producer.flush(_FLUSHED_S)
    return acknowledged


def _new_producer(sink: Sink) -> Producer:
    return Producer(
        {
            **sink.options,
            "bootstrap.servers": sink.kafka,
            "enable.idempotence": False,
            "retries": 0,
            "message.timeout.ms": _DELIVERED_MS,
            "socket.timeout.ms": REQUEST_MS,
            "linger.ms": 1000,  # it is flushed before: a task's rows make as few requests as possible
            "log_level": 3,
        }
    )
