"""Retention: which rows of the sink may answer records that have expired, and which records' rows may have expired.

Retention removes the first records of a partition, and nothing else. So the remaining source records are answered by the last
rows of the sink, in the same order; a row before them may answer an expired record, and is not compared::

    source     · · · · c a b            four records have expired; keys, and whole records, recur
    sink       a b c a c a b            the last three rows are what they must be
               not compared

*The cut* is where the compared rows begin. If after some cut the rows are exactly the processed records, in order, that cut is
taken. Otherwise every cut leaves something wrong, so the log is certainly INVALID, and the cut with the fewest surplus rows and
missing records is taken. If each record demands one row, at most as many rows are left out as offsets have expired. If the sink
begins above 0, and the source goes back further, the first source records are left out.

If a record may be in any partition of the sink, there is no cut. Equal rows must be as many as the records that demand them. A
surplus row may answer an expired record, unless it comes, in its partition of the sink, after rows that certainly answer the
remaining records of every partition with expired records: the pipeline read those later.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from chaos.audit.logs import Fixed
from chaos.common.errors import InconclusiveError
from verifiers import arrow
from verifiers.findings import by_partition
from verifiers.single_scan.groups import Flags, Limits, Longs, longs

_ROW = ("partition", "offset", "IF(key IS NULL, 0L, xxhash64(key, value)) AS print")
_MOST_HELD = 8  # times `Limits.most_rows`: 16 bytes each
_FACTOR = 0x5851F42D4C957F2D
_INVERSE = pow(_FACTOR, -1, 2**64)
_DEFAULT = Limits()
_BLOCK_BITS = 10
_NEVER = np.iinfo(np.int64).max
Hashes = NDArray[np.uint64]
_Log = tuple[Longs, Longs, Longs]  # partition, offset and print of its rows, in this order


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """The part of two logs that is compared.

    Attributes:
        first_records, first_rows: partition -> the first compared offset of the source, or of the sink; 0 for a partition that
            is not named.
        rows, records: number of sink rows, and of source records, that are not compared.
        sides: the logs, ``source`` or ``sink``, whose expired part is left out: an anomaly in the rest is certain.
        left_out: partition and offset of further sink rows that are not compared; None if there are none.
        unordered: partition and offset of compared rows that equal a row which was left out; None if there are none.
    """

    first_records: Mapping[int, int] = field(default_factory=dict)
    first_rows: Mapping[int, int] = field(default_factory=dict)
    rows: int = 0
    records: int = 0
    sides: frozenset[str] = frozenset()
    left_out: pa.Table | None = None
    unordered: pa.Table | None = None

    def of_source(self, records: DataFrame) -> DataFrame:
        """Return the compared records."""
        return records.where(f"offset >= {by_partition(self.first_records)}") if self.first_records else records

    def of_sink(self, rows: DataFrame) -> DataFrame:
        """Return the compared rows."""
        kept = rows.where(f"offset >= {by_partition(self.first_rows)}") if self.first_rows else rows
        if self.left_out is None:
            return kept
        places = arrow.frame(rows.sparkSession, self.left_out)
        return kept.join(places, ["partition", "offset"], "left_anti").select(*rows.columns)

    def with_unordered(self, places: DataFrame | None, spark: SparkSession) -> DataFrame | None:
        """Add the places of `unordered` to these."""
        if self.unordered is None:
            return places
        own = arrow.frame(spark, self.unordered)
        return own if places is None else places.unionByName(own).distinct()


@dataclass(frozen=True, slots=True)
class Question:
    """How two logs are compared.

    Attributes:
        positions: how far each partition of the source was processed.
        anywhere: whether a record may be in any partition of the sink.
        single: whether each record, also an expired one, demands one row at most.
    """

    positions: Mapping[int, int]
    anywhere: bool
    single: bool = True


def begins(fixed: Fixed) -> bool:
    """Whether one of the logs begins above 0."""
    return bool(fixed.expired("source") or fixed.expired("sink"))


def compare(wanted: DataFrame, sink: DataFrame, fixed: Fixed, asked: Question, limits: Limits = _DEFAULT) -> Compared:
    """Find the part of two logs that can be compared.

    A compacted source is not cut: any row may answer a record that compaction has removed.

    Args:
        wanted: the demanded rows: partition, offset, key and value; the sink has these columns too.

    Raises:
        InconclusiveError: there are too many records to hold in memory.
    """
    of_source = {} if "source" in fixed.compacted else fixed.expired("source")
    of_sink = {} if fixed.compacted or asked.anywhere else fixed.expired("sink")
    if not of_source and not of_sink:
        return Compared()
    sides = frozenset(name for name, begun in (("source", of_source), ("sink", of_sink)) if begun)
    numbers = None if asked.anywhere else sorted(of_source.keys() | of_sink.keys())
    if asked.anywhere:
        return _anywhere(_read(wanted, None, limits), _read(sink, None, limits), of_source, fixed, asked)
    first_records, first_rows = dict[int, int](), dict[int, int]()
    rows = records = 0
    whole = fixed.records <= limits.most_rows
    both = [_read(log, numbers, limits) for log in (wanted, sink)] if whole else []
    for number in numbers or ():
        ours, theirs = (_of_partition(log, number) for log in both or (_read(log, [number], limits) for log in (wanted, sink)))
        ends = fixed.sink.get(number)
        expired = of_source.get(number, 0)
        found = cut(
            ours[2],
            theirs[2],
            int(np.searchsorted(ours[1], asked.positions.get(number, 0))),
            (expired if asked.single or not expired else _NEVER, of_sink.get(number, 0)),
            hidden=ends is not None and ends.lso < ends.hw,
        )
        for log, count, firsts in ((theirs, found[0], first_rows), (ours, found[1], first_records)):
            if count:
                firsts[number] = int(log[1][count]) if count < len(log[1]) else int(log[1][-1]) + 1
        rows, records = rows + found[0], records + found[1]
    return Compared(first_records, first_rows, rows, records, sides)


def by_counts(wanted: DataFrame, sink: DataFrame, fixed: Fixed, asked: Question) -> Compared | None:
    """Find the part of two logs that `compare` finds if the rest of the sink is an exact copy, without holding rows.

    If all records were processed, the number of rows on both sides determines the cut. The caller must compare the rest: if it
    is no copy, this is not the cut. None if there is no such cut.

    Args:
        wanted: as in `compare`.
    """
    all_processed = all(asked.positions.get(number, 0) >= ends.lso for number, ends in fixed.source.items())
    if asked.anywhere or fixed.compacted or not all_processed:
        return None
    of_source, of_sink = fixed.expired("source"), fixed.expired("sink")
    sides = frozenset(name for name, begun in (("source", of_source), ("sink", of_sink)) if begun)
    records, rows = (
        {row["partition"]: row["count"] for row in log.groupBy("partition").count().collect()} for log in (wanted, sink)
    )
    cuts = {number: rows.get(number, 0) - records.get(number, 0) for number in of_source.keys() | of_sink.keys()}
    for number, left in cuts.items():
        expired, ends = of_source.get(number, 0), fixed.sink.get(number)
        rows_at_most = expired if asked.single or not expired else _NEVER
        records_at_most = 0 if ends is None or ends.lso < ends.hw else of_sink.get(number, 0)  # the missing ones may be hidden
        if not -records_at_most <= left <= rows_at_most:
            return None
    return Compared(
        {number: _offset_at(wanted, number, -left) for number, left in cuts.items() if left < 0},
        {number: _offset_at(sink, number, left) for number, left in cuts.items() if left > 0},
        sum(left for left in cuts.values() if left > 0),
        -sum(left for left in cuts.values() if left < 0),
        sides,
    )


def _offset_at(log: DataFrame, number: int, place: int) -> int:
    """Return the offset of the row at a place of a partition, counted from 0; behind the last one, the next free offset."""
    rows = log.where(F.col("partition") == number).selectExpr("offset", f"shiftright(offset, {_BLOCK_BITS}) AS block")
    found = arrow.table(rows.groupBy("block").count()).sort_by("block")
    blocks, counts = longs(found, "block", "count")
    ends = np.cumsum(counts)
    at = min(int(np.searchsorted(ends, place, side="right")), len(blocks) - 1)
    offsets = np.sort(longs(arrow.table(rows.where(F.col("block") == int(blocks[at])).select("offset")), "offset")[0])
    inside = place - int(ends[at] - counts[at])
    return int(offsets[inside]) if inside < len(offsets) else int(offsets[-1]) + 1


# reading -------------------------------------------------------------------------------------------------------------------


def _read(log: DataFrame, numbers: list[int] | None, limits: Limits) -> _Log:
    """Read partition, offset and print of the rows of these partitions, or of all, ordered by place.

    Raises:
        InconclusiveError: there are too many rows.
    """
    rows = log if numbers is None else log.where(F.col("partition").isin(numbers))
    shown = rows.selectExpr(*_ROW)
    count, first, last = rows.selectExpr("count(*)", "min(offset)", "max(offset)").collect()[0]
    if count > _MOST_HELD * limits.most_rows:
        which = "in all" if numbers is None else f"in partition {', '.join(map(str, numbers))}"
        raise InconclusiveError(
            f"a log begins above 0, and the audit would have to hold {count} records {which} in memory to find the rows of "
            f"expired ones; the limit is {_MOST_HELD * limits.most_rows}: land the ends of both logs, and use --landed"
        )
    step = last - first + 1 if count <= limits.most_rows and count else limits.most_rows
    pieces = (shown.where(F.col("offset").between(at, at + step - 1)) for at in range(first, last + 1, step)) if count else ()
    found = [longs(arrow.table(piece), "partition", "offset", "print") for piece in pieces]
    columns = [np.concatenate([np.empty(0, np.int64), *(one[place] for one in found)]) for place in range(3)]
    order = np.lexsort((columns[1], columns[0]))
    return columns[0][order], columns[1][order], columns[2][order]


def _of_partition(log: _Log, number: int) -> _Log:
    begin, end = np.searchsorted(log[0], [number, number + 1])
    return log[0][begin:end], log[1][begin:end], log[2][begin:end]


# a record must stay in its partition ---------------------------------------------------------------------------------------


def cut(records: Longs, rows: Longs, done: int, most: tuple[int, int], *, hidden: bool) -> tuple[int, int]:
    """Count the first rows, and the first records, to leave out; one of the two is 0.

    Args:
        records, rows: prints in the order of a partition; 0 for one without a key.
        done: how many of the records were processed, and must be answered.
        most: how many rows may answer expired records, and how many records' rows may have expired.
        hidden: whether an open transaction hides the end of the rows.
    """
    rows_at_most, records_at_most = min(most[0], len(rows)), min(most[1], len(records))
    exact = _exactly(records, rows, done, (rows_at_most, records_at_most), hidden=hidden)
    if exact is not None:
        return exact
    here, cost = _least(_cost_of_rows(records, rows, done), rows_at_most, len(rows) - done, longest=False)
    there, other = _least(_cost_of_records(records, rows, done), records_at_most, done - len(rows), longest=True)
    return (0, there) if other < cost else (here, 0)


def _exactly(records: Longs, rows: Longs, done: int, most: tuple[int, int], *, hidden: bool) -> tuple[int, int] | None:
    """Return the cut after which the rows are exactly the records, in order; None if there is none."""
    ours, theirs = _sums(records), _sums(rows)
    lengths = np.arange(max(0, len(rows) - most[0]), min(len(rows), len(records)) + 1)
    fit = lengths[_between(ours, 0, lengths) == _between(theirs, len(rows) - lengths, np.full_like(lengths, len(rows)))]
    if (length := _nearest(fit, done, hidden=hidden)) is not None:
        return len(rows) - length, 0
    begins = np.arange(min(most[1], len(records) - len(rows)) + 1)
    fit = begins[_between(ours, begins, begins + len(rows)) == _between(theirs, 0, np.full_like(begins, len(rows)))]
    end = _nearest(fit + len(rows), done, hidden=hidden)
    return None if end is None else (0, end - len(rows))


def _nearest(ends: Longs, done: int, *, hidden: bool) -> int | None:
    """Choose the first end that is not before `done`; if a transaction hides rows, the last one before it will do."""
    enough = ends[ends >= done]
    if len(enough):
        return int(enough.min())
    return int(ends.max()) if hidden and len(ends) else None


def _sums(prints: Longs) -> tuple[Hashes, Hashes]:
    """Return, for each place, the sum of the prints before it, each times a power of its place, and the power's inverse."""
    powers, inverses = (
        np.cumprod(np.append(np.uint64(1), np.full(len(prints), factor, np.uint64)), dtype=np.uint64)
        for factor in (_FACTOR, _INVERSE)
    )
    terms = prints.astype(np.int64).view(np.uint64) * powers[:-1]
    return np.append(np.uint64(0), np.cumsum(terms, dtype=np.uint64)), inverses


