"""One worker: a member of the consumer group, and what delivers its batches.

A transaction begins when its batch has been read and ends before anything more is read. Kafka's client reassigns partitions
only while it reads, so none is ever taken from a worker in the middle of its transaction; one that is too slow for that is
refused by the group (its generation is in the transaction, KIP-447). What was read when partitions changed hands is thrown
away: its new owner begins at the committed position.
"""

from collections.abc import Callable, Mapping, Sequence

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException, Message, TopicPartition

from pipelines.kafka import known
from pipelines.pace import monotonic_s
from pipelines.throttled_events import Voice
from pipelines.transactional.delivery import Batch, BrokenError, Delivery, FencedError, Place, PositionsFirst, RowsFirst
from pipelines.transactional.pipeline import ConsumeTransformProduce, application, transactional_id
from pipelines.transactional.transactions import Transactions

_ASK_S = 2.0
_RESET = {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END}
_NOT_YET = frozenset({KafkaError._STATE, KafkaError._UNKNOWN_PARTITION})  # noqa: SLF001 - no other names


class Worker:
    """Runs until it is told to stop, is fenced, or cannot go on."""

    def __init__(
        self, number: int, options: ConsumeTransformProduce, place: Place, voice: Voice, stopped: Callable[[], bool]
    ) -> None:
        """Make its clients; nothing is asked of a broker yet.

        Args:
            number: from 0.
            stopped: whether it is told to stop.
        """
        self._number = number
        self._options = options
        self._place = place
        self._voice = voice
        self._stopped = stopped
        self._delivery = delivery(number, options, place, voice, stopped)
        self._consumer = Consumer(member(number, options, place))
        self._mine: frozenset[int] = frozenset()
        self._changed = False
        self._transaction = 0
        self.ready = False

    def run(self) -> None:
        """Work, and say why it ended when it was not told to."""
        try:
            self._delivery.prepare()
            self._consumer.subscribe([self._place.source], on_assign=self._given, on_revoke=self._taken, on_lost=self._taken)
            while not self._stopped():
                self._turn()
        except FencedError as error:
            self._voice.tell("fenced", worker=self._number, why=str(error))
        except (BrokenError, KafkaException) as error:
            self._voice.tell("broken", worker=self._number, why=str(error))
        finally:
            self._consumer.close()

    def _turn(self) -> None:
        self._changed = False
        messages = self._consumer.consume(self._options.batch_records, self._options.interval_ms / 1000)
        for message in messages:
            _refuse(message)
        records = [message for message in messages if not message.error()]
        if self._changed:
            self._rewind(records)
        elif records:
            self._deliver(records)

    def _deliver(self, records: Sequence[Message]) -> None:
        batch, began_s = transformed(records), monotonic_s()
        self._transaction += 1
        failed = self._delivery.deliver(batch, self._consumer)
        said = {"transaction": self._transaction, "ms": round(1000 * (monotonic_s() - began_s))}
        if failed:
            self._voice.count("aborted", self._number, len(batch.rows), why=failed, **said)
            self._rewind(records)
        else:
            self._voice.count("committed", self._number, len(batch.rows), positions=batch.ends, **said)

    def _rewind(self, records: Sequence[Message]) -> None:
        """Read these again, unless they were committed after all.

        Raises:
            BrokenError: a partition has no committed position, and to begin anywhere would be a guess.
        """
        again = {_partition(record) for record in records} & self._mine
        positions = self._positions(again)
        for partition in again & positions.keys():
            self._seek(TopicPartition(self._place.source, partition, positions[partition]))

    def _positions(self, partitions: frozenset[int] | set[int]) -> Mapping[int, int]:
        """The group's; asked until it answers, or the worker is told to stop."""
        asked = [TopicPartition(self._place.source, partition) for partition in sorted(partitions)]
        while asked and not self._stopped():
            try:
                found = known(self._consumer.committed(asked, timeout=_ASK_S))
            except KafkaException:
                continue  # its coordinator moves or is gone; it is asked again
            return begins(asked, found, self._options.auto_offset_reset)
        return {}

    def _seek(self, position: TopicPartition) -> None:
        try:
            self._consumer.seek(position)
        except KafkaException as raised:
            if raised.args[0].code() not in _NOT_YET:
                raise  # one that is not fetched yet begins at the committed position by itself

    def _given(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._mine = frozenset(one.partition for one in partitions)
        self._changed = self.ready = True
        self._voice.tell("assigned", worker=self._number, partitions=sorted(self._mine))

    def _taken(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        self._mine = frozenset()
        self._changed = True


def begins(asked: Sequence[TopicPartition], found: Mapping[int, int], reset: str) -> Mapping[int, int]:
    """Partition -> its position, or the one that ``auto.offset.reset`` means.

    Raises:
        BrokenError: there is none, and the worker shall not guess.
    """
    missing = [one for one in asked if one.partition not in found]
    if missing and reset not in _RESET:
        raise BrokenError(f"the group has no position in {', '.join(f'{one.topic}-{one.partition}' for one in missing)}")
    return {**found, **{one.partition: _RESET[reset] for one in missing}}


def delivery(
    number: int, options: ConsumeTransformProduce, place: Place, voice: Voice, stopped: Callable[[], bool]
) -> Delivery:
    """The one that the options ask for."""
    if options.delivery == "exactly_once":
        return Transactions(number, options, place, voice, stopped)
    return RowsFirst(options, place) if options.delivery == "at_least_once" else PositionsFirst(number, options, place, voice)


def member(number: int, options: ConsumeTransformProduce, place: Place) -> dict[str, str | int | bool]:
    """Of a consumer: eager and by range, so that which worker has which partition follows from the order of their names."""
    return {
        **place.options,
        "bootstrap.servers": place.kafka,
        "group.id": application(place.source),
        "client.id": transactional_id(place.source, number),  # a member's id begins with it
        "partition.assignment.strategy": "range",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": options.auto_offset_reset,
        "session.timeout.ms": options.session_timeout_ms,
        "heartbeat.interval.ms": options.session_timeout_ms // 10,
        "max.poll.interval.ms": max(options.session_timeout_ms, 3 * options.transaction_timeout_ms),
        "socket.timeout.ms": options.socket_timeout_ms,
        "fetch.wait.max.ms": 50,
        "fetch.error.backoff.ms": 100,
        "queued.min.messages": 10_000,
        "reconnect.backoff.max.ms": 1000,
        "log_level": 2,
    }


def transformed(records: Sequence[Message]) -> Batch:
    """Squared, each row for the partition that its record came from.

    Raises:
        BrokenError: a value is no integer.
    """
    rows, ends = [], {}
    for record in records:
        partition, offset, value = _partition(record), record.offset() or 0, record.value()
        try:
            squared = int(value or b"") ** 2
        except ValueError as error:
            raise BrokenError(f"the value at offset {offset} of partition {partition} is no integer: {value!r}") from error
        rows.append((partition, record.key(), str(squared).encode()))
        ends[partition] = offset + 1
    return Batch(rows, ends)


def _partition(record: Message) -> int:
    partition = record.partition()
    assert partition is not None  # noqa: S101 - only of a message that was never sent
    return partition


def _refuse(message: Message) -> None:
    """Other errors pass: the client goes on by itself.

    Raises:
        BrokenError: nobody knows where to read on.
    """
    error = message.error()
    if error and error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001 - no other name
        raise BrokenError(f"no position to read from: {error}; seed the consumer group, or see whether the source was cut")
