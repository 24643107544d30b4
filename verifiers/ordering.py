"""Ordering: a record that comes after one that should follow it.

Id ``i`` is number ``i div P`` of source partition ``i mod P``, where P is the number of partitions of the source. Within one
partition of the log, the numbers of one source partition must not fall: a record whose number is below the highest before it
is an inversion.

Easily confused with it: a record repeated at once (5, 5), which is a duplicate and not an inversion; and the order of two
source partitions among each other, which Kafka never promised. A batch that is written again (5, 6, 7, 5, 6, 7) is both: three
duplicates, and two inversions (the second 7 is not below the first).

The displacement of an inversion is how far its number is below the highest before it. Each key is one record here, so the order
of one key's records is that of its copies, which is for `verifiers.duplicates`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from verifiers.base import ANY_LOG, NO_VIEW, Evidence, Finding, Verdict
from verifiers.findings import decoded, example, first, rule

Total = tuple[int, int, int]
_TOTALS = (
    "count(*) AS records",
    "count_if(number < highest) AS late",
    "coalesce(max(highest - number), 0) AS furthest",
)


@dataclass(frozen=True, slots=True)
class Ordering:
    """Compares each number with the running maximum before it; ``checked`` are the records with an id."""

    name: str = "ordering"
    guarantee: str = "the records of a partition keep their order"
    subjects: frozenset[str] = ANY_LOG
    views: frozenset[str] = NO_VIEW
    anomalies: tuple[str, ...] = ("inversion",)

    def check(self, evidence: Evidence) -> Finding:
        """Judge one log."""
        records = _with_highest(evidence)
        lines = records.groupBy("partition").agg(*map(F.expr, _TOTALS)).orderBy("partition").collect()
        totals = [(row["partition"], row["late"], row["furthest"]) for row in lines]
        inversions = first(records.where("number < highest"), sum(late for _, late, _ in totals))
        return self.found(evidence, sum(row["records"] for row in lines), totals, inversions)

    def found(self, evidence: Evidence, checked: int, totals: Sequence[Total], inversions: Sequence[Row]) -> Finding:
        """The finding, from totals that were found by another way than `check` (`verifiers.single_scan.islands`).

        Args:
            totals: partition, its inversions, the largest displacement among them; by partition.
            inversions: the first by place, with the columns of `_with_highest`.
        """
        count = sum(late for _, late, _ in totals)
        examples = tuple(example("inversion", row, _displaced(row)) for row in inversions)
        verdict, doubts = rule(evidence, count, checked)
        note = "; ".join(text for text in (doubts, _by_partition(totals)) if text)
        return Finding(self.name, evidence.subject, verdict, count, checked, {"inversion": count}, examples, note)


def not_asked(evidence: Evidence) -> Finding:
    """What is said of the order of rows where the expected ones have no known order: nothing, and why."""
    counts = dict.fromkeys(Ordering().anomalies, 0)
    more = ", nor in which partitions they are" if evidence.anywhere else ""
    note = f"it is not asked in which order rows are{more}: {evidence.unordered}"
    return Finding(Ordering().name, evidence.subject, Verdict.VALID, 0, 0, counts, note=note, asked=False)


def _with_highest(evidence: Evidence) -> DataFrame:
    """Every record with an id; columns added: number, highest (the highest number before it, null at first), highest_id."""
    partitions = evidence.lines
    before = "PARTITION BY partition, source ORDER BY offset ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    return (
        decoded(evidence.observed)
        .where("id IS NOT NULL")
        .selectExpr("*", f"id % {partitions} AS source", f"id DIV {partitions} AS number")
        .selectExpr("*", f"max(number) OVER ({before}) AS highest")
        .selectExpr("*", f"highest * {partitions} + source AS highest_id")
    )


def _displaced(row: Row) -> str:
    return f"{row['highest'] - row['number']} too late: id {row['highest_id']} precedes it in this partition"


def _by_partition(totals: Sequence[Total]) -> str:
    """``inversions: partition 0 has 7, at most 7 too late; partition 2 …``; empty when there are none."""
    told = [f"partition {partition} has {late}, at most {furthest} too late" for partition, late, furthest in totals if late]
    return f"inversions: {', '.join(told)}" if told else ""
