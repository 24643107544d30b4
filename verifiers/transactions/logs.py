"""The landed tables of an audit of transactions: a cluster's internal logs, and the batches of the topics that were written.

    extents/     topic string, partition int, begin long, settled long, end long
    batches/     topic string, partition int, first_offset long, last_offset long (inclusive), records int,
                 producer_id long (-1: none), producer_epoch int, transactional boolean,
                 control string (``COMMIT`` or ``ABORT`` for a marker, else null), timestamp_ms long,
                 by_broker boolean (whether a broker set the time: LogAppendTime; else the program may set any)
    positions/   log_partition int, offset long, consumer_group string, topic string, partition int,
                 position long (null: removed), committed_at_ms long
    states/      log_partition int, offset long, transactional_id string, producer_id long, producer_epoch int, state string,
                 topic string, partition int, started_ms long, updated_ms long
    starts/      consumer_group string, topic string, partition int, position long (-1: none), generation int (-1: none),
                 client_id string, asked_ms long, answered_ms long
    unfenced/    consumer_group string, producer_id long, sent_ms long
    produced/    transactional_id string, sent_ms long
    forgotten/   what string (the name of one of the last three tables), until_ms long

The last four come from the wire, and exist only if a proxy listened: the positions that coordinators gave to readers, where
these begin; the positions that were sent without a generation of the group; and the times when rows were sent in a transaction.
A proxy remembers only so much: it may have forgotten events up to ``until_ms``.

A log is read up to its ``end``, and it is whole from ``begin`` on: retention or compaction has removed records only before it.
Positions are the records of ``__consumer_offsets`` of the judged groups; the batches that hold them are among the batches.
States are the records of ``__transaction_state``, of every transactional id that wrote to one of these logs: one row for each
partition that a record names, and one without topic for a record that names none.

The ends are fixed in this order, so that the cluster may be at work meanwhile: the end of ``__transaction_state`` as
``settled``, the ends of all other logs, then the ``end`` of ``__transaction_state``. So a transaction that was completed before
``settled`` has all its markers, and a marker that was read has its transaction. ``settled`` of any other log is its end.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame

from verifiers import arrow

OFFSETS = "__consumer_offsets"
STATES = "__transaction_state"
_ROWS_AT_ONCE = 100_000
_TEXT, _LONG, _INT = pa.string(), pa.int64(), pa.int32()

Log = tuple[str, int]
"""A topic, and a partition of it."""


class Extent(NamedTuple):
    """How far a log was read."""

    topic: str
    partition: int
    begin: int
    settled: int
    end: int


class Batch(NamedTuple):
    """A record batch, by its header."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    records: int
    producer_id: int
    producer_epoch: int
    transactional: bool
    control: str | None
    timestamp_ms: int
    by_broker: bool = False


class Position(NamedTuple):
    """A position of a group; None if it was removed."""

    log_partition: int
    offset: int
    consumer_group: str
    topic: str
    partition: int
    position: int | None
    committed_at_ms: int


class State(NamedTuple):
    """A state of a transaction, and one of the partitions in it."""

    log_partition: int
    offset: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    topic: str | None
    partition: int | None
    started_ms: int
    updated_ms: int


class Start(NamedTuple):
    """A position that a coordinator gave to a reader, between two moments."""

    consumer_group: str
    topic: str
    partition: int
    position: int
    generation: int
    client_id: str
    asked_ms: int
    answered_ms: int


class Unfenced(NamedTuple):
    """Positions of a transaction that were sent without a generation: a consumer that its group has excluded can send them."""

    consumer_group: str
    producer_id: int
    sent_ms: int


class Produced(NamedTuple):
    """A request that sent rows in a transaction, and its time, by the clock of the proxy."""

    transactional_id: str
    sent_ms: int


class Forgotten(NamedTuple):
    """The time up to which observations from the wire may have been forgotten."""

    what: str
    until_ms: int


