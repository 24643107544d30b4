"""Logs to plant anomalies in.

A clean log holds the squares of 0, 1, 2, … as a transactional pipeline leaves them: a marker after every fourth record of a
partition takes an offset that no reader sees, and only partition 0 begins at offset 0. With three partitions and 24 records::

    partition 0   id      0   3   6   9   -  12  15  18  21   -
                  offset  0   1   2   3   4   5   6   7   8   9   end 10
    partition 1   id      1   4   7  10   -  …                    offsets from 100
    partition 2   id      2   5   8  11   -  …                    offsets from 200

What a log does not say is derived, as a sound broker, writer and reader would leave it: the uncommitted view is the committed
one and what is hidden; each offset that holds no row is a marker, of the rows before it; the ledger acknowledged each record
where it is; a second read sees what the first saw; each record is of a transaction of its own, which its writer was told is
committed; one consumer was given every record once, in order; and its position was committed after each.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession

from verifiers import arrow
from verifiers.base import Bounds, Evidence, Finding

BEGAN_MS = 1_795_000_000_000
EXPECTED = "id long, partition int, value string, required boolean, position long"
OBSERVED = "partition int, offset long, timestamp_ms long, key string, value string"
BATCHES = (
    "partition int, first_offset long, last_offset long, producer_id long, producer_epoch int, transactional boolean, "
    "control string"
)
LEDGER = "id long, outcome string, partition int, offset long"
ANSWERS = "partition int, offset long, id long, ordered boolean"
KEYS = "id long, key string"
PLACES = "partition int, offset long, place string"
OPEN = (
    "partition int, producer_id long, producer_epoch int, first_offset long, last_timestamp_ms long, asked_at_ms long, "
    "transactional_id string, coordinator_state string, coordinator_producer_id long, coordinator_epoch int, timeout_ms long, "
    "listed boolean"
)
TOLD = "transaction string, told string, id string"
DELIVERIES = "instance string, seq long, event string, partition int, offset long"
COMMITS = "partition int, seq long, position long, committed_at_ms long"

LOOKS = "partition int, seq long, end long, asked_at_ms long, answered_at_ms long"
REACHED = "partition int, position long, committed_at_ms long, producer_id long"


class Expected(NamedTuple):
    id: int
    partition: int
    value: str
    required: bool
    position: int | None


class Record(NamedTuple):
    partition: int
    offset: int
    timestamp_ms: int
    key: str | None
    value: str | None


class Batch(NamedTuple):
    partition: int
    first_offset: int
    last_offset: int
    producer_id: int
    producer_epoch: int
    transactional: bool
    control: str | None


class Line(NamedTuple):
    id: int
    outcome: str
    partition: int | None
    offset: int | None


class Open(NamedTuple):
    """A transaction that is open; as it stands here, it is one second young and its coordinator counts it."""

    partition: int
    producer_id: int = 7
    producer_epoch: int = 3
    first_offset: int = 4
    last_timestamp_ms: int = BEGAN_MS
    asked_at_ms: int = BEGAN_MS + 1000
    transactional_id: str | None = "sink-1"
    coordinator_state: str | None = "Ongoing"
    coordinator_producer_id: int | None = 7
    coordinator_epoch: int | None = 3
    timeout_ms: int = 2000
    listed: bool = True


class Told(NamedTuple):
    transaction: str
    told: str
    id: str | None


class Delivery(NamedTuple):
    instance: str
    seq: int
    event: str
    partition: int
    offset: int | None


class Commit(NamedTuple):
    partition: int
    seq: int
    position: int | None
    committed_at_ms: int = BEGAN_MS


@dataclass(frozen=True)
class Log:
    """Every change gives another log; `hidden` are rows of aborted transactions, and what is None is derived."""

    expected: tuple[Expected, ...]
    observed: tuple[Record, ...]
    bounds: Mapping[int, Bounds]
    positions: Mapping[int, int]
    hidden: tuple[Record, ...] = ()
    uncommitted: tuple[Record, ...] | None = None
    again_read: tuple[Record, ...] | None = None
    batches: tuple[Batch, ...] | None = None
    lines: tuple[Line, ...] | None = None
    open_transactions: tuple[Open, ...] = ()
    told_rows: tuple[Told, ...] | None = None
    delivered: tuple[Delivery, ...] | None = None
    committed: tuple[Commit, ...] | None = None
    ended: bool = False
    looked: tuple[tuple[int, int, int, int, int], ...] | None = None
    reached: tuple[tuple[int, int, int, int], ...] | None = None

    def record(self, id_: int) -> Record:
        """The one with this id."""
        return next(record for record in self.observed if record.key == str(id_))

    def without(self, *ids: int) -> "Log":
        """These records are missing."""
        kept = tuple(record for record in self.observed if record.key not in {str(id_) for id_ in ids})
        return replace(self, observed=kept)

    def plus(self, *records: Record) -> "Log":
        """These records are there too."""
        return replace(self, observed=self.observed + records)

    def again(self, id_: int, *offsets: int, partition: int | None = None) -> "Log":
        """The record is there at these offsets too."""
        home = self.record(id_).partition if partition is None else partition
        return self.plus(*(self.record(id_)._replace(partition=home, offset=offset) for offset in offsets))

    def changed(self, id_: int, **changes: Any) -> "Log":
        """The record is another one."""
        return self.without(id_).plus(self.record(id_)._replace(**changes))

    def swapped(self, one: int, other: int) -> "Log":
        """Two records of a partition in each other's place."""
        return self.changed(one, offset=self.record(other).offset).changed(other, offset=self.record(one).offset)

    def demanding(self, *ids: int, **changes: Any) -> "Log":
        """These expected rows are other ones."""
        rows = tuple(row._replace(**changes) if row.id in ids else row for row in self.expected)
        return replace(self, expected=rows)

    def with_positions(self, positions: Mapping[int, int]) -> "Log":
        """The pipeline's committed positions are these."""
        return replace(self, positions=positions)

    def that_ended(self) -> "Log":
        """The pipeline had to end before it had done everything."""
        return replace(self, ended=True)

    def with_open_transaction(self, partition: int) -> "Log":
        """The partition's last marker was not written: read_committed ends one offset early. Its bounds are now named last."""
        ends = self.bounds[partition]
        others = {number: bounds for number, bounds in self.bounds.items() if number != partition}
        return replace(self, bounds={**others, partition: replace(ends, lso=ends.hw - 1)})

    def with_aborted(self, partition: int, *ids: int) -> "Log":
        """A transaction with these ids follows at the end of a partition, and is aborted."""
        ends = self.bounds[partition]
        rows = tuple(
            Record(partition, ends.hw + place, BEGAN_MS + id_, str(id_), str(id_ * id_)) for place, id_ in enumerate(ids)
        )
        end = ends.hw + len(ids) + 1
        bounds = {**self.bounds, partition: replace(ends, lso=end, hw=end)}
        return replace(self, hidden=self.hidden + rows, bounds=bounds)

    def told(self, id_: int, outcome: str, partition: int | None, offset: int | None) -> "Log":
        """The ledger says this of a record."""
        kept = tuple(line for line in self.all_lines() if line.id != id_)
        return replace(self, lines=(*kept, Line(id_, outcome, partition, offset)))

    def with_told(self, id_: int, outcome: str) -> "Log":
        """The transactions that wrote a record were told this."""
        rows = tuple(row._replace(told=outcome) if row.id == str(id_) else row for row in self.all_told())
        return replace(self, told_rows=rows)

    def not_delivered(self, id_: int) -> "Log":
        """No consumer was given the record."""
        place = (self.record(id_).partition, self.record(id_).offset)
        kept = tuple(row for row in self.all_deliveries() if (row.partition, row.offset) != place or row.event == "start")
        return replace(self, delivered=kept)

    def all_told(self) -> tuple[Told, ...]:
        """Each record was committed in a transaction of its own."""
        if self.told_rows is not None:
            return self.told_rows
        return tuple(Told(f"{row.partition}-{row.offset}", "committed", row.key) for row in self.observed)

    def all_deliveries(self) -> tuple[Delivery, ...]:
        """One consumer read all partitions, one after the other."""
        if self.delivered is not None:
            return self.delivered
        begun = [(home, -1, "start", None) for home in self.bounds]
        got = [(row.partition, row.offset, "got", row.offset) for row in self.observed]
        return tuple(
            Delivery("reader", seq, event, home, offset)
            for seq, (home, _, event, offset) in enumerate(sorted(begun + got, key=lambda one: one[:2]))
        )

    def all_commits(self) -> tuple[Commit, ...]:
        """As many as there are rows, each one further than that before it."""
        if self.committed is not None:
            return self.committed
        rows = {home: [row for row in self.observed if row.partition == home] for home in self.bounds}
        places = [(home, number) for home, here in rows.items() for number in range(1, len(here) + 1)]
        return tuple(Commit(home, seq, number) for seq, (home, number) in enumerate(places))

    def all_looks(self) -> tuple[tuple[int, int, int, int, int], ...]:
        """One at each partition, when all was there, unless they are named."""
        if self.looked is not None:
            return self.looked
        return tuple((home, 0, max(ends.hw, *self._places(home)) + 1, BEGAN_MS, BEGAN_MS) for home, ends in self.bounds.items())

    def _places(self, home: int) -> tuple[int, int]:
        return 0, max((row.offset for row in self.observed if row.partition == home), default=0)

    def all_reached(self) -> tuple[tuple[int, int, int, int], ...]:
        """All was processed when it had been looked at, and outside of transactions, unless they are named."""
        if self.reached is not None:
            return self.reached
        return tuple((home, 10**6, BEGAN_MS + 1, -1) for home in {row.partition for row in self.expected})

    def all_rows(self) -> tuple[Record, ...]:
        """The uncommitted view: what is committed or hidden, and what is written above the last stable offset."""
        if self.uncommitted is not None:
            return self.uncommitted
        rows = self.observed + self.hidden
        taken = {(row.partition, row.offset) for row in rows}
        above = [(home, offset) for home, ends in self.bounds.items() for offset in range(ends.lso, ends.hw)]
        return rows + tuple(Record(*place, BEGAN_MS, "open", None) for place in above if place not in taken)

    def all_batches(self) -> tuple[Batch, ...]:
        """One batch for each row, one for each marker; every transaction of a partition has the next epoch."""
        if self.batches is not None:
            return self.batches
        return tuple(batch for home in self.bounds for batch in self._batches(home))

    def all_lines(self) -> tuple[Line, ...]:
        """The ledger: acknowledged where it is, or unknown."""
        if self.lines is not None:
            return self.lines
        places = {row.key: row for row in sorted(self.observed, reverse=True)}
        found = ((row.id, places.get(str(row.id))) for row in self.expected)
        return tuple(
            Line(id_, "unknown", None, None) if row is None else Line(id_, "ok", row.partition, row.offset)
            for id_, row in found
        )

    def all_places(self) -> list[tuple[int, int, str]]:
        """Where each record is said to be, as if the log were a table."""
        return [(row.partition, row.offset, f"file {row.partition} row {row.offset}") for row in self.observed]

    def evidence(self, spark: SparkSession, views: Collection[str] = ()) -> Evidence:
        """As the verifiers are given it, the records in no particular order."""
        made = {
            "uncommitted": lambda: _frame(spark, self.all_rows(), OBSERVED),
            "again": lambda: _frame(spark, self.observed if self.again_read is None else self.again_read, OBSERVED),
            "batches": lambda: _frame(spark, self.all_batches(), BATCHES),
            "ledger": lambda: _frame(spark, self.all_lines(), LEDGER),
            "open_transactions": lambda: _frame(spark, self.open_transactions, OPEN),
            "told": lambda: _frame(spark, self.all_told(), TOLD),
            "deliveries": lambda: _frame(spark, self.all_deliveries(), DELIVERIES),
            "commits": lambda: _frame(spark, self.all_commits(), COMMITS),
            "looks": lambda: _frame(spark, self.all_looks(), LOOKS),
            "reached": lambda: _frame(spark, self.all_reached(), REACHED),
            "answers": lambda: _frame(spark, [(row.partition, row.offset, None, True) for row in self.observed], ANSWERS),
            "keys": lambda: _frame(spark, [(row.id, str(row.id)) for row in self.expected], KEYS),
            "places": lambda: _frame(spark, self.all_places(), PLACES),
        }
        return Evidence(
            "sink",
            _frame(spark, self.expected, EXPECTED),
            _frame(spark, self.observed, OBSERVED),
            self.bounds,
            self.positions,
            ended=self.ended,
            **cast("dict[str, Any]", {view: made[view]() for view in views}),
        )

    def _batches(self, home: int) -> Iterator[Batch]:
        ends, hidden = self.bounds[home], set(self.hidden)
        rows = {row.offset: row for row in self.all_rows() if row.partition == home}
        producer, epoch, before = 1000 + home, 0, None
        last_marker = max((offset for offset in range(ends.low, ends.hw) if offset not in rows), default=-1)
        for offset in sorted({*rows, *range(ends.low, ends.hw)}):
            row = rows.get(offset)
            if row is None:
                yield Batch(
                    home, offset, offset, producer, epoch, transactional=True, control="ABORT" if before in hidden else "COMMIT"
                )
                epoch += 1
            elif offset < last_marker or offset >= ends.lso:
                yield Batch(home, offset, offset, producer, epoch, offset < ends.hw, None)
            else:
                yield Batch(home, offset, offset, -1, -1, transactional=False, control=None)
            before = row


