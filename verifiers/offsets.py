"""Offsets: output and the pipeline's committed position agree on every input record.

    behind   the position is past the input, and the row that it demands is missing: a restart will not write it
    ahead    the position is not past the input, and the row that it demands is there: a restart will write it again

If position and output are committed in one transaction, neither can happen, at any moment. A pipeline that stores its position
apart (a checkpoint) is ahead between its write and its commit: judge it only when it has come to rest.

A row that no single record demands (`verifiers.base.NO_PLACE`) is demanded by the whole source; it is judged only if the
positions are past all of it.

A position is the next offset that will be read. A partition without one stands at its beginning, as in `verifiers.gaps`;
without any position at all the verdict is UNKNOWN. A row that is behind is also lost (`verifiers.gaps`): there it is missing,
here it is one half of a commit. If an open transaction hides the end of a partition, the row may be there. No other verifier
sees a row that is ahead: such a log is right, until the pipeline starts again.

Easily confused with being ahead: an id that is in the source twice. Its first record demands the row.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from verifiers.base import NO_PLACE, NO_VIEW, Evidence, Example, Finding
from verifiers.details import Detail, Facts, Partition, Place, Wording
from verifiers.findings import absent, by_partition, decoded, first, hidden, kinds, rule

_KINDS = ("behind", "ahead")


@dataclass(frozen=True, slots=True)
class Offsets:
    """Compares each expected row with the position of its input; ``checked`` are the rows with an input."""

    name: str = "offsets"
    guarantee: str = "output and progress are committed together"
    subjects: frozenset[str] = frozenset({"sink"})
    views: frozenset[str] = NO_VIEW
    anomalies: tuple[str, ...] = _KINDS

    def check(self, evidence: Evidence, proved: int = 0) -> Finding:
        """Judge one log.

        Args:
            proved: rows outside the evidence that are known to be there, and whose inputs the positions have passed
                (`chaos.audit`).
        """
        if not evidence.positions:
            return absent(self.name, evidence, "a committed position of the pipeline")
        judged = _judged(evidence)
        found = kinds(judged)
        counts = {kind: found.get(kind, 0) for kind in _KINDS}
        count, checked = sum(counts.values()), proved + sum(found.values())
        wrong = first(judged.where("kind <> 'right'"), count, by=("partition", "position", "id"))
        examples = tuple(_example(row, evidence) for row in wrong)
        verdict, note = rule(evidence, count, checked)
        return Finding(self.name, evidence.subject, verdict, count, checked, counts, examples, note)


def _judged(evidence: Evidence) -> DataFrame:
    """Every row that an input demands: id, partition, position, place (of its first copy, null if absent), and its kind."""
    seen = decoded(evidence.observed).where("id IS NOT NULL")
    places = seen.groupBy("id").agg(F.expr("min(struct(partition, offset, timestamp_ms)) AS place"))
    position = by_partition(evidence.positions)
    absent_for_certain = f"place IS NULL AND NOT {hidden(evidence)}"
    kind = f"""CASE WHEN {absent_for_certain} AND required AND position < {position} THEN 'behind'
                    WHEN place IS NOT NULL AND position >= {position} THEN 'ahead'
                    ELSE 'right' END AS kind"""
    demanded = evidence.expected.where("position IS NOT NULL").join(places, "id", "left")
    return demanded.selectExpr("id", "partition", "position", "place", kind)


def _example(row: Row, evidence: Evidence) -> Example:
    position = evidence.positions.get(row["partition"], 0)
    home = row["partition"]
    facts: Mapping[str, Facts] = {"input": Place(row["position"], Partition(home, "source")), "position": position}
    detail: Wording = Detail("its input is at {input}, the committed position is {position}", facts)
    if row["position"] == NO_PLACE:
        home, detail = NO_PLACE, "the whole source demands it, and the committed positions are at its end"
    if row["place"] is None:
        return Example(row["kind"], home, None, row["id"], None, detail)
    place = row["place"]
    return Example(row["kind"], place["partition"], place["offset"], row["id"], place["timestamp_ms"], detail)
