"""Gaps: a record that must be in the log and is not.

    lost       the pipeline's committed position is past the input that demands the record: it will never come
    pending    it may still come, for the position is not past its input: it was judged too early, or the pipeline is stuck;
               or it may be there, where an open transaction hides the end of its partition. It is not missed where the pipeline
               had to end in the middle of its work
    recovered  the writer never learned the outcome, and the record is there: allowed
    absent     the writer never learned the outcome, and the record is not there: allowed

There are no positions in the loader's ledger: what was acknowledged and is not in the source is lost. A pipeline that never
committed a position in a partition stands at its begin: nothing of that partition is lost yet.

Easily confused with a gap: a hole in the *offsets*. Transaction markers and aborted records take offsets that no reader sees,
so offsets say nothing; only ids do.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, Row

from verifiers.base import ANY_LOG, NO_PLACE, NO_VIEW, Evidence, Example, Finding
from verifiers.details import Detail, Partition, Place, Said
from verifiers.findings import by_partition, decoded, first, hidden, kinds, rule

KINDS = ("lost", "pending", "recovered", "absent")


@dataclass(frozen=True, slots=True)
class Gaps:
    """Tells lost records from pending ones; ``checked`` are the records that must be there, ``count`` the lost ones."""

    name: str = "gaps"
    guarantee: str = "no record is missing"
    subjects: frozenset[str] = ANY_LOG
    views: frozenset[str] = NO_VIEW
    anomalies: tuple[str, ...] = ("lost",)

    def check(self, evidence: Evidence, proved: int = 0) -> Finding:
        """Judge one log.

        Args:
            proved: required records beyond the evidence that are known to be there (`verifiers.single_scan.islands`).
        """
        judged = _judged(evidence)
        found = kinds(judged)
        counts = {kind: found.get(kind, 0) for kind in KINDS}
        lost, pending = counts["lost"], counts["pending"]
        checked = proved + found.get("there", 0) + lost + pending
        missing = judged.where("kind IN ('lost', 'pending')")
        examples = tuple(_example(row) for row in first(missing, lost + pending, by=("partition", "position", "id")))
        verdict, note = rule(evidence, lost, checked, "" if evidence.ended else _undecided(pending))
        return Finding(self.name, evidence.subject, verdict, lost, checked, counts, examples, note)


def _judged(evidence: Evidence) -> DataFrame:
    """Every expected record: id, partition, position, and its kind, ``there`` or one of `KINDS`.

    The number of a row's partition is that of its input's, so positions are found by it.
    """
    seen = decoded(evidence.observed).where("id IS NOT NULL").select("id").distinct().selectExpr("id", "true AS seen")
    return evidence.expected.join(seen, "id", "left").selectExpr(
        "id",
        "partition",
        "position",
        f"""CASE WHEN seen AND required THEN 'there'
                 WHEN seen THEN 'recovered'
                 WHEN NOT required THEN 'absent'
                 WHEN {hidden(evidence)} THEN 'pending'
                 WHEN position IS NULL OR position < {by_partition(evidence.positions)} THEN 'lost'
                 ELSE 'pending' END AS kind""",
    )


def _undecided(pending: int) -> str:
    return f"pending, no committed position is past their input, or they may be hidden: {pending}" if pending else ""


def _example(row: Row) -> Example:
    input_ = Place(row["position"], Partition(row["partition"], "source"))
    place = Detail("its input is at {input}", {"input": input_})
    without: Mapping[int | None, Said] = {
        None: "its write was acknowledged",
        NO_PLACE: "no one record of the source demands it, but all together",
    }
    detail = without.get(row["position"], place)
    home = NO_PLACE if row["position"] == NO_PLACE else row["partition"]
    return Example(row["kind"], home, None, row["id"], None, detail)
