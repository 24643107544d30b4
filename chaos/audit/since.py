"""`--since REPORT`: go on where an earlier audit ended, so that an audit reads only what came since.

A report says how far its audit got (`Reached`). Each row of the sink up to there was judged, and each record of the source has
its row, with these exceptions, which the report names::

    source     a b c d e f|g h          the audit reads up to f; the group has passed a, b and c
    sink       a c e|b d f g h          and up to e in the sink
               carried    b             it was lost, which was reported, and its row may still come; or it waits for its row,
                                        if an open transaction hides the end of the sink
               answered   e             it has its row, although the group has not passed it, and d before it has none

The next audit begins at d, the first record that the group has not passed and that has no row, and behind e in the sink. The
rows that it reads must answer the records that it reads without the answered ones, and with the carried ones. The sums of both
parts are those of the whole logs, and rows of the first part precede those of the second. The second part does not show:

    a row of a record that was answered before   nothing demands it: it is too many, whatever it answers
    a late row of an earlier record              it is out of order if a later record had its row before (`Reached.last`)

A record that the group has not passed may have a row of the wrong value, perhaps one that repeats an older row of its key. That
is reported once: the record is carried, and may have another row or none.

What retention removed since then, before it was compared, makes every finding UNKNOWN at best.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from chaos.audit import judge
from chaos.audit.expired import Compared
from chaos.audit.logs import OWN, Fixed, Logs
from chaos.audit.prepared import Prepared
from verifiers import arrow, gaps
from verifiers.base import Evidence, Finding, Verdict
from verifiers.details import joined
from verifiers.findings import by_partition, decoded

KEPT = ("key", "value", OWN)
_MOST = 100_000
_MOST_BYTES = 64 << 20
_PLACE = ("partition", "offset")
_REPEATED = "rows that nothing demands may repeat rows of records that an earlier audit judged, which were not read again"
Place = tuple[int, int]
Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Carried:
    """A record that the next audit needs.

    Attributes:
        required: whether its row must come; if not, what is wrong was reported.
        columns: its `KEPT` columns that `Logs.source` has; bytes, because they may be no text.
    """

    partition: int
    offset: int
    required: bool
    columns: Mapping[str, bytes | None]

    @property
    def place(self) -> Place:
        """Partition and offset."""
        return self.partition, self.offset


@dataclass(frozen=True, slots=True)
class Reached:
    """How far an audit got. Partitions are numbers of the logs.

    Attributes:
        source, sink: partition -> the offset from which the next audit reads.
        read: partition of the source -> the offset up to which it was read.
        carried: records before `source` without a row, and others that need not have one.
        answered: places of source records from `source` on that have a row already.
        last: partition of the source, and of the sink -> offset of the last record of the one that has a row in the other, for
            partitions of the source in which an earlier record had none.
    """

    source: Mapping[int, int] = field(default_factory=dict)
    sink: Mapping[int, int] = field(default_factory=dict)
    read: Mapping[int, int] = field(default_factory=dict)
    carried: tuple[Carried, ...] = ()
    answered: tuple[Place, ...] = ()
    last: Mapping[Pair, int] = field(default_factory=dict)


START = Reached()


class _CannotGoOnError(Exception):
    """The next audit cannot go on from here; the message says why."""


def judged(
    logs: Logs, ask: Callable[[Logs], Prepared], before: Reached = START, *, keep: bool = True
) -> tuple[tuple[Finding, ...], Reached | str | None]:
    """Judge two logs, or what came since an earlier audit.

    Args:
        ask: prepares the evidence.
        before: how far the earlier audit got.
        keep: whether another audit may go on from this one.

    Returns:
        The findings, and how far this audit got: None if none may go on from there, and a text that says why none can.

    Raises:
        InconclusiveError: the source's keys do not identify its records.
    """
    rest = replace(logs, source=_with_carried(logs.source, before))
    asked, found = judge.judged(rest, _excused(ask(rest), before))
    found = _with_earlier(found, rest, asked, before) if before.source else found
    if not keep:
        return found, None
    try:
        return found, _reached(rest, asked, {one.verifier: one.counts for one in found}, before)
    except _CannotGoOnError as error:
        return found, str(error)


# going on ------------------------------------------------------------------------------------------------------------------


def _with_carried(source: DataFrame, before: Reached) -> DataFrame:
    """Leave out the records that had a row already, and add the carried ones."""
    rest = _without(source, [*before.answered, *(one.place for one in before.carried)])
    return rest.unionByName(_records(source, before.carried)) if before.carried else rest


def _excused(asked: Prepared, before: Reached) -> Prepared:
    """Let carried records have a row or none, unless it is required."""
    free = _reported(before)
    if not free:
        return asked
    evidence, otherwise = asked.evidence, asked.otherwise
    places = _places(evidence.expected.sparkSession, free).selectExpr("partition", "offset AS position", "true AS reported")
    expected = evidence.expected.join(F.broadcast(places), ["partition", "position"], "left").selectExpr(
        "id", "partition", "value", "required AND reported IS NULL AS required", "position"
    )
    again = None if otherwise is None else lambda: _excused(otherwise(), before)
    return replace(asked, evidence=replace(evidence, expected=expected), otherwise=again)


def _reported(before: Reached) -> Sequence[Place]:
    return [one.place for one in before.carried if not one.required]


def _with_earlier(found: Sequence[Finding], logs: Logs, asked: Prepared, before: Reached) -> tuple[Finding, ...]:
    """Add to the findings what only both audits together show."""
    counts = {one.verifier: one.counts for one in found}
    late, first = _late(logs, asked, before)
    unknown = _expired(logs.fixed)
    notes: Mapping[str, Iterable[str]] = {
        "gaps": _of_gaps(counts["gaps"], logs, asked, before),
        "values": (_REPEATED,) if counts["values"]["phantom"] + counts["values"]["wrong value"] else (),
        "ordering": (_of_late(logs.fixed, late, first),) if late else (),
    }

    def told(one: Finding) -> Finding:
        verdict, count = one.verdict, one.count
        if one.verifier == "ordering" and late:
            verdict, count = Verdict.INVALID, max(count, late)  # some may be out of order among the rows that were read, too
            one = replace(one, counts={**one.counts, "inversion": count})
        verdict = max(verdict, Verdict.UNKNOWN) if unknown else verdict
        return replace(one, verdict=verdict, count=count, note=joined((one.note, *notes.get(one.verifier, ()), unknown)))

    return tuple(map(told, found))


def _of_late(fixed: Fixed, late: int, first: Place) -> str:
    where = f"{_named(fixed, 'source', first[0])} offset {first[1]} of the source"
    return f"{late} rows came after rows of later records, which an earlier audit read; the first answers the record at {where}"


def _of_gaps(counts: Mapping[str, int], logs: Logs, asked: Prepared, before: Reached) -> Iterable[str]:
    """Say what became of records that had no row at the earlier audit."""
    if counts["lost"]:
        unanswered = _unanswered(asked.evidence).where(f"kind = 'lost' AND offset < {by_partition(before.read)}").count()
        yield f"{unanswered} of the lost records were pending at the last audit" if unanswered else ""
    if free := _reported(before):
        places = _places(logs.source.sparkSession, free)
        come = _answered(logs, asked).join(places, ["partition", "offset"], "left_semi").select(*_PLACE).distinct().count()
        left = _unanswered(asked.evidence).join(places, ["partition", "offset"], "left_semi").count()
        yield f"{come} records that an earlier audit reported have a row now" if come else ""
        yield f"{left} records that an earlier audit reported still have no row" if left else ""


def _late(logs: Logs, asked: Prepared, before: Reached) -> tuple[int, Place]:
    """Count the rows behind which a later record had its row before, and return with them the first of these records."""
    if not before.last:
        return 0, (0, 0)
    homes, there, offsets = zip(*((*pair, offset) for pair, offset in before.last.items()), strict=True)
    columns = {
        "partition": pa.array(homes, pa.int32()),
        "there": pa.array(there, pa.int32()),
        "last": pa.array(offsets, pa.int64()),
    }
    lasts = arrow.frame(logs.source.sparkSession, pa.table(columns))
    behind = _in_order(logs, asked).join(F.broadcast(lasts), ["partition", "there"]).where("offset < last")
    count, first = behind.agg(F.count("*"), F.expr("min(struct(partition, offset))")).collect()[0]
    return count, tuple(first or (0, 0))


def _expired(fixed: Fixed) -> str:
    """Say what retention removed before it was compared; empty if nothing."""
    gone = [
        f"{count} offsets of {_named(fixed, side, number)} of the {side}"
        for side in ("source", "sink")
        for number, count in fixed.expired(side).items()
    ]
    return f"expired since the last audit, before they were compared: {', '.join(gone)}" if gone else ""


def _named(fixed: Fixed, side: str, number: int) -> str:
    place = fixed.place(side, number)
    return f"partition {number}" if place is None else f"{place[0]} partition {place[1]}"


# how far this audit got ----------------------------------------------------------------------------------------------------


def _reached(logs: Logs, asked: Prepared, counts: Mapping[str, Mapping[str, int]], before: Reached) -> Reached:
    """Return how far an audit got.

    Args:
        asked: what was judged.
        counts: those of the findings.

    Raises:
        _CannotGoOnError: another audit cannot go on from there.
    """
    fixed, evidence, missing = logs.fixed, asked.evidence, counts["gaps"]
    is_hidden = any(ends.lso < ends.hw for ends in fixed.sink.values())
    waits = missing["pending"] > 0 and (is_hidden or bool(before.carried))
    _require_certain(fixed, counts, waits=waits)
    read = {number: ends.lso for number, ends in fixed.source.items()}
    sink = {number: ends.lso for number, ends in fixed.sink.items()}
    positions = read if fixed.positions is None else fixed.positions
    past = {number: min(max(positions.get(number, 0), ends.low), ends.lso) for number, ends in fixed.source.items()}
    early = counts.get("offsets", {}).get("ahead") or any(offset >= past[home] for home, offset in before.answered)
    if not (waits or early or missing["lost"] or missing["absent"]):
        return Reached(past, sink, read)
    unanswered, answered = _unanswered(evidence), _answered(logs, asked)
    is_past = f"offset < {by_partition(past)}"
    is_open = f"kind = 'absent' OR {is_past}"
    firsts = unanswered.where(f"NOT ({is_open})").groupBy("partition").agg(F.min("offset").alias("offset")).collect()
    begin = read | {one["partition"]: one["offset"] for one in firsts}
    open_ = {(one["partition"], one["offset"]): one["kind"] == "pending" for one in _held(unanswered.where(is_open))}
    wrong = {(one["partition"], one["offset"]) for one in _held(_wrong(evidence).where(f"NOT {is_past}"))}
    behind = answered.where(f"offset > {by_partition(begin)}").select(*_PLACE).distinct()
    had = {(one["partition"], one["offset"]) for one in _held(behind)}
    had |= {(home, offset) for home, offset in before.answered if offset > begin[home]}
    carried = _contents(logs.source, open_ | dict.fromkeys(wrong, False))
    last = _last(logs, asked, {home for home, _ in (*open_, *wrong, *had)}, before)
    return Reached(begin, sink, read, carried, tuple(sorted(had - wrong)), last)


def _require_certain(fixed: Fixed, counts: Mapping[str, Mapping[str, int]], *, waits: bool) -> None:
    """Raise _CannotGoOnError if records that are not read again may change what was found."""
    if fixed.compacted:
        side, why = next(iter(fixed.compacted.items()))
        raise _CannotGoOnError(f"the {side} {why}, so later records remove earlier ones")
    surplus = counts["duplicates"]["duplicate"] + sum(counts["values"].values())
    if surplus and any(ends.lso < ends.hw for ends in fixed.source.values()):
        raise _CannotGoOnError(f"{surplus} rows of the sink may answer records that an open transaction hid")
    if waits and (unordered := counts["ordering"].get("unordered", 0)):
        raise _CannotGoOnError(
            f"the order of {unordered} rows was not judged: their keys repeat, and copies that are missing may still come"
        )


def _unanswered(evidence: Evidence) -> DataFrame:
    """Select the expected records without a row: partition, offset and kind, as in `verifiers.gaps`; several queries use it."""
    without = gaps.by_kind(evidence).where("kind IN ('lost', 'pending', 'absent')")
    return without.selectExpr("partition", "position AS offset", "kind").persist()


def _answered(logs: Logs, asked: Prepared) -> DataFrame:
    """Select the compared records with a row: partition, offset, and the sink's partition of the row, ``there``.

    If a record may be anywhere, it is there for each of its rows. Otherwise its row is in its own partition, or misrouted.
    """
    evidence = asked.evidence
    if evidence.anywhere:
        rows = decoded(evidence.observed).selectExpr("id", "partition AS there")
        return evidence.expected.selectExpr("id", "partition", "position AS offset").join(rows, "id").drop("id")
    records = (asked.compared or Compared()).of_source(logs.source).select(*_PLACE)
    return records.join(_unanswered(evidence), list(_PLACE), "left_anti").selectExpr(*_PLACE, "partition AS there")


def _in_order(logs: Logs, asked: Prepared) -> DataFrame:
    """Select what `_answered` does, without rows whose order is unknown."""
    if asked.unordered is None or not asked.evidence.anywhere:
        return _answered(logs, asked)
    observed = asked.evidence.observed
    certain = observed.join(asked.unordered, list(_PLACE), "left_anti").select(*observed.columns)
    return _answered(logs, replace(asked, evidence=replace(asked.evidence, observed=certain)))


def _wrong(evidence: Evidence) -> DataFrame:
    """Select the places of the expected records that have rows, but none of the right value."""
    rows = decoded(evidence.observed).selectExpr("id", "value AS found")
    demanded = evidence.expected.selectExpr("id", "partition", "position AS offset", "value")
    right = demanded.join(rows, "id").groupBy(*_PLACE).agg(F.expr("bool_or(value <=> found) AS right"))
    return right.where("NOT right").select(*_PLACE)


def _last(logs: Logs, asked: Prepared, homes: set[int], before: Reached) -> Mapping[Pair, int]:
    """Return `Reached.last` for these partitions of the source."""
    found = {pair: offset for pair, offset in before.last.items() if pair[0] in homes}
    rows = _in_order(logs, asked).where(F.col("partition").isin(sorted(homes))).groupBy("partition", "there")
    for home, there, offset in rows.agg(F.max("offset")).collect() if homes else ():
        found[home, there] = max(found.get((home, there), -1), offset)
    return found


def _held(rows: DataFrame) -> list[Any]:
    found = rows.limit(_MOST + 1).collect()
    if len(found) > _MOST:
        raise _CannotGoOnError(f"more than {_MOST} records have no row, or had one before earlier records: too many to list")
    return found


# records -------------------------------------------------------------------------------------------------------------------


def _contents(source: DataFrame, required: Mapping[Place, bool]) -> tuple[Carried, ...]:
    """Return the records at these places."""
    if not required:
        return ()
    columns = [name for name in KEPT if name in source.columns]
    here = F.broadcast(_places(source.sparkSession, list(required)))
    rows = source.join(here, list(_PLACE), "left_semi")
    size = " + ".join(f"coalesce(octet_length({name}), 0)" for name in columns)
    if (rows.selectExpr(f"sum({size})").collect()[0][0] or 0) > _MOST_BYTES:
        raise _CannotGoOnError(f"more than {_MOST_BYTES >> 20} MiB of records have no row: too many to list")
    found = rows.selectExpr(*_PLACE, *(f"CAST({name} AS BINARY) AS {name}" for name in columns)).collect()

    def carried(partition: int, offset: int, *values: bytearray | None) -> Carried:
        kept = zip(columns, values, strict=True)
        own = {name: None if value is None else bytes(value) for name, value in kept}
        return Carried(partition, offset, required[partition, offset], own)

    return tuple(sorted((carried(*one) for one in found), key=lambda one: one.place))


def _records(source: DataFrame, carried: Sequence[Carried]) -> DataFrame:
    """Make rows of records with the columns of a source."""
    columns: dict[str, Any] = {
        "partition": pa.array([one.partition for one in carried], pa.int32()),
        "offset": pa.array([one.offset for one in carried], pa.int64()),
    }
    for name in KEPT:
        columns[name] = pa.array([one.columns.get(name) for one in carried], pa.binary())
    shown = (f"CAST({name if name in columns else 'NULL'} AS {kind}) AS {name}" for name, kind in source.dtypes)
    return arrow.frame(source.sparkSession, pa.table(columns)).selectExpr(*shown)


def _without(rows: DataFrame, places: Sequence[Place]) -> DataFrame:
    if not places:
        return rows
    gone = F.broadcast(_places(rows.sparkSession, places))
    return rows.join(gone, list(_PLACE), "left_anti").select(*rows.columns)


def _places(spark: SparkSession, places: Sequence[Place]) -> DataFrame:
    partitions, offsets = zip(*places, strict=True)
    columns = {"partition": pa.array(partitions, pa.int32()), "offset": pa.array(offsets, pa.int64())}
    return arrow.frame(spark, pa.table(columns))
