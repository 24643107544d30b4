"""Precedence: the rows of a record are written before a position past the record is committed.

    committed before written   the group's position was past the record, and a later look at the sink did not find its row yet.
                               The row came afterwards: nothing is lost, but a crash in between would have lost it

It compares the time when the first position past a record took effect (`Evidence.reached`) with the looks at the ends of the
sink (`Evidence.looks`), each with the time before its request. A look that was requested after the commit, and found the log to
end before the row, proves that the row was not there. A row in a transaction also needs its marker. The times are those of
brokers and of the observer, never of the program: a producer may give its rows any time. So brokers and observer must share a
clock, as in a run on one machine. A cluster elsewhere, and an audit, are not judged.

The window of a record goes from the commit to the row. Two bounds of its length are known: it lasted at least to the last look
that did not find the row, and at most to the first that did. A program that stores positions in the transaction of their rows
is right, whatever the times are; one that stores them in the transaction before is not.

Easily confused with it: a lost record (`verifiers.gaps`), whose row never came, so that its window never closed; a program that
promises at most once and commits first on purpose (`delivery: at_most_once`), which is not judged; and a system that goes on
from positions of its own, a checkpoint for example, and commits to the group for show.

What it cannot see: a window that is shorter than the time from one look to the next, some hundredths of a second. A record
without an alarm was there when somebody looked, and not always before that. Positions that compaction removed, and the order of
records of which no single one demands a row (a total).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from verifiers import arrow
from verifiers.base import Evidence, Example, Finding, Verdict
from verifiers.details import Detail, Partition, Place, joined
from verifiers.findings import EXAMPLES, absent, decoded, rule

Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]
Columns = Mapping[str, Longs]

EARLY = "committed before written"
_VIEWS = {
    "looks": "looks at the ends of the sink",
    "reached": "the positions that the group committed",
    "batches": "its record batches",
}
_NEVER = np.int64(2**62)
_OUTSIDE = -1  # instead of a producer, outside of transactions
_ROWS = ("id", "source", "position", "partition", "offset", "timestamp_ms")


@dataclass(frozen=True, slots=True)
class Precedence:
    """Compares the first commit past each record with looks at its row; ``checked`` are the records with both."""

    name: str = "precedence"
    guarantee: str = "the rows of a record are written before its position is committed"
    subjects: frozenset[str] = frozenset({"sink"})
    views: frozenset[str] = frozenset(_VIEWS)
    anomalies: tuple[str, ...] = (EARLY,)

    def check(self, evidence: Evidence) -> Finding:
        """Judge one log."""
        found = {view: getattr(evidence, view) for view in _VIEWS}
        for view, what in _VIEWS.items():
            if found[view] is None:
                return absent(self.name, evidence, what)
        demanded = evidence.expected.where("position >= 0").selectExpr("id", "partition AS source", "position")
        if evidence.state or (not demanded.take(1) and evidence.expected.take(1)):
            note = "no single record demands a row, so no row must precede a position"
            return Finding(self.name, evidence.subject, Verdict.VALID, 0, 0, {EARLY: 0}, note=note, asked=False)
        rows = decoded(evidence.observed).select("id", "partition", "offset", "timestamp_ms").join(demanded, "id")
        tables = {view: arrow.table(frame) for view, frame in found.items()}
        looks, reached, batches = (_longs(tables[view]) for view in ("looks", "reached", "batches"))
        columns = _longs(arrow.table(rows.selectExpr(*_ROWS)))
        return self.found(evidence, columns, looks, reached, batches, _markers(tables["batches"]))

    def found(
        self, evidence: Evidence, rows: Columns, looks: Columns, reached: Columns, batches: Columns, commits: Flags
    ) -> Finding:
        """Make the finding from columns.

        Args:
            rows: those of `_ROWS`; ``source`` and ``position`` are of the record that demands the row.
            commits: whether each batch is a COMMIT marker.
        """
        windows = compare(rows, looks, reached, batches, commits)
        count, checked = int(windows.early.sum()), int(windows.asked.sum())
        verdict, doubts = rule(evidence, count, checked)
        note = joined((doubts, windows.told() if count else ""))
        return Finding(self.name, evidence.subject, verdict, count, checked, {EARLY: count}, windows.examples(), note)


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """The first row of each record that has one; columns of one length.

    Attributes:
        committed_ms: when the first position past it was committed; `_NEVER` if none was.
        missing_ms: when the last look that missed it was requested; -1 if none did.
        seen_ms: when a look first found it; `_NEVER` if none did.
        asked: whether a position is past it.
        early: whether it is wrong.
    """

    rows: Columns
    committed_ms: Longs
    missing_ms: Longs
    seen_ms: Longs
    asked: Flags
    early: Flags

    def told(self) -> str:
        """Describe how long the windows were."""
        least = (self.missing_ms - self.committed_ms)[self.early]
        seen = self.early & (self.seen_ms < _NEVER)
        most = (self.seen_ms - self.committed_ms)[seen].max(initial=0)
        return f"positions were committed at least {least.min()} to {least.max()} ms, and at most {most} ms, before their rows"

    def examples(self) -> tuple[Example, ...]:
        """Return the first examples, by place."""
        wrong = np.flatnonzero(self.early)
        wrong = wrong[np.lexsort((self.rows["offset"][wrong], self.rows["partition"][wrong]))][:EXAMPLES]
        return tuple(self._example(int(one)) for one in wrong)

    def _example(self, at: int) -> Example:
        row = {name: int(column[at]) for name, column in self.rows.items()}
        committed, missing, seen = (int(column[at]) for column in (self.committed_ms, self.missing_ms, self.seen_ms))
        most = f", and at most {seen - committed} ms," if seen < _NEVER else ""
        early = f"was committed at least {missing - committed} ms{most} before the row was there"
        input_ = Place(row["position"], Partition(row["source"], "source"))
        detail = Detail(f"the position past its input ({{input}}) {early}", {"input": input_})
        return Example(EARLY, row["partition"], row["offset"], row["id"], committed, detail)


def compare(rows: Columns, looks: Columns, reached: Columns, batches: Columns, commits: Flags) -> Windows:
    """Compute the windows; the arguments are those of `Precedence.found`."""
    committed = _first_past(rows["source"], rows["position"], reached["partition"], reached)
    writer, readable = _readable(rows, batches, commits)
    together = _in_one_transaction(rows, writer, reached, looks)
    missing, seen = _looked(rows["partition"], readable, looks)
    order = np.lexsort((seen, missing, rows["id"]))  # the first row of each record comes first
    kept = order[np.concatenate(([True], np.diff(rows["id"][order]) != 0))] if len(order) else order
    committed, missing, seen = (one[kept] for one in (committed, missing, seen))
    asked = committed < _NEVER
    early = asked & ~together[kept] & (missing > committed)
    chosen = {name: column[kept] for name, column in rows.items()}
    return Windows(chosen, committed, missing, seen, asked, early)


def _first_past(wanted: Longs, positions: Longs, known: Longs, reached: Columns) -> Longs:
    """Find when the first position past each record was committed, among those whose ``known`` is the record's ``wanted``."""
    times = np.full(len(wanted), _NEVER)
    for one in np.unique(known):
        mine, there = wanted == one, np.flatnonzero(known == one)
        there = there[np.argsort(reached["position"][there])]
        first = np.minimum.accumulate(reached["committed_at_ms"][there][::-1])[::-1]  # of all positions from each on
        past = np.searchsorted(reached["position"][there], positions[mine], side="right")
        times[mine] = np.where(past < len(there), first[np.minimum(past, len(there) - 1)], _NEVER)
    return times


