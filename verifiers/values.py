"""Values: a record that is there and is not what it should be.

    wrong value   its id is expected, its value is another one
    phantom       nobody asked for it: its id is not expected at all
    misrouted     it is expected in another partition
    undecodable   its key is no id: null, or no decimal without sign and leading zeros

One record has one kind, the last that applies above it: a key that says nothing cannot be phantom. Easily confused with a phantom:
a record whose write was never acknowledged. It is expected, only not required (`required` is false), and so it is allowed.
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame, Row

from verifiers.base import Evidence, Example, Finding
from verifiers.findings import decoded, example, first, settle

_KINDS = ("wrong value", "phantom", "misrouted", "undecodable")


@dataclass(frozen=True, slots=True)
class Values:
    """Compares every record with the one that was expected."""

    name: str = "values"

    def check(self, evidence: Evidence) -> Finding:
        """Judge one log."""
        judged = _judged(evidence)
        found = {row["kind"]: row["count"] for row in judged.groupBy("kind").count().collect()}
        counts = {kind: found.get(kind, 0) for kind in _KINDS}
        examples = [_example(row) for row in (first(judged.where("kind <> 'right'")) if any(counts.values()) else ())]
        return settle(self.name, evidence, counts, sum(found.values()), examples, violations=_KINDS)


def _judged(evidence: Evidence) -> DataFrame:
    """Every observed record with its kind: right, or one of `_KINDS`."""
    expected = evidence.expected.selectExpr("id", "partition AS expected_partition", "value AS expected_value")
    return decoded(evidence.observed).join(expected, "id", "left").selectExpr(
        "*",
        """CASE WHEN id IS NULL THEN 'undecodable'
                WHEN expected_partition IS NULL THEN 'phantom'
                WHEN partition <> expected_partition THEN 'misrouted'
                WHEN NOT value <=> expected_value THEN 'wrong value'
                ELSE 'right' END AS kind""",
    )


def _example(row: Row) -> Example:
    details = {
        "wrong value": f"value {row['value']}, expected {row['expected_value']}",
        "phantom": f"value {row['value']}; nothing demands this id",
        "misrouted": f"expected in partition {row['expected_partition']}",
        "undecodable": f"key {row['key']!r}, value {row['value']!r}",
    }
    return example(row["kind"], row, details[row["kind"]])
