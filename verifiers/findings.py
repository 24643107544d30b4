"""What all verifiers share: how a key becomes an id, and how counts become a verdict."""

from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame, Row

from verifiers.base import Evidence, Example, Finding, Verdict

EXAMPLES = 32
CANONICAL = "(0|[1-9][0-9]{0,17})"  # a decimal without sign or leading zeros that fits a long


def decoded(observed: DataFrame) -> DataFrame:
    """Observed rows with their id as a long; null when the key is no canonical decimal."""
    return observed.selectExpr("*", f"CASE WHEN key RLIKE '^{CANONICAL}$' THEN CAST(key AS BIGINT) END AS id")


def first(frame: DataFrame) -> Iterable[Row]:
    """The first rows by place in the log, as many as a reader can use."""
    return frame.orderBy("partition", "offset").limit(EXAMPLES).collect()


def example(anomaly: str, row: Row, detail: str) -> Example:
    """An observed record that went wrong."""
    return Example(anomaly, row["partition"], row["offset"], row["id"], row["timestamp_ms"], detail)


def settle(  # noqa: PLR0913 - one argument for each thing a finding says
    name: str,
    evidence: Evidence,
    counts: Mapping[str, int],
    checked: int,
    examples: Iterable[Example],
    *,
    violations: Iterable[str],
    undecided: str = "",
) -> Finding:
    """The finding: INVALID for any violation; else UNKNOWN when nothing was compared or something is undecided; else VALID.

    Args:
        violations: which of the counts break the guarantee.
        undecided: why it cannot be VALID, empty when it can.
    """
    count = sum(counts[kind] for kind in violations)
    doubts = [text for text in (_nothing(checked), _open_transactions(evidence), undecided) if text]
    verdict = Verdict.INVALID if count else Verdict.UNKNOWN if doubts else Verdict.VALID
    if checked == 0:
        verdict = Verdict.UNKNOWN
    return Finding(name, evidence.subject, verdict, count, checked, dict(counts), tuple(examples)[:EXAMPLES], "; ".join(doubts))


def _nothing(checked: int) -> str:
    return "" if checked else "nothing was compared"


def _open_transactions(evidence: Evidence) -> str:
    """A log that was read up to its last stable offset hides what is above it."""
    behind = [f"partition {number} at {ends.lso} of {ends.hw}" for number, ends in sorted(evidence.bounds.items()) if ends.lso < ends.hw]
    return f"a transaction is open: read_committed ends in {', '.join(behind)}" if behind else ""