def _in_one_transaction(rows: Columns, writer: Longs, reached: Columns, looks: Columns) -> Flags:
    """Find the rows whose own transaction may hold the position past their record.

    It takes effect with them, though not always first: the marker of a transaction may come late, and that of the next one, of
    another producer, before it. A producer has all rows of a transaction acknowledged before it commits. So a position of the
    same producer is of an earlier transaction if a look that was requested after it found the row not even without its marker.
    """
    sources = 1 + max(rows["source"].max(initial=0), reached["partition"].max(initial=0))
    wanted, known = writer * sources + rows["source"], reached["producer_id"] * sources + reached["partition"]
    own = _first_past(wanted, rows["position"], known, reached)
    absent_ms, _ = _looked(rows["partition"], rows["offset"] + 1, looks)
    together: Flags = (writer != _OUTSIDE) & (own < _NEVER) & (absent_ms <= own)
    return together


def _readable(rows: Columns, batches: Columns, commits: Flags) -> tuple[Longs, Longs]:
    """Find the producer in whose transaction each row is, and the least end of the log at which the row is readable."""
    writer, needed = np.full(len(rows["id"]), np.int64(_OUTSIDE)), rows["offset"] + 1
    for home in np.unique(rows["partition"]):
        mine = np.flatnonzero(rows["partition"] == home)
        data = np.flatnonzero((batches["partition"] == home) & (batches["control"] == 0))
        data = data[np.argsort(batches["first_offset"][data])]
        if not len(data):
            continue
        at = data[np.maximum(np.searchsorted(batches["first_offset"][data], rows["offset"][mine], side="right") - 1, 0)]
        inside = (batches["transactional"][at] != 0) & (rows["offset"][mine] <= batches["last_offset"][at])
        writer[mine] = np.where(inside, batches["producer_id"][at], _OUTSIDE)
        for producer in np.unique(writer[mine[inside]]):
            its_own = (batches["partition"] == home) & commits & (batches["producer_id"] == producer)
            markers = np.sort(batches["first_offset"][its_own])
            its = mine[writer[mine] == producer]
            after = np.searchsorted(markers, needed[its])
            if len(markers):
                ends = np.where(after < len(markers), markers[np.minimum(after, len(markers) - 1)] + 1, needed[its])
                needed[its] = ends
    return writer, needed


def _looked(homes: Longs, needed: Longs, looks: Columns) -> tuple[Longs, Longs]:
    """Find when each row was last missing and first there. A log that was cut off does not make rows vanish."""
    missing, seen = np.full(len(homes), np.int64(-1)), np.full(len(homes), _NEVER)
    for home in np.unique(looks["partition"]):
        there = np.flatnonzero(looks["partition"] == home)
        there = there[np.argsort(looks["seq"][there])]
        ends = np.maximum.accumulate(looks["end"][there])
        mine = homes == home
        first = np.searchsorted(ends, needed[mine])
        asked, answered = looks["asked_at_ms"][there], looks["answered_at_ms"][there]
        missing[mine] = np.where(first > 0, asked[np.maximum(first - 1, 0)], -1)
        seen[mine] = np.where(first < len(there), answered[np.minimum(first, len(there) - 1)], _NEVER)
    return missing, seen


def _longs(table: pa.Table) -> Columns:
    """Convert columns to longs; a text becomes 1, null 0."""
    return {name: _column(table.column(name)) for name in table.column_names}


def _column(column: pa.ChunkedArray) -> Longs:
    if pa.types.is_string(column.type):
        return np.asarray(column.is_valid().to_numpy(), np.int64)
    if pa.types.is_boolean(column.type):
        return np.asarray(column.to_numpy(), np.int64)
    return np.asarray(column.fill_null(-1).to_numpy(), np.int64)


def _markers(batches: pa.Table) -> Flags:
    return np.array([one == "COMMIT" for one in batches.column("control").to_pylist()], np.bool_)
