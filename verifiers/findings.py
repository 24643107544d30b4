"""Functions that all verifiers share: they decode keys, count and show rows, and turn counts into a verdict."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from verifiers.base import Bounds, Evidence, Example, Finding, Verdict
from verifiers.details import Detail, Partition, Wording, joined

EXAMPLES = 32
_CANONICAL = r"\A(0|[1-9][0-9]*)\z"  # not ^…$: Java's $ matches before a last line break, which the cast would trim


def decoded(observed: DataFrame) -> DataFrame:
    """Add a last column ``id`` long to observed rows.

    It is null if the key is not a canonical decimal: absent, signed, with leading zeros or spaces, or too large for a long.
    """
    return observed.withColumn("id", F.when(F.col("key").rlike(_CANONICAL), F.expr("try_cast(key AS BIGINT)")))


def by_partition(numbers: Mapping[int, int]) -> str:
    """SQL: the number for the row's partition, or 0."""
    cases = "".join(f" WHEN {partition} THEN {number}" for partition, number in numbers.items())
    return f"CASE partition{cases} ELSE 0 END" if cases else "0"


def at(places: Iterable[tuple[int, int]]) -> Column:
    """Whether a row is at one of these places (partition, offset); Parquet readers skip row groups without any."""
    offsets = defaultdict[int, list[int]](list)
    for partition, offset in sorted(places):
        offsets[partition].append(offset)
    here = ((F.col("partition") == partition) & F.col("offset").isin(found) for partition, found in offsets.items())
    return reduce(or_, here, F.lit(False))  # noqa: FBT003 - a literal of SQL


def kinds(judged: DataFrame) -> dict[str, int]:
    """Count the rows of each ``kind``; a kind without rows is left out."""
    return {row["kind"]: row["count"] for row in judged.groupBy("kind").count().collect()}


def first(wrong: DataFrame, count: int, by: Sequence[str] = ("partition", "offset")) -> Sequence[Row]:
    """Return the first wrong rows, as many as reports show; without a Spark job if there are none."""
    return wrong.orderBy(*by).limit(EXAMPLES).collect() if count else ()


def example(anomaly: str, row: Row, detail: Wording, since_ms: int | None = None) -> Example:
    """Make an example of an observed record that went wrong."""
    return Example(anomaly, row["partition"], row["offset"], row["id"], row["timestamp_ms"], detail, since_ms)


def rule(evidence: Evidence, count: int, checked: int, undecided: Wording = "") -> tuple[Verdict, Wording]:
    """Return the verdict, and every reason for UNKNOWN (also beside INVALID).

    Args:
        evidence: its bounds show whether the whole log could be read.
        count: records that went wrong; a single one makes it INVALID, whatever could not be seen.
        checked: records compared; none makes it UNKNOWN.
        undecided: the verifier's own reason for UNKNOWN, or "".
    """
    doubts = joined((_vacuous(checked), open_transaction(evidence.bounds), undecided))
    found = Verdict.INVALID if count else Verdict.VALID
    return max(found, Verdict.UNKNOWN if doubts else Verdict.VALID), doubts


def absent(verifier: str, evidence: Evidence, what: str) -> Finding:
    """Return UNKNOWN for evidence that lacks something the verifier needs."""
    return Finding(verifier, evidence.subject, Verdict.UNKNOWN, count=0, checked=0, note=f"not in the evidence: {what}")


def hidden(evidence: Evidence) -> str:
    """SQL: whether an open transaction hides the end of the row's partition; an unseen row may exist there."""
    behind = _hidden(evidence.bounds)
    if behind and evidence.anywhere:
        return "true"
    return f"partition IN ({', '.join(map(str, behind))})" if behind else "false"


def open_transaction(bounds: Mapping[int, Bounds]) -> Wording:
    """Name the partitions that were not read to their ends; empty if all were.

    A read_committed reader ends at the LSO: rows committed above an open transaction are hidden from it (KAFKA-10167).
    """
    behind = tuple(
        Detail("{partition} (read to offset {end} of {of})", {"partition": Partition(number), "end": ends.lso, "of": ends.hw})
        for number, ends in _hidden(bounds).items()
    )
    return Detail("an open transaction hides the end of {behind}", {"behind": behind}) if behind else ""


def _hidden(bounds: Mapping[int, Bounds]) -> Mapping[int, Bounds]:
    return {partition: ends for partition, ends in sorted(bounds.items()) if ends.lso < ends.hw}


def _vacuous(checked: int) -> str:
    return "" if checked else "nothing was compared"
