"""Duplicates: a record that is in the log more than once.

The same id, committed and readable, at two offsets. Which of them is "the" record cannot be said; the first in the log is taken
for it and every other one counts. Easily confused with it: two records with the same *value* (the square of 3 and of -3), which
are two records; and a record of an aborted transaction, which takes an offset but is read by nobody.
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame

from verifiers.base import Evidence, Finding
from verifiers.findings import decoded, example, first, settle


@dataclass(frozen=True, slots=True)
class Duplicates:
    """Counts surplus records: one for an id that is there twice."""

    name: str = "duplicates"

    def check(self, evidence: Evidence) -> Finding:
        """Judge one log."""
        rows = decoded(evidence.observed).where("id IS NOT NULL")
        per_id = rows.groupBy("id").count()
        total = per_id.selectExpr("coalesce(sum(count), 0) AS checked", "coalesce(sum(count - 1), 0) AS surplus").collect()[0]
        examples = [
            example("duplicate", row, f"also at partition {row['first_partition']} offset {row['first_offset']}")
            for row in (first(_surplus(rows)) if total["surplus"] else ())
        ]
        counts = {"duplicate": total["surplus"]}
        return settle(self.name, evidence, counts, total["checked"], examples, violations=("duplicate",))


def _surplus(rows: DataFrame) -> DataFrame:
    """All but the first occurrence of each id, with the place of the first."""
    by_place = "OVER (PARTITION BY id ORDER BY partition, offset)"
    return rows.selectExpr(
        "*",
        f"row_number() {by_place} AS occurrence",
        f"first_value(partition) {by_place} AS first_partition",
        f"first_value(offset) {by_place} AS first_offset",
    ).where("occurrence > 1")