SCHEMAS: Mapping[str, pa.Schema] = {
    "extents": pa.schema([("topic", _TEXT), ("partition", _INT), ("begin", _LONG), ("settled", _LONG), ("end", _LONG)]),
    "batches": pa.schema(
        [
            ("topic", _TEXT),
            ("partition", _INT),
            ("first_offset", _LONG),
            ("last_offset", _LONG),
            ("records", _INT),
            ("producer_id", _LONG),
            ("producer_epoch", _INT),
            ("transactional", pa.bool_()),
            ("control", _TEXT),
            ("timestamp_ms", _LONG),
            ("by_broker", pa.bool_()),
        ]
    ),
    "positions": pa.schema(
        [
            ("log_partition", _INT),
            ("offset", _LONG),
            ("consumer_group", _TEXT),
            ("topic", _TEXT),
            ("partition", _INT),
            ("position", _LONG),
            ("committed_at_ms", _LONG),
        ]
    ),
    "states": pa.schema(
        [
            ("log_partition", _INT),
            ("offset", _LONG),
            ("transactional_id", _TEXT),
            ("producer_id", _LONG),
            ("producer_epoch", _INT),
            ("state", _TEXT),
            ("topic", _TEXT),
            ("partition", _INT),
            ("started_ms", _LONG),
            ("updated_ms", _LONG),
        ]
    ),
    "starts": pa.schema(
        [
            ("consumer_group", _TEXT),
            ("topic", _TEXT),
            ("partition", _INT),
            ("position", _LONG),
            ("generation", _INT),
            ("client_id", _TEXT),
            ("asked_ms", _LONG),
            ("answered_ms", _LONG),
        ]
    ),
    "unfenced": pa.schema([("consumer_group", _TEXT), ("producer_id", _LONG), ("sent_ms", _LONG)]),
    "produced": pa.schema([("transactional_id", _TEXT), ("sent_ms", _LONG)]),
    "forgotten": pa.schema([("what", _TEXT), ("until_ms", _LONG)]),
}
FROM_THE_WIRE = ("starts", "unfenced", "produced", "forgotten")
_LATER = {"batches": {"by_broker": False}}
"""Columns that older logs lack -> their value."""
_ONCE: Mapping[str, tuple[str, ...]] = {
    "extents": ("topic", "partition"),
    "batches": ("topic", "partition", "first_offset"),
    "positions": ("log_partition", "offset"),
    "states": ("log_partition", "offset", "topic", "partition"),
}
"""Table -> columns that identify a row."""
_ROWS: Mapping[str, Any] = {
    "extents": Extent,
    "batches": Batch,
    "positions": Position,
    "states": State,
    "starts": Start,
    "unfenced": Unfenced,
    "produced": Produced,
    "forgotten": Forgotten,
}
_ORDER: Mapping[str, tuple[str, ...]] = {
    "extents": ("topic", "partition"),
    "batches": ("topic", "partition", "first_offset"),
    "positions": ("log_partition", "offset"),
    "states": ("log_partition", "offset", "topic", "partition"),
    "starts": ("consumer_group", "topic", "partition", "answered_ms"),
    "unfenced": ("consumer_group", "producer_id", "sent_ms"),
    "produced": ("transactional_id", "sent_ms"),
    "forgotten": ("what", "until_ms"),
}


class LogsError(ValueError):
    """Landed logs are missing or of another shape; the message says what, where, and what to do."""


@dataclass(frozen=True, slots=True)
class Logs:
    """The tables, in the order of the logs; those from the wire are empty if no proxy listened."""

    extents: pa.Table
    batches: pa.Table
    positions: pa.Table
    states: pa.Table
    starts: pa.Table
    unfenced: pa.Table
    produced: pa.Table
    forgotten: pa.Table

    @classmethod
    def of(cls, **tables: pa.Table) -> "Logs":
        """Make the logs from tables, with rows in any order.

        Raises:
            LogsError: a column is missing or of another type.
        """
        heard = {name: table(name, ()) for name in FROM_THE_WIRE}
        return cls(**{name: _contracted(name, (heard | tables)[name]) for name in SCHEMAS})

    @classmethod
    def of_frames(cls, frames: Mapping[str, DataFrame]) -> "Logs":
        """Make the logs from Spark's frames."""
        return cls.of(**{name: arrow.table(frame) for name, frame in frames.items()})

    def rows(self, name: str) -> Iterator[Any]:
        """Yield the rows of a table as named tuples."""
        make = _ROWS[name]
        for some in getattr(self, name).to_batches(_ROWS_AT_ONCE):
            yield from map(make, *(column.to_pylist() for column in some.columns))


def table(name: str, rows: Iterable[tuple[Any, ...]]) -> pa.Table:
    """Make a table of rows."""
    columns = list(zip(*rows, strict=True)) or [()] * len(SCHEMAS[name])
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMAS[name], strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMAS[name])


def complete_from(low: int, end: int, batches: Iterable[Batch]) -> int:
    """Find the offset from which on nothing was removed from a log; its batches are in order.

    Compaction leaves holes between batches, and batches with fewer records than offsets.
    """
    begin = expected = low
    for batch in batches:
        if batch.first_offset != expected:
            begin = batch.first_offset
        expected = batch.last_offset + 1
        if batch.records != expected - batch.first_offset:
            begin = expected
    return begin if expected >= end else end


