"""Stability: two reads of the same offsets return the same records, since a log only grows.

    truncated  the second read ends before it: the end of the log was cut off (a leader that did not have it took over)
    vanished   it is not in the second read, but later ones are
    changed    the second read has another record there: the offset was given twice
    appeared   it is in the second read only: the first read left it out

Both reads are read_committed, between the same fixed ends, and the second began when the first was complete. Earlier events
cannot be seen here: `verifiers.ledger` finds records that were acknowledged and are gone before the first read.

Easily confused with a truncation: retention, which removes a log's begin. Its records are called vanished; a log must not
expire while it is judged.
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame, Row

from verifiers.base import ANY_LOG, Evidence, Finding
from verifiers.findings import absent, decoded, example, first, kinds, rule

_KINDS = ("truncated", "vanished", "changed", "appeared")


@dataclass(frozen=True, slots=True)
class Stability:
    """Compares two reads, offset by offset; ``checked`` are the records of either."""

    name: str = "stability"
    guarantee: str = "two reads of the log return the same records"
    subjects: frozenset[str] = ANY_LOG
    views: frozenset[str] = frozenset({"again"})
    anomalies: tuple[str, ...] = _KINDS

    def check(self, evidence: Evidence) -> Finding:
        """Judge one log."""
        if evidence.again is None:
            return absent(self.name, evidence, "a second read")
        judged = _judged(evidence.observed, evidence.again)
        found = kinds(judged)
        counts = {kind: found.get(kind, 0) for kind in _KINDS}
        count, checked = sum(counts.values()), sum(found.values())
        examples = tuple(example(row["kind"], row, _detail(row)) for row in first(judged.where("kind <> 'same'"), count))
        verdict, note = rule(evidence, count, checked)
        return Finding(self.name, evidence.subject, verdict, count, checked, counts, examples, note)


def _judged(once: DataFrame, again: DataFrame) -> DataFrame:
    """Every record of either read, in the content of the first if it is there; columns added: before, after, kind."""
    content = "struct(timestamp_ms, key, value)"
    ends = again.groupBy("partition").agg({"offset": "max"}).toDF("partition", "last")
    kind = """CASE WHEN before IS NULL THEN 'appeared'
                   WHEN after IS NULL THEN IF(offset > coalesce(last, -1), 'truncated', 'vanished')
                   WHEN before <=> after THEN 'same'
                   ELSE 'changed' END AS kind"""
    both = once.selectExpr("partition", "offset", f"{content} AS before").join(
        again.selectExpr("partition", "offset", f"{content} AS after"), ["partition", "offset"], "full"
    )
    told = both.join(ends, "partition", "left").selectExpr("*", "coalesce(before, after) AS shown", kind)
    return decoded(told.selectExpr("*", "shown.*"))


def _detail(row: Row) -> str:
    details = {
        "truncated": "the second read ends before it",
        "vanished": "the second read has nothing here",
        "appeared": "the first read has nothing here",
    }
    if row["kind"] in details:
        return details[row["kind"]]
    after = row["after"]
    return f"the second read has key {after['key']!r} value {after['value']!r} here, the first has value {row['value']!r}"
