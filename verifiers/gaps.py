"""Gaps: a record that must be in the log and is not.

    lost       the pipeline's committed position is past the input that demands the record: it will never come
    pending    it may still come, since the position is not past its input: it was judged too early, or the pipeline is stuck;
               or it may be there, if an open transaction hides the end of its partition. It is not missed if the pipeline
               had to end in the middle of its work
    recovered  the writer never learned the outcome, and the record is there: allowed
    absent     the writer never learned the outcome, and the record is not there: allowed

The loader's ledger has no positions: an acknowledged record that is not in the source is lost. A pipeline that never committed
a position in a partition stands at its beginning: nothing of that partition is lost yet.

An example of a lost row has the time when a position past its input was first committed, if that was seen: from then on
nothing reads the input again, so nothing writes the row.

Easily confused with a gap: a hole in the *offsets*. Transaction markers and aborted records take offsets that no reader sees,
so offsets say nothing; only ids do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from verifiers import arrow
from verifiers.base import ANY_LOG, NO_PLACE, NO_VIEW, Evidence, Example, Finding
from verifiers.details import Detail, Facts, Partition, Place, Wording, joined
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
            proved: required records outside the evidence that are known to be there (`verifiers.single_scan.islands`).
        """
        judged = by_kind(evidence)
        found = kinds(judged)
        counts = {kind: found.get(kind, 0) for kind in KINDS}
        lost, pending = counts["lost"], counts["pending"]
        checked = proved + found.get("there", 0) + lost + pending
        missing = judged.where("kind IN ('lost', 'pending')")
        shown = first(missing, lost + pending, by=("partition", "position", "id"))
        passed = _passed(evidence, shown if lost else ())
        examples = tuple(_example(row, passed.get((row["partition"], row["position"]))) for row in shown)
        verdict, doubts = rule(evidence, lost, checked, "" if evidence.ended else _undecided(pending))
        note = joined((doubts, _ranges(judged) if lost > 1 else ""))
        return Finding(self.name, evidence.subject, verdict, lost, checked, counts, examples, note)


def by_kind(evidence: Evidence) -> DataFrame:
    """Every expected record: id, partition, position, and its kind, ``there`` or one of `KINDS`.

    A row has the partition number of its input, which is also that of the position.
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
    if not pending:
        return ""
    return f"{pending} records are pending: no committed position is past their input, or an open transaction may hide them"


def _passed(evidence: Evidence, missing: Sequence[Row]) -> Mapping[tuple[int, int], int]:
    """Partition and offset of an input -> when a position past it was first committed; empty without a view of commits."""
    view = evidence.commits if evidence.reached is None else evidence.reached
    places = ((row["partition"], row["position"]) for row in missing if row["kind"] == "lost")
    lost = [place for place in places if place[1] not in (None, NO_PLACE)]
    if view is None or not lost:
        return {}
    inputs = arrow.made(view.sparkSession, lost, {"partition": "int", "input": "bigint"})
    past = view.where("committed_at_ms >= 0").join(inputs, "partition").where("position > input")
    rows = past.groupBy("partition", "input").agg(F.min("committed_at_ms").alias("at_ms")).collect()
    return {(row["partition"], row["input"]): row["at_ms"] for row in rows}


def _ranges(judged: DataFrame) -> Wording:
    """``lost: source partition 0 has 32 between offsets 8 and 210; …``, by their inputs; empty if no place is known."""
    places = judged.where("kind = 'lost' AND position >= 0").groupBy("partition")
    rows = places.agg(F.count("*").alias("lost"), F.min("position").alias("low"), F.max("position").alias("high")).collect()
    told = tuple(map(_range, sorted(rows)))
    return Detail("lost: {told}", {"told": told}) if told else ""


def _range(row: Row) -> Detail:
    count, low, high = row["lost"], row["low"], row["high"]
    where = "at offset {low}" if low == high else "at offsets {low} to {high}"
    if high - low >= count:
        where = "between offsets {low} and {high}"
    facts: Mapping[str, Facts] = {"partition": Partition(row["partition"], "source"), "count": count, "low": low, "high": high}
    return Detail(f"{{partition}} has {{count}} {where}", facts)


def _example(row: Row, passed_ms: int | None) -> Example:
    input_ = Place(row["position"], Partition(row["partition"], "source"))
    then = "" if passed_ms is None else "; a position past it was committed then"
    place = Detail(f"its input is at {{input}}{then}", {"input": input_})
    without: Mapping[int | None, Wording] = {
        None: "its write was acknowledged",
        NO_PLACE: "the whole source demands it, not a single record",
    }
    detail = without.get(row["position"], place)
    home = NO_PLACE if row["position"] == NO_PLACE else row["partition"]
    return Example(row["kind"], home, None, row["id"], passed_ms, detail)