def _between(sums: tuple[Hashes, Hashes], begin: Longs | int, end: Longs) -> Hashes:
    """Hash the prints between two places; equal pieces have equal hashes, whatever precedes them."""
    totals, inverses = sums
    return np.asarray((totals[end] - totals[begin]) * inverses[begin], np.uint64)


def _cost_of_rows(records: Longs, rows: Longs, done: int) -> Longs:
    """Return, for each number of rows left out, how many rows are surplus plus how many records are missing."""
    due, all_ = _counted(records[:done], rows), _counted(records, rows)
    from_last = _ranks_from_last(rows)
    weights = np.where(from_last < due, -1, np.where(from_last < all_, 0, 1))
    return np.asarray(done + np.append(np.cumsum(weights[::-1])[::-1], 0), np.int64)


def _cost_of_records(records: Longs, rows: Longs, done: int) -> Longs:
    """Return, for each number of records left out, how many rows are surplus plus how many records are missing."""
    answered = _ranks_from_last(records) < _counted(rows, records)
    weights = np.where(answered, -1, np.where(np.arange(len(records)) < done, 1, 0))
    return np.asarray(len(rows) + np.append(np.cumsum(weights[::-1])[::-1], 0), np.int64)


def _least(costs: Longs, most: int, usual: int, *, longest: bool) -> tuple[int, int]:
    """Return the cheapest number and its cost; among equals, the one nearest to the usual one."""
    allowed = costs[: most + 1]
    places = np.flatnonzero(allowed == allowed.min())
    away = np.abs(places - usual)
    nearest = places[away == away.min()]
    return int(nearest.min() if longest else nearest.max()), int(allowed.min())


