"""How a batch gets from a worker into the sink: three orders of the same two steps, rows and positions.

Both in one transaction is `pipelines.transactional.transactions`; here is what all share, and the two that have none.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from pipelines.throttled_events import Voice
from pipelines.transactional.pipeline import ConsumeTransformProduce

Rows = Sequence[tuple[int, bytes | None, bytes]]
Reported = Callable[[KafkaError | None, Message], None]


class FencedError(Exception):
    """Another producer has this transactional.id now: whatever this worker holds is no longer its own."""


class BrokenError(Exception):
    """The worker cannot go on, and a restart may not help."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a worker works.

    Attributes:
        options: of its clients.
    """

    kafka: str
    source: str
    sink: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Batch:
    """What one transaction holds.

    Attributes:
        rows: partition, key, value; already transformed.
        ends: position after the last record, by source partition.
    """

    rows: Rows
    ends: dict[int, int]

    def positions(self, source: str) -> list[TopicPartition]:
        """As Kafka's clients want them."""
        return [TopicPartition(source, partition, end) for partition, end in sorted(self.ends.items())]


class Delivery(Protocol):
    """Delivers batches."""

    def prepare(self) -> None:
        """What is done once, before the first batch."""
        ...

    def deliver(self, batch: Batch, consumer: Consumer) -> str:
        """Deliver it.

        Returns:
            Why it was not delivered, and must be read again from the committed positions; empty when it was.

        Raises:
            FencedError: somebody else does this work now.
            BrokenError: nobody can do it.
        """
        ...


class RowsFirst:
    """``at_least_once``: an idempotent producer, positions when all rows are acknowledged."""

    def __init__(self, options: ConsumeTransformProduce, place: Place) -> None:
        """Make the producer."""
        self._place = place
        timeout_ms = options.transaction_timeout_ms
        self._within_s = 1.2 * timeout_ms / 1000
        self._producer = Producer(
            common(options, place) | {"enable.idempotence": True, "acks": "all", "message.timeout.ms": timeout_ms}
        )

    def prepare(self) -> None:
        """Nothing."""

    def deliver(self, batch: Batch, consumer: Consumer) -> str:
        """Rows, then positions."""
        refused = written(self._producer, self._place.sink, batch.rows, self._within_s)
        if refused:
            return f"{len(refused)} rows were not written: {refused[0]}"
        return committed(consumer, batch.positions(self._place.source))


class PositionsFirst:
    """``at_most_once``: no row is sent twice, and none is asked after."""

    def __init__(self, worker: int, options: ConsumeTransformProduce, place: Place, voice: Voice) -> None:
        """Make the producer."""
        self._worker = worker
        self._place = place
        self._voice = voice
        timeout_ms = 2 * options.socket_timeout_ms
        self._within_s = 1.2 * timeout_ms / 1000
        self._producer = Producer(
            common(options, place)
            | {"enable.idempotence": False, "retries": 0, "acks": "all", "message.timeout.ms": timeout_ms}
        )

    def prepare(self) -> None:
        """Nothing."""

    def deliver(self, batch: Batch, consumer: Consumer) -> str:
        """Positions, then rows; what is not written is said, and lost."""
        failed = committed(consumer, batch.positions(self._place.source))
        if failed:
            return failed
        refused = written(self._producer, self._place.sink, batch.rows, self._within_s)
        if refused:
            self._voice.count("dropped", self._worker, len(refused), why=str(refused[0]))
        return ""


def common(options: ConsumeTransformProduce, place: Place) -> dict[str, str | int | float | bool]:
    """Of every producer."""
    return {
        **place.options,
        "bootstrap.servers": place.kafka,
        "socket.timeout.ms": options.socket_timeout_ms,
        "retry.backoff.ms": options.retry_backoff_ms,
        "retry.backoff.max.ms": max(1000, options.retry_backoff_ms),
        "reconnect.backoff.max.ms": 1000,
        "linger.ms": 5,
        "log_level": 2,
    }


def enqueue(producer: Producer, topic: str, rows: Rows, on_delivery: Reported | None = None) -> None:
    """Hand rows to a producer, as fast as it takes them."""
    for partition, key, value in rows:
        while True:
            try:
                producer.produce(topic, key=key, value=value, partition=partition, on_delivery=on_delivery)
            except BufferError:
                producer.poll(0.05)
            else:
                break


def written(producer: Producer, topic: str, rows: Rows, within_s: float) -> list[KafkaError]:
    """Write rows and wait for the answers; returns an error for each row that was not acknowledged."""
    refused: list[KafkaError] = []

    def reported(error: KafkaError | None, _message: Message) -> None:
        if error:
            refused.append(error)

    enqueue(producer, topic, rows, reported)
    left = producer.flush(within_s)
    return refused + [KafkaError(KafkaError._TIMED_OUT)] * left  # noqa: SLF001 - no other name


def committed(consumer: Consumer, positions: list[TopicPartition]) -> str:
    """Commit positions; returns why it failed, or nothing."""
    try:
        answered = consumer.commit(offsets=positions, asynchronous=False)
    except KafkaException as raised:
        return str(raised.args[0])
    return next((str(one.error) for one in answered or [] if one.error), "")