Judge = Callable[[str, Log], Finding]


def in_words(finding: Finding) -> Finding:
    """The finding with its note and the details of its examples in words."""
    examples = tuple(replace(one, detail=str(one.detail)) for one in finding.examples)
    return replace(finding, examples=examples, note=str(finding.note))


def clean(records: int = 24, partitions: int = 3) -> Log:
    """A log in which nothing is wrong."""
    places = [(id_, id_ % partitions, id_ // partitions) for id_ in range(records)]
    expected = tuple(Expected(id_, home, str(id_ * id_), required=True, position=number) for id_, home, number in places)
    observed = tuple(
        Record(home, 100 * home + number + number // 4, BEGAN_MS + id_, str(id_), str(id_ * id_))
        for id_, home, number in places
    )
    lengths = {home: sum(place == home for _, place, _ in places) for home in range(partitions)}
    bounds = {home: _bounds(100 * home, length) for home, length in lengths.items()}
    return Log(expected, observed, bounds, positions=lengths)


def ledger(records: int = 24) -> Log:
    """A source, expected by its loader's ledger: no positions."""
    log = clean(records)
    return log.demanding(*range(records), position=None).with_positions({})


_ARROW = {"int": pa.int32(), "long": pa.int64(), "bigint": pa.int64(), "string": pa.string(), "boolean": pa.bool_()}


def table(rows: Sequence[tuple[Any, ...]], schema: str) -> pa.Table:
    """The rows in Arrow: Spark takes them without a job.

    Args:
        schema: as SQL.
    """
    named = (column.split() for column in schema.split(","))
    fields = pa.schema([(name, _ARROW[kind]) for name, kind in named])
    columns = list(zip(*rows, strict=True)) or [()] * len(fields)
    return pa.table([pa.array(column, type=field.type) for column, field in zip(columns, fields, strict=True)], schema=fields)


def land(folder: Path, rows: Sequence[tuple[Any, ...]], schema: str) -> None:
    """The rows as Parquet, in one file, in place of what was there; Spark takes a fifth of a second for it."""
    folder.mkdir(exist_ok=True, parents=True)
    parquet.write_table(table(rows, schema), folder / "part-0.parquet")


def _frame(spark: SparkSession, rows: Sequence[tuple[Any, ...]], schema: str) -> DataFrame:
    """The rows, the last first."""
    return arrow.frame(spark, table(rows[::-1], schema))


def _bounds(low: int, length: int) -> Bounds:
    end = low + length + -(-length // 4)
    return Bounds(low, end, end)