def _counted(prints: Longs, of: Longs) -> Longs:
    """Count how often each of these is among the prints; 0 for one without a key."""
    there, times = np.unique(prints, return_counts=True)
    if not len(there):
        return np.zeros(len(of), np.int64)
    places = np.minimum(np.searchsorted(there, of), len(there) - 1)
    return np.where((there[places] == of) & (of != 0), times[places], 0)


def _ranks_from_last(prints: Longs) -> Longs:
    """Count the equal prints after each."""
    order = np.argsort(prints[::-1], kind="stable")
    ordered = prints[::-1][order]
    begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(ordered) else order
    ranks = np.empty(len(prints), np.int64)
    ranks[order] = np.arange(len(prints)) - np.repeat(begins, np.diff(np.append(begins, len(prints))))
    return ranks[::-1]


# a record may be anywhere --------------------------------------------------------------------------------------------------


def _anywhere(ours: _Log, theirs: _Log, expired: Mapping[int, int], fixed: Fixed, asked: Question) -> Compared:
    """Leave out surplus rows that may answer expired records."""
    home, offset, prints = theirs
    ends = np.array([asked.positions.get(number, 0) for number in range(ours[0].max(initial=-1) + 1)], np.int64)
    due = ours[2][ours[1] < ends[ours[0]]]
    too_many = _counted(prints, prints) - _counted(due, prints)
    too_many[prints == 0] = _NEVER  # any row without a key
    early = offset < _frontier(ours, theirs, due, expired, fixed)[home] if len(home) else np.zeros(0, np.bool_)
    order = np.lexsort((home, offset, ~early, prints))
    turns = np.empty(len(prints), np.int64)
    turns[order] = _turns(prints[order])
    left = early & (turns < too_many)
    most = sum(expired.values()) if asked.single else _NEVER
    if left.sum() > most:
        places = np.flatnonzero(left)
        left[places[np.argsort(offset[places], kind="stable")][most:]] = False
    alike = ~left & np.isin(prints, prints[left])
    return Compared(
        rows=int(left.sum()),
        sides=frozenset({"source"}),
        left_out=_places(home, offset, left),
        unordered=_places(home, offset, alike),
    )