def write(folder: Path, logs: Logs) -> None:
    """Write one folder of Parquet for each table."""
    for name in SCHEMAS:
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        parquet.write_table(getattr(logs, name), place / "part-0.parquet")


def load(folder: Path) -> Logs:
    """Read landed logs.

    Raises:
        LogsError: a table is missing, of another shape, was landed twice, or has lost rows.
    """
    there = [name for name in SCHEMAS if name not in FROM_THE_WIRE or (folder / name).exists()]
    found = Logs.of(**{name: _read(folder / name) for name in there})
    problem = next(_wrong(found), None)
    if problem is not None:
        raise LogsError(f"{folder}: {problem}: land the logs again, into a folder of their own")
    return found


def _wrong(logs: Logs) -> Iterator[str]:
    """Yield signs that the logs were landed twice, or have lost rows."""
    for name, columns in _ONCE.items():
        rows = getattr(logs, name).select(columns)
        if rows.num_rows != rows.group_by(list(columns)).aggregate([]).num_rows:
            yield f"{name} has rows with the same {', '.join(columns)} twice: it was landed twice"
    extents = {(one.topic, one.partition): one for one in logs.rows("extents")}
    if not any(topic == STATES for topic, _ in extents):
        yield f"extents has no partition of {STATES}: nothing was landed, or rows are missing"
    batches: dict[Log, list[Batch]] = defaultdict(list)
    for batch in logs.rows("batches"):
        batches[batch.topic, batch.partition].append(batch)
    homes = {(OFFSETS, one.log_partition) for one in logs.rows("positions")}
    homes |= {(STATES, one.log_partition) for one in logs.rows("states")}
    for topic, partition in sorted((batches.keys() | homes) - extents.keys()):
        yield f"extents has no row of partition {partition} of {topic}, but other tables have"
    for log, extent in sorted(extents.items()):
        if log[0] != STATES:
            yield from _missing(extent, batches[log])
    yield from _without_batch(logs, batches)


def _missing(extent: Extent, batches: Sequence[Batch]) -> Iterator[str]:
    """Yield holes between the begin and the end of a log, and batches that overlap."""
    where = f"partition {extent.partition} of {extent.topic}"
    expected = extent.begin
    for before, batch in pairwise(batches):
        if batch.first_offset <= before.last_offset:
            yield f"batches overlap at offset {batch.first_offset} of {where}: it was landed twice"
    for batch in batches:
        if batch.first_offset < extent.begin:
            continue
        if batch.first_offset != expected:
            yield f"batches has none at offset {expected} of {where}, which should be whole from offset {extent.begin} on"
            return
        expected = batch.last_offset + 1
    if expected < extent.end:
        yield f"batches has none at offset {expected} of {where}, though it was read up to offset {extent.end}"


def _without_batch(logs: Logs, batches: Mapping[Log, Sequence[Batch]]) -> Iterator[str]:
    """Yield the first position that lies in no batch; one below the begin of its log needs a batch, too."""
    for one in logs.rows("positions"):
        some = batches[OFFSETS, one.log_partition]
        at = bisect_right(some, one.offset, key=lambda batch: batch.first_offset) - 1
        if at < 0 or some[at].last_offset < one.offset:
            where = f"offset {one.offset} of partition {one.log_partition} of {OFFSETS}"
            yield f"positions has one at {where}, but batches has none there"
            return


def _read(place: Path) -> pa.Table:
    try:
        return parquet.read_table(place)
    except (OSError, pa.ArrowException) as error:
        raise LogsError(f"{place} is not a Parquet folder ({type(error).__name__}): land the logs again") from error


def _contracted(name: str, found: pa.Table) -> pa.Table:
    """Select the columns of the contract, in its order; Spark's columns may be nullable."""
    for column, value in _LATER.get(name, {}).items():
        if column not in found.schema.names:
            found = found.append_column(SCHEMAS[name].field(column), pa.array([value] * len(found), pa.bool_()))
    types = {field.name: field.type for field in found.schema}
    wrong = [
        f"{field.name} {field.type} (found: {types.get(field.name, 'none')})"
        for field in SCHEMAS[name]
        if types.get(field.name) != field.type
    ]
    if wrong:
        raise LogsError(f"{name}: wrong or missing columns: {', '.join(wrong)}; select and cast them")
    return found.select(SCHEMAS[name].names).sort_by([(column, "ascending") for column in _ORDER[name]])
