"""Ledger: the log agrees with the acknowledgement of each record.

    not written  acknowledged, and nowhere in the log
    elsewhere    acknowledged at an offset, and the log has it, but not there: another record has that offset, or none
    refused      refused for good, and in the log all the same

    recovered    the writer never learned the outcome, and the record is there: allowed
    absent       the writer never learned the outcome, and the record is not there: allowed
    unplaced     acknowledged without an offset (the broker had it already), and there: allowed, its place is not compared

An acknowledgement is a promise that holds at once, so nothing is pending here. One copy of a record must be at the
acknowledged offset; `verifiers.duplicates` judges the others.

Easily confused with a record not written: one that was never acknowledged. Its outcome stays unknown (Jepsen's ``info``).
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from verifiers.base import Evidence, Example, Finding
from verifiers.details import Detail, Key, Partition, Place
from verifiers.findings import absent, decoded, first, kinds, rule

_WRONG = ("not written", "elsewhere", "refused")
_ALLOWED = ("recovered", "absent", "unplaced")
_NOT_COMPARED = ("recovered", "absent")


@dataclass(frozen=True, slots=True)
class Ledger:
    """Looks for each record at its acknowledged place; ``checked`` are the records with a known outcome."""

    name: str = "ledger"
    guarantee: str = "an acknowledged record is in the log, at its acknowledged offset"
    subjects: frozenset[str] = frozenset({"source"})
    views: frozenset[str] = frozenset({"ledger"})
    anomalies: tuple[str, ...] = _WRONG

    def check(self, evidence: Evidence) -> Finding:
        """Judge one log."""
        if evidence.ledger is None:
            return absent(self.name, evidence, "the writer's ledger")
        judged = _judged(evidence, evidence.ledger)
        found = kinds(judged)
        counts = {kind: found.get(kind, 0) for kind in (*_WRONG, *_ALLOWED)}
        count = sum(counts[kind] for kind in _WRONG)
        checked = sum(found.values()) - sum(counts[kind] for kind in _NOT_COMPARED)
        examples = tuple(map(_example, first(_wrong(judged, evidence), count, by=("partition", "offset", "id"))))
        verdict, note = rule(evidence, count, checked, _undecided(found))
        return Finding(self.name, evidence.subject, verdict, count, checked, counts, examples, note)


def _judged(evidence: Evidence, ledger: DataFrame) -> DataFrame:
    """Every line of the ledger: id, outcome, partition, offset (as acknowledged), place (in the log, null if absent), kind.

    If there are several copies, the place is the acknowledged one, else that of the first.
    """
    records = decoded(evidence.observed).where("id IS NOT NULL").alias("record")
    lines = ledger.alias("line")
    right = "line.partition <=> record.partition AND line.offset <=> record.offset"
    best = f"""IF(record.offset IS NULL, NULL,
                  struct(NOT ({right}) AS moved, record.partition, record.offset, record.timestamp_ms)) AS place"""
    placed = lines.join(records, F.expr("line.id = record.id"), "left").selectExpr("line.*", best)
    kind = """CASE WHEN outcome = 'unknown' THEN IF(place IS NULL, 'absent', 'recovered')
                   WHEN outcome = 'fail' THEN IF(place IS NULL, 'kept out', 'refused')
                   WHEN place IS NULL THEN 'not written'
                   WHEN offset IS NULL THEN 'unplaced'
                   WHEN place.moved THEN 'elsewhere'
                   ELSE 'placed' END AS kind"""
    return placed.groupBy("id", "outcome", "partition", "offset").agg(F.expr("min(place) AS place")).selectExpr("*", kind)


def _wrong(judged: DataFrame, evidence: Evidence) -> DataFrame:
    """Wrong lines; column added: holds (the key at the acknowledged place, null if none)."""
    keys = evidence.observed.selectExpr("partition", "offset", "struct(key) AS holds")
    return judged.where(F.col("kind").isin(*_WRONG)).join(keys, ["partition", "offset"], "left")


def _example(row: Row) -> Example:
    """Place the example where the record is; if it is nowhere, in the partition that acknowledged it."""
    if row["place"] is None:
        return Example(row["kind"], _partition(row), None, row["id"], None, _acknowledged(row))
    place = row["place"]
    detail = Detail("its write was refused for good") if row["kind"] == "refused" else _acknowledged(row)
    return Example(row["kind"], place["partition"], place["offset"], row["id"], place["timestamp_ms"], detail)


def _partition(row: Row) -> int:
    return -1 if row["partition"] is None else int(row["partition"])


def _acknowledged(row: Row) -> Detail:
    if row["offset"] is None:
        return Detail("acknowledged without an offset")
    there = Detail("acknowledged at {place}, which holds ", {"place": Place(row["offset"], Partition(row["partition"]))})
    return there + (Detail("no record") if row["holds"] is None else Detail("key {holds}", {"holds": Key(row["holds"]["key"])}))


def _undecided(found: dict[str, int]) -> str:
    """Reason for UNKNOWN: no acknowledgement has an offset, so none shows where a record must be."""
    with_offset = found.get("placed", 0) + found.get("elsewhere", 0)
    return "no acknowledgement has an offset" if found.get("unplaced") and not with_offset else ""