def _frontier(ours: _Log, theirs: _Log, due: Longs, expired: Mapping[int, int], fixed: Fixed) -> Longs:
    """Return, for each partition of the sink, the offset from which no row can answer an expired record."""
    home, offset, prints = theirs
    size = home.max(initial=-1) + 1
    if fixed.expired("sink"):
        return np.full(size, _NEVER)  # the remaining rows may not answer the remaining records
    there = _counted(prints, prints)
    certain = (there == _counted(due, prints)) & (there == _counted(ours[2], prints))
    found = np.zeros(size, np.int64)
    for number in expired:
        own, others = ours[2][ours[0] == number], ours[2][ours[0] != number]
        of_it = certain & np.isin(prints, own) & ~np.isin(prints, others)
        firsts = np.full(size, _NEVER)
        np.minimum.at(firsts, home[of_it], offset[of_it])
        found = np.maximum(found, firsts)
    return found


def _turns(ordered: Longs) -> Longs:
    """Count the equal prints before each; equal ones are adjacent."""
    begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(ordered) else np.empty(0, np.int64)
    return np.arange(len(ordered)) - np.repeat(begins, np.diff(np.append(begins, len(ordered))))


def _places(home: Longs, offset: Longs, which: Flags) -> pa.Table | None:
    if not which.any():
        return None
    return pa.table({"partition": home[which].astype(np.int32), "offset": offset[which]})
