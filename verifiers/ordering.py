"""Ordering: a record is out of place among those of its source partition.

Id ``i`` is number ``i div P`` of source partition ``i mod P``, where P is the number of partitions of the source. Within one
partition of the log, the numbers of one source partition must not fall. If they do, as few records as possible are blamed,
those that have to move: among the records in *conflict* (below an earlier one, or above a later one) the longest sequence
with rising numbers is in order, and an inversion is a record on the wrong side of one of these::

    0 1 2 9 3 4 5 6 7 8 9      one inversion: the first 9 is too early. Six records are below it, but none of them is wrong
    0 1 2 4 5 6 7 8 9 3        one inversion: 3 is too late
    5 6 7 5 6 7                two inversions, and three duplicates: a batch that is written again. The second 5 and 6 are too
                               late; the second 7 is not below the first
    3 4 5 0 1 2 6              three inversions: two batches in each other's place. If two sequences are equally long, the one
                               nearer the front is in order

Easily confused with it: a record repeated at once (5, 5), which is a duplicate and not an inversion; the order between two
source partitions, which Kafka never promised; and a record that nothing demands. It has no place, so it is neither in order nor
out of order: `verifiers.values` counts it as a phantom.

The displacement of an inversion is the distance from its number to that of the record which shows it. Each key is one record
here, so `verifiers.duplicates` judges the records of one key.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pyspark.sql import DataFrame, Row

from verifiers import arrow, disorder
from verifiers.base import ANY_LOG, NO_VIEW, Evidence, Finding, Verdict
from verifiers.details import Detail, Facts, Partition, Record, Wording, joined
from verifiers.disorder import Disorder, Misplaced, Total
from verifiers.findings import EXAMPLES, at, decoded, example, rule

_ROW = ("partition", "source", "number", "offset")


@dataclass(frozen=True, slots=True)
class Ordering:
    """Finds the records that are out of place; ``checked`` are the expected records in the log."""

    name: str = "ordering"
    guarantee: str = "the records of a partition keep their order"
    subjects: frozenset[str] = ANY_LOG
    views: frozenset[str] = NO_VIEW
    anomalies: tuple[str, ...] = ("inversion",)

    def check(self, evidence: Evidence) -> Finding:
        """Judge one log."""
        records = with_place(decoded(evidence.observed), evidence)
        return self.found(evidence, records.count(), _among(records, evidence.lines), (evidence,))

    def found(self, evidence: Evidence, checked: int, wrong: Disorder, sides: Sequence[Evidence]) -> Finding:
        """Make the finding from a disorder, also one that `verifiers.single_scan.islands` has found.

        Args:
            sides: evidence in which to look up the examples, one after the other.
        """
        totals = wrong.totals()
        count = sum(one.count for one in totals)
        misplaced = wrong.shown(EXAMPLES)
        rows = _looked_up(sides, misplaced, evidence.lines)
        examples = tuple(
            example("inversion", row, displaced(one, evidence.lines)) for row, one in zip(rows, misplaced, strict=True)
        )
        verdict, doubts = rule(evidence, count, checked)
        note = joined((doubts, _by_partition(totals)))
        return Finding(self.name, evidence.subject, verdict, count, checked, {"inversion": count}, examples, note)


def not_asked(evidence: Evidence) -> Finding:
    """Make the finding for expected rows without a known order: not asked, and why."""
    counts = dict.fromkeys(Ordering().anomalies, 0)
    what = "order and partitions" if evidence.anywhere else "order"
    note = f"{what} of the rows not judged: {evidence.unordered}"
    return Finding(Ordering().name, evidence.subject, Verdict.VALID, 0, 0, counts, note=note, asked=False)


def with_place(records: DataFrame, evidence: Evidence) -> DataFrame:
    """Select the expected records; they need a column ``id``."""
    return records.join(evidence.expected.select("id"), "id", "left_semi")


def displaced(one: Misplaced, lines: int) -> Detail:
    """Describe how far a record is out of place, and which record shows it."""
    facts: Mapping[str, Facts] = {"far": abs(one.rival - one.number), "other": Record((one.rival * lines + one.line,))}
    late = one.rival > one.number
    return Detail(f"{{far}} too {'late: {other} precedes' if late else 'early: {other} follows'} it in this partition", facts)


def _among(records: DataFrame, lines: int) -> Disorder:
    """Find the disorder; only records in conflict leave Spark.

    A descending window looks behind each row: Spark computes a frame up to UNBOUNDED FOLLOWING anew for each, in n² steps.
    """
    beside, before = "PARTITION BY partition, source ORDER BY offset", "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    numbered = records.selectExpr("partition", "offset", f"id % {lines} AS source", f"id DIV {lines} AS number")
    conflicts = numbered.selectExpr(
        "*",
        f"max(number) OVER ({beside} {before}) AS highest",
        f"min(number) OVER ({beside} DESC {before}) AS lowest",
    ).where("number < highest OR number > lowest")
    found = arrow.table(conflicts.select(*_ROW))
    partition, source, number, offset = (found.column(name).to_numpy().astype(np.int64, copy=False) for name in _ROW)
    return disorder.find(partition, source, number, number, offset)


def _looked_up(sides: Sequence[Evidence], misplaced: Sequence[Misplaced], lines: int) -> Sequence[Row]:
    """Partition, offset, id and timestamp_ms of the records."""
    times: dict[tuple[int, int], int | None] = {}
    for side in sides:
        missing = {(one.partition, one.offset) for one in misplaced} - times.keys()
        if missing:
            found = side.observed.where(at(missing)).select("partition", "offset", "timestamp_ms").collect()
            times |= {(row["partition"], row["offset"]): row["timestamp_ms"] for row in found}
    return [
        Row(
            partition=one.partition,
            offset=one.offset,
            id=one.number * lines + one.line,
            timestamp_ms=times.get((one.partition, one.offset)),  # None: the evidence has another offset twice instead
        )
        for one in misplaced
    ]


def _by_partition(totals: Sequence[Total]) -> Wording:
    """``inversions: partition 0 has 7, at most 7 too late; partition 2 …``; empty if there are none."""
    told = tuple(
        Detail(
            "{partition} has {count}, {furthest}",
            {"partition": Partition(one.partition), "count": one.count, "furthest": _furthest(one)},
        )
        for one in totals
    )
    return Detail("inversions: {told}", {"told": told}) if told else ""


def _furthest(one: Total) -> str:
    ends = [(one.latest, "late")] * bool(one.late) + [(one.earliest, "early")] * bool(one.early)
    return f"at most {' and '.join(f'{far} too {how}' for far, how in ends)}"
