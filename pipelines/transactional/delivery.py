"""A worker's delivery of a batch to the sink: two steps, rows and positions, in three orders.

`pipelines.transactional.transactions` does both steps in one transaction. Here are the two orders without transactions, and
the common parts of all three.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from pipelines.messages import ThrottledEvents
from pipelines.transactional.options import Options

Reported = Callable[[KafkaError | None, Message], None]


class FencedError(Exception):
    """Another producer has this transactional.id now: this worker must not write any more."""


class BrokenError(Exception):
    """The worker cannot go on, and a restart may not help."""


class RowsError(Exception):
    """The rows of a batch could not be made completely, so written ones must not become visible."""


class Rows(Protocol):
    """Rows in their order: partition, key, value. They may be made while they are read; then their number is known after."""

    def __iter__(self) -> Iterator[tuple[int, bytes | None, bytes]]: ...

    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Place:
    """The cluster, topics and group of a worker.

    Attributes:
        group: the consumer group; transactional ids begin with its name.
        options: further options of its clients.
    """

    kafka: str
    source: str
    sink: str
    group: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows and positions that are delivered together.

    Attributes:
        rows: transformed rows, or rows that are transformed while they are read, which may raise RowsError in a transaction.
        ends: position after the last record, by source partition.
        beside: topic -> rows for that topic, not the sink, in the same transaction; they are read after `rows`.
    """

    rows: Rows
    ends: dict[int, int]
    beside: Mapping[str, Rows] = field(default_factory=dict)

    @property
    def keys(self) -> list[str]:
        """Keys of the rows, if they are known before they are read."""
        known = self.rows if isinstance(self.rows, Sequence) else ()
        return [key.decode(errors="replace") for _, key, _ in known if key is not None]

    def positions(self, source: str) -> list[TopicPartition]:
        return [TopicPartition(source, partition, end) for partition, end in sorted(self.ends.items())]


class Delivery(Protocol):
    """Delivers one batch after the other."""

    def prepare(self) -> None:
        """Prepare, once, before the first batch."""
        ...

    def deliver(self, batch: Batch, consumer: Consumer) -> str:
        """Deliver a batch.

        Returns:
            The reason why it was not delivered and must be read again from the committed positions; empty if it was delivered.

        Raises:
            FencedError: another worker does this work now.
            BrokenError: this worker cannot go on.
        """
        ...


class RowsFirst:
    """``at_least_once``: a producer that retries; positions are committed when all rows are acknowledged."""

    def __init__(self, options: Options, place: Place) -> None:
        """Make the producer."""
        self._place = place
        self._commits = options.positions == "application"
        self._looks = options.failed_batch == "again"
        timeout_ms = options.transaction_timeout_ms
        self._within_s = 1.2 * timeout_ms / 1000
        self._producer = Producer(
            common(options, place)
            | {"enable.idempotence": options.idempotence, "acks": options.acks, "message.timeout.ms": timeout_ms}
        )

    def prepare(self) -> None:
        """Do nothing."""

    def deliver(self, batch: Batch, consumer: Consumer) -> str:
        refused = written(self._producer, self._place.sink, batch.rows, self._within_s)
        if refused and self._looks:
            return f"{len(refused)} rows were not written: {refused[0]}"
        return committed(consumer, batch.positions(self._place.source)) if self._commits else ""


class PositionsFirst:
    """``at_most_once``: no row is sent twice, not even an unwritten one."""

    def __init__(self, worker: int, options: Options, place: Place, events: ThrottledEvents) -> None:
        """Make the producer."""
        self._worker = worker
        self._place = place
        self._events = events
        timeout_ms = 2 * options.socket_timeout_ms
        self._within_s = 1.2 * timeout_ms / 1000
        self._producer = Producer(
            common(options, place)
            | {"enable.idempotence": False, "retries": 0, "acks": options.acks, "message.timeout.ms": timeout_ms}
        )

    def prepare(self) -> None:
        """Do nothing."""

    def deliver(self, batch: Batch, consumer: Consumer) -> str:
        """Commit, then write; unwritten rows are reported as ``dropped``, and lost."""
        failed = committed(consumer, batch.positions(self._place.source))
        if failed:
            return failed
        refused = written(self._producer, self._place.sink, batch.rows, self._within_s)
        if refused:
            self._events.count("dropped", self._worker, len(refused), why=str(refused[0]))
        return ""


def common(options: Options, place: Place) -> dict[str, str | int | float | bool]:
    """Return the settings of every producer."""
    at_most: dict[str, str | int | float | bool] = {"batch.num.messages": options.request_records}
    return {
        **place.options,
        **(at_most if options.request_records else {}),
        "bootstrap.servers": place.kafka,
        "socket.timeout.ms": options.socket_timeout_ms,
        "retry.backoff.ms": options.retry_backoff_ms,
        "retry.backoff.max.ms": max(1000, options.retry_backoff_ms),
        "reconnect.backoff.max.ms": 1000,
        "linger.ms": options.linger_ms,
        "log_level": 2,
    }


def enqueue(producer: Producer, topic: str, rows: Rows, on_delivery: Reported | None = None) -> None:
    """Hand rows to a producer as fast as it takes them."""
    for partition, key, value in rows:
        while True:
            try:
                producer.produce(topic, key=key, value=value, partition=partition, on_delivery=on_delivery)
            except BufferError:
                producer.poll(0.05)
            else:
                break


def written(producer: Producer, topic: str, rows: Rows, within_s: float) -> list[KafkaError]:
    """Write rows and wait for the answers; return one error for each unacknowledged row."""
    refused: list[KafkaError] = []

    def reported(error: KafkaError | None, _message: Message) -> None:
        if error:
            refused.append(error)

    enqueue(producer, topic, rows, reported)
    left = producer.flush(within_s)
    return refused + [KafkaError(KafkaError._TIMED_OUT)] * left  # noqa: SLF001 - it has no public name


def committed(consumer: Consumer, positions: list[TopicPartition]) -> str:
    """Commit positions; return the reason of a failure, or an empty text."""
    try:
        answered = consumer.commit(offsets=positions, asynchronous=False)
    except KafkaException as raised:
        return str(raised.args[0])
    return next((str(one.error) for one in answered or [] if one.error), "")
