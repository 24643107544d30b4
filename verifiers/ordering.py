"""Ordering: a record that comes after one that should follow it.

Id ``i`` is number ``i div P`` of source partition ``i mod P``. Within a partition of the log, the numbers of one source partition
must not decrease; a record whose number is below the highest one before it is an inversion. Easily confused with it: a record
repeated at once (5, 5), which is a duplicate and no inversion; and the order of two source partitions among each other, which
Kafka never promised. A batch that is written again (5, 6, 7, 5, 6, 7) is both: duplicates, and inversions, for readers see it so.
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame

from verifiers.base import Evidence, Finding
from verifiers.findings import decoded, example, first, settle


@dataclass(frozen=True, slots=True)
class Ordering:
    """Compares each number with the running maximum before it."""

    name: str = "ordering"

    def check(self, evidence: Evidence) -> Finding:
        """Judge one log."""
        ranked = _ranked(evidence)
        total = ranked.selectExpr("count(*) AS checked", "count_if(number < highest) AS inversions").collect()[0]
        inverted = ranked.where("number < highest")
        examples = [
            example("inversion", row, f"{row['highest'] - row['number']} numbers back: id {row['highest_id']} came before it in this partition")
            for row in (first(inverted) if total["inversions"] else ())
        ]
        return settle(self.name, evidence, {"inversion": total["inversions"]}, total["checked"], examples, violations=("inversion",))


def _ranked(evidence: Evidence) -> DataFrame:
    """Every record with its number and the highest number before it; null for the first."""
    partitions = max(1, len(evidence.bounds))
    before = "OVER (PARTITION BY partition, source ORDER BY offset ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    rows = decoded(evidence.observed).where("id IS NOT NULL")
    numbered = rows.selectExpr("*", f"id % {partitions} AS source", f"id DIV {partitions} AS number")
    return numbered.selectExpr("*", f"max(number) {before} AS highest").selectExpr("*", f"highest * {partitions} + source AS highest_id")
