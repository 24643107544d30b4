"""One worker: a member of the consumer group that reads batches and delivers them.

A transaction begins when its batch has been read, and ends before the next read. Kafka's client reassigns partitions only while
it reads, so a worker loses no partition in the middle of its transaction; the group refuses the transaction of a worker that is
too slow for that (its generation is in it, KIP-447). Records that were read during a reassignment are discarded: their new
owner begins at the committed position.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException, Message, TopicPartition

from pipelines.messages import ThrottledEvents, monotonic_s
from pipelines.transactional.delivery import Batch, BrokenError, Delivery, FencedError, Place, PositionsFirst, RowsFirst
from pipelines.transactional.options import Options, speaker, transactional_id
from pipelines.transactional.transactions import Transactions

_ASK_S = 2.0
_READ_S = 0.5  # interval of looks whether it shall stop
_RESET = {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END}
_NOT_YET = frozenset({KafkaError._STATE, KafkaError._UNKNOWN_PARTITION})  # noqa: SLF001 - they have no public names


class Worker:
    """Runs until it is told to stop, is fenced, or cannot go on."""

    def __init__(
        self,
        number: int,
        options: Options,
        place: Place,
        events: ThrottledEvents,
        stopped: Callable[[], bool],
        transform: Callable[[Sequence[Message]], Batch] | None = None,
    ) -> None:
        """Make its clients, without any request to a broker.

        Args:
            number: from 0.
            stopped: returns whether it shall stop.
            transform: makes the batch to deliver from records; by default the squares of their values.
        """
        self._transform = transform or partial(
            transformed, sink_partitions=options.sink_partitions, beyond=int(options.stored_offset == "next")
        )
        self._number = number
        self._options = options
        self._place = place
        self._events = events
        self._stopped = stopped
        self._delivery = delivery(number, options, place, events, stopped)
        self._consumer = Consumer(member(number, options, place))
        self._mine: frozenset[int] = frozenset()
        self._changed = False
        self._transaction = 0
        self.ready = False
        self.ended_because = ""

    def run(self) -> None:
        """Work, and report the reason of an end without a stop."""
        try:
            self._delivery.prepare()
            self._consumer.subscribe([self._place.source], on_assign=self._given, on_revoke=self._taken, on_lost=self._taken)
            while not self._stopped():
                self._turn()
        except FencedError as error:
            self._end("fenced", error)
        except (BrokenError, KafkaException) as error:
            self._end("broken", error)
        finally:
            self._consumer.close()

    def _end(self, event: str, error: Exception) -> None:
        self.ended_because = str(error)
        self._events.say(event, worker=self._number, why=self.ended_because)

    def _turn(self) -> None:
        self._changed = False
        records = self._read()
        if self._changed:  # reads before and after that are mixed, so none is stated
            self._state("start", [(partition, None) for partition in sorted(self._mine)])
            self._rewind(records)
        elif records:
            self._state("got", [(_partition(record), record.offset()) for record in records])
            self._deliver(records)

    def _read(self) -> list[Message]:
        """Read a whole batch; a part of it once the interval is over, partitions were reassigned, or the worker shall stop."""
        wanted, until_s = self._options.batch_records, monotonic_s() + self._options.interval_ms / 1000
        records: list[Message] = []
        while True:
            left_s = until_s - monotonic_s()
            messages = self._consumer.consume(wanted - len(records), max(0.0, min(_READ_S, left_s)))
            for message in messages:
                _refuse(message)
            records += [message for message in messages if not message.error()]
            if len(records) >= wanted or left_s <= _READ_S or self._changed or self._stopped():
                return records

    def _deliver(self, records: Sequence[Message]) -> None:
        batch, began_s = self._transform(records), monotonic_s()
        self._transaction += 1
        failed = self._delivery.deliver(batch, self._consumer)
        said = {"transaction": self._transaction, "ms": round(1000 * (monotonic_s() - began_s))}
        if failed:
            self._events.count("aborted", self._number, len(batch.rows), why=failed, **said)
            self._retry(records)
        else:
            self._events.count("committed", self._number, len(batch.rows), positions=batch.ends, **said)

    def _retry(self, records: Sequence[Message]) -> None:
        """Handle an undelivered batch; two of the three ways are mistakes of real programs."""
        if self._options.failed_batch == "forgotten":
            return
        if self._options.open_outcome == "rolled_back":
            self._repeat(records)
        else:
            self._rewind(records)

    def _repeat(self, records: Sequence[Message]) -> None:
        """Read these again, whether they were committed or not."""
        first: dict[int, int] = {}
        for record in records:
            first.setdefault(_partition(record), record.offset() or 0)
        again = {partition: offset for partition, offset in sorted(first.items()) if partition in self._mine}
        self._state("start", list(again.items()))
        for partition, offset in again.items():
            self._seek(TopicPartition(self._place.source, partition, offset))

    def _rewind(self, records: Sequence[Message]) -> None:
        """Read these again, unless they were committed after all.

        Raises:
            BrokenError: a partition has no committed position, so any start would be a guess.
        """
        again = {_partition(record) for record in records} & self._mine
        positions = self._positions(again)
        self._state("start", [(partition, _known(positions[partition])) for partition in sorted(again & positions.keys())])
        for partition in again & positions.keys():
            self._seek(TopicPartition(self._place.source, partition, positions[partition]))

    def _state(self, word: str, places: Sequence[tuple[int, int | None]]) -> None:
        if places:
            stated = {word: [[self._place.source, *place] for place in places]}
            self._events.state(**stated, by=speaker(self._number))

    def _positions(self, partitions: frozenset[int] | set[int]) -> Mapping[int, int]:
        """Return the group's positions; repeat the request until it answers, or the worker is told to stop."""
        asked = [TopicPartition(self._place.source, partition) for partition in sorted(partitions)]
        while asked and not self._stopped():
            try:
                answered = self._consumer.committed(asked, timeout=_ASK_S)
            except KafkaException:
                continue  # the coordinator moves or is gone; repeat
            if all(one.error is None for one in answered):
                found = {one.partition: one.offset for one in answered if one.offset >= 0}
                return begins(asked, found, self._options.auto_offset_reset)
        return {}

    def _seek(self, position: TopicPartition) -> None:
        try:
            self._consumer.seek(position)
        except KafkaException as raised:
            if raised.args[0].code() not in _NOT_YET:
                raise  # an unfetched partition begins at the committed position by itself

    def _given(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._mine = frozenset(one.partition for one in partitions)
        self._changed = self.ready = True
        self._events.say("assigned", worker=self._number, partitions=sorted(self._mine))

    def _taken(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        self._mine = frozenset()
        self._changed = True


def begins(asked: Sequence[TopicPartition], found: Mapping[int, int], reset: str) -> Mapping[int, int]:
    """Return partition -> its committed position, or the one that ``auto.offset.reset`` stands for.

    Raises:
        BrokenError: there is neither, and the worker must not guess.
    """
    missing = [one for one in asked if one.partition not in found]
    if missing and reset not in _RESET:
        raise BrokenError(f"the group has no position in {', '.join(f'{one.topic}-{one.partition}' for one in missing)}")
    return {**found, **{one.partition: _RESET[reset] for one in missing}}


def delivery(number: int, options: Options, place: Place, events: ThrottledEvents, stopped: Callable[[], bool]) -> Delivery:
    if options.delivery == "exactly_once":
        return Transactions(number, options, place, events, stopped)
    return RowsFirst(options, place) if options.delivery == "at_least_once" else PositionsFirst(number, options, place, events)


def member(number: int, options: Options, place: Place) -> dict[str, str | int | bool]:
    """Return the settings of a consumer; the range assignor assigns partitions in the order of the members' names."""
    return {
        **place.options,
        "bootstrap.servers": place.kafka,
        "group.id": place.group,
        "client.id": transactional_id(place.group, number),  # a member's id begins with it
        "partition.assignment.strategy": "range",
        "isolation.level": options.isolation,
        "enable.auto.commit": options.positions == "client",
        "enable.auto.offset.store": options.positions == "client",
        "auto.commit.interval.ms": 1000,
        "auto.offset.reset": options.auto_offset_reset,
        "session.timeout.ms": options.session_timeout_ms,
        "heartbeat.interval.ms": options.session_timeout_ms // 10,
        "max.poll.interval.ms": options.max_poll_interval_ms
        or max(options.session_timeout_ms, 3 * options.transaction_timeout_ms),
        "socket.timeout.ms": options.socket_timeout_ms,
        "fetch.wait.max.ms": 50,
        "fetch.error.backoff.ms": 100,
        "queued.min.messages": 10_000,
        "reconnect.backoff.max.ms": 1000,
        "log_level": 2,
    }


def transformed(records: Sequence[Message], sink_partitions: int = 0, beyond: int = 1) -> Batch:
    """Make the batch of these records: squares, each for its record's partition, or for that number mod so many.

    Args:
        records: in their order.
        sink_partitions: 0 keeps the partition.
        beyond: distance of the batch's position from the offset of its last record.

    Raises:
        BrokenError: a value is not an integer.
    """
    rows, ends = [], {}
    for record in records:
        partition, offset, value = _partition(record), record.offset() or 0, record.value()
        try:
            squared = int(value or b"") ** 2
        except ValueError as error:
            raise BrokenError(f"the value at offset {offset} of partition {partition} is not an integer: {value!r}") from error
        rows.append((partition % sink_partitions if sink_partitions else partition, record.key(), str(squared).encode()))
        ends[partition] = offset + beyond
    return Batch(rows, ends)


def _partition(record: Message) -> int:
    partition = record.partition()
    assert partition is not None  # noqa: S101 - None only for a message that was never sent
    return partition


def _known(position: int) -> int | None:
    """Return a position; None if it stands for an end of the log."""
    return position if position >= 0 else None


def _refuse(message: Message) -> None:
    """End the worker if it has no position to read from; the client recovers from other errors by itself.

    Raises:
        BrokenError: the group has no position, or it is outside the log.
    """
    error = message.error()
    if error and error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001 - it has no public name
        raise BrokenError(
            f"no position to read from: {error}; seed the consumer group, or check whether the source was truncated"
        )
