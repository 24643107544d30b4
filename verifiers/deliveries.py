"""Deliveries: a consumer hands its application every record of a partition once, in order, from where it began to read.

    skipped         a readable record that was not delivered, between two that were
    repeated        a record that was delivered again
    backwards       a record below the one that was delivered before it, and not delivered before
    not in the log  a delivery from an offset without a readable record: a marker, or a row of an aborted transaction

Each holds within one stretch: one partition and one instance of a consumer, from one start to the next. When the application
is assigned a partition, or positions its consumer there on purpose, it reports a start: the application wanted a repeat or
jump from one stretch to the next, or the commit that would have prevented it was lost (`verifiers.duplicates` finds that).
Within a stretch only the client can be to blame.

The judged log is the one that was read. We did not read it below its first offset and from its last stable offset on, so
deliveries from there are not compared.

Easily confused with a skipped record: a hole in the offsets, which markers and aborted rows make; and records that were never
delivered because the consumer ended before: records behind the last delivery of a stretch are not skipped.
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame, Row

from verifiers.base import Evidence, Example, Finding
from verifiers.findings import absent, by_partition, decoded, first, kinds, rule

_KINDS = ("skipped", "repeated", "backwards", "not in the log")
_STRETCH = "PARTITION BY instance, partition, stretch"


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Compares deliveries with the log; ``checked`` are deliveries and skipped records."""

    name: str = "deliveries"
    guarantee: str = "a consumer hands its application every record once, in order"
    subjects: frozenset[str] = frozenset({"source"})
    views: frozenset[str] = frozenset({"deliveries"})
    anomalies: tuple[str, ...] = _KINDS

    def check(self, evidence: Evidence) -> Finding:
        """Judge one log."""
        if evidence.deliveries is None:
            return absent(self.name, evidence, "the records that were delivered to the application")
        judged = _judged(evidence, _stretches(evidence.deliveries, evidence))
        found = kinds(judged)
        counts = {kind: found.get(kind, 0) for kind in _KINDS}
        count, checked = sum(counts.values()), sum(found.values())
        by = ("partition", "offset", "instance", "stretch", "seq")
        examples = tuple(map(_example, first(judged.where("kind <> 'right'"), count, by=by)))
        verdict, note = rule(evidence, count, checked)
        return Finding(self.name, evidence.subject, verdict, count, checked, counts, examples, note)


def _stretches(deliveries: DataFrame, evidence: Evidence) -> DataFrame:
    """Deliveries from the part of the log that was read; columns added: stretch, before (the offset before it), times.

    ``times`` counts the deliveries of the offset up to this one.
    """
    low = by_partition({partition: ends.low for partition, ends in evidence.bounds.items()})
    end = by_partition({partition: ends.lso for partition, ends in evidence.bounds.items()})
    return (
        deliveries.selectExpr("*", "count_if(event = 'start') OVER (PARTITION BY instance, partition ORDER BY seq) AS stretch")
        .where(f"event = 'got' AND offset >= {low} AND offset < {end}")
        .selectExpr(
            "*",
            f"lag(offset) OVER ({_STRETCH} ORDER BY seq) AS before",
            f"row_number() OVER ({_STRETCH}, offset ORDER BY seq) AS times",
        )
    )


def _judged(evidence: Evidence, got: DataFrame) -> DataFrame:
    """Deliveries and skipped records: instance, stretch, seq, partition, offset, timestamp_ms, key, id, before, kind."""
    records = evidence.observed.selectExpr("partition", "offset", "struct(timestamp_ms, key) AS record")
    kind = """CASE WHEN record IS NULL THEN 'not in the log'
                   WHEN times > 1 THEN 'repeated'
                   WHEN offset < before THEN 'backwards'
                   ELSE 'right' END AS kind"""
    columns = ("instance", "stretch", "seq", "partition", "offset", "before", "record", "kind")
    delivered = got.join(records, ["partition", "offset"], "left").selectExpr("*", kind).select(*columns)
    return decoded(delivered.unionByName(_skipped(got, records)).selectExpr("*", "record.timestamp_ms", "record.key"))


def _skipped(got: DataFrame, records: DataFrame) -> DataFrame:
    """Readable records between two delivered neighbours; seq is that of the later one.

    Readable records are numbered, so that the deliveries alone show a jump over some of them.
    """
    numbered = records.selectExpr("*", "row_number() OVER (PARTITION BY partition ORDER BY offset) AS number")
    in_order = f"{_STRETCH} ORDER BY offset"
    jumps = (
        got.where("times = 1")
        .join(numbered.select("partition", "offset", "number"), ["partition", "offset"])
        .selectExpr("*", f"lag(number) OVER ({in_order}) AS last", f"lag(offset) OVER ({in_order}) AS below")
        .where("number > last + 1")
        .selectExpr(
            "instance", "stretch", "seq", "partition", "below AS before", "explode(sequence(last + 1, number - 1)) AS number"
        )
    )
    return jumps.join(numbered, ["partition", "number"]).selectExpr(
        "instance", "stretch", "seq", "partition", "offset", "before", "record", "'skipped' AS kind"
    )


def _example(row: Row) -> Example:
    return Example(
        row["kind"], row["partition"], row["offset"], row["id"], row["timestamp_ms"], f"{row['instance']}: {_detail(row)}"
    )


def _detail(row: Row) -> str:
    details = {
        "skipped": f"offset {row['before']} and a later one were delivered, but not this one",
        "repeated": f"delivered before, and again after offset {row['before']}",
        "backwards": f"delivered after offset {row['before']}",
        "not in the log": "delivered, but the log has no readable record here",
    }
    return details[row["kind"]]
