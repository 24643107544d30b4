"""Gaps: a record that must be in the log and is not.

    lost      the pipeline's committed position is past the input that demands the record: it will never come
    pending   the position is not past it: it may still come, so the run was judged too early or the pipeline is stuck
    recovered the writer never learned the outcome, and the record is there: allowed
    absent    the writer never learned the outcome, and the record is not there: allowed

Easily confused with a gap: a hole in the *offsets*. Transaction markers and aborted records take offsets that nobody reads, so
offsets say nothing; only ids do.
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame, Row

from verifiers.base import Evidence, Example, Finding
from verifiers.findings import EXAMPLES, decoded, settle

_KINDS = ("lost", "pending", "recovered", "absent")


@dataclass(frozen=True, slots=True)
class Gaps:
    """Tells what is lost from what is only pending."""

    name: str = "gaps"

    def check(self, evidence: Evidence) -> Finding:
        """Judge one log."""
        judged = _judged(evidence)
        found = {row["kind"]: row["count"] for row in judged.groupBy("kind").count().collect()}
        counts = {kind: found.get(kind, 0) for kind in _KINDS}
        missing = judged.where("kind IN ('lost', 'pending')").orderBy("partition", "id").limit(EXAMPLES)
        examples = [_example(row) for row in (missing.collect() if counts["lost"] or counts["pending"] else ())]
        pending = f"{counts['pending']} records are pending: the pipeline has not committed a position past them" if counts["pending"] else ""
        return settle(self.name, evidence, counts, sum(found.values()), examples, violations=("lost",), undecided=pending)


def _judged(evidence: Evidence) -> DataFrame:
    """Every expected record with its kind: there, or one of `_KINDS`."""
    present = decoded(evidence.observed).where("id IS NOT NULL").select("id").distinct().selectExpr("id", "true AS present")
    return evidence.expected.join(present, "id", "left").selectExpr(
        "id",
        "partition",
        "position",
        f"""CASE WHEN present AND required THEN 'there'
                 WHEN present THEN 'recovered'
                 WHEN NOT required THEN 'absent'
                 WHEN position IS NULL OR position < {_committed(evidence)} THEN 'lost'
                 ELSE 'pending' END AS kind""",
    )


def _committed(evidence: Evidence) -> str:
    """The pipeline's position in the record's source partition; 0 where it never committed one."""
    cases = " ".join(f"WHEN {partition} THEN {position}" for partition, position in evidence.positions.items())
    return f"CASE partition {cases} ELSE 0 END" if cases else "0"


def _example(row: Row) -> Example:
    demanded = "it was acknowledged" if row["position"] is None else f"its input is at source partition {row['partition']} offset {row['position']}"
    return Example(row["kind"], row["partition"], None, row["id"], None, demanded)
