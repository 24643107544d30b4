"""Values: a record is in the log, but is not as expected.

    undecodable  its key is not an id: it is null, or anything but a decimal without sign and leading zeros
    phantom      its id is not expected at all
    wrong value  its id is expected, with another value
    misrouted    it is right, but expected in another partition (never where a record may be in any)

A record has one kind, the first that applies. Each copy of a record is compared; `verifiers.duplicates` counts the copies.
In a state, the detail of a wrong number says by how much it is wrong.

Easily confused with a phantom: a record whose write was never acknowledged. It is expected, but not required, so it is allowed.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pyspark.sql import DataFrame, Row

from verifiers.base import ANY_LOG, NO_VIEW, Evidence, Finding
from verifiers.details import Detail, Partition
from verifiers.findings import decoded, example, first, kinds, rule

KINDS = ("wrong value", "phantom", "misrouted", "undecodable")


@dataclass(frozen=True, slots=True)
class Values:
    """Compares every record with the expected one; ``checked`` are all records."""

    name: str = "values"
    guarantee: str = "every record is one that the pipeline's model demands"
    subjects: frozenset[str] = ANY_LOG
    views: frozenset[str] = NO_VIEW
    anomalies: tuple[str, ...] = KINDS

    def check(self, evidence: Evidence, proved: int = 0) -> Finding:
        """Judge one log.

        Args:
            proved: records outside the evidence that are known to be right (`verifiers.single_scan.islands`).
        """
        judged = _judged(evidence)
        found = kinds(judged)
        counts = {kind: found.get(kind, 0) for kind in KINDS}
        count, checked = sum(counts.values()), proved + sum(found.values())
        wrong = first(judged.where("kind <> 'right'"), count)
        examples = tuple(example(row["kind"], row, _detail(row, by_how_much=evidence.state)) for row in wrong)
        verdict, note = rule(evidence, count, checked)
        return Finding(self.name, evidence.subject, verdict, count, checked, counts, examples, note)


def _judged(evidence: Evidence) -> DataFrame:
    """Every observed record; columns added: expected_partition, expected_value, kind (``right`` or one of `KINDS`)."""
    expected = evidence.expected.selectExpr("id", "partition AS expected_partition", "value AS expected_value")
    kind = f"""CASE WHEN id IS NULL THEN 'undecodable'
                   WHEN expected_partition IS NULL THEN 'phantom'
                   WHEN NOT value <=> expected_value THEN 'wrong value'
                   WHEN NOT {evidence.anywhere} AND partition <> expected_partition THEN 'misrouted'
                   ELSE 'right' END AS kind"""
    return decoded(evidence.observed).join(expected, "id", "left").selectExpr("*", kind)


def _detail(row: Row, *, by_how_much: bool) -> Detail:
    difference = "; ".join(_differences(row["value"], row["expected_value"])) if by_how_much else ""
    match row["kind"]:
        case "wrong value":
            facts = {"value": str(row["value"]), "expected": str(row["expected_value"]), "difference": difference}
            return Detail("value {value}, expected {expected}" + (": {difference}" if difference else ""), facts)
        case "phantom":
            return Detail("value {value}; nothing demands it", {"value": str(row["value"])})
        case "misrouted":
            return Detail("expected in {expected}", {"expected": Partition(row["expected_partition"])})
        case _:
            return Detail("key {key}, value {value}", {"key": repr(row["key"]), "value": repr(row["value"])})


def _differences(value: str | None, expected: str | None) -> Iterator[str]:
    """By how much two numbers differ, or those of two JSON objects, each with its name."""
    found, wanted = _parsed(value), _parsed(expected)
    if isinstance(found, dict) and isinstance(wanted, dict):
        pairs = [(f"{name} ", found[name], wanted[name]) for name in wanted if name in found]
    else:
        pairs = [("", found, wanted)]
    for name, one, other in pairs:
        if isinstance(one, Decimal) and isinstance(other, Decimal) and one != other:
            yield f"{name}{abs(one - other):f} too {'high' if one > other else 'low'}"


def _parsed(text: str | None) -> Any:
    """Parse JSON with exact numbers; None if the text is not JSON."""
    try:
        return None if text is None else json.loads(text, parse_int=Decimal, parse_float=Decimal)
    except (ValueError, RecursionError):
        return None
