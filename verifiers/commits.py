"""Commits: the position that a consumer group committed in a partition never goes back.

    set back   a position below the one that was committed before it: the records between will be read again
    removed    a position was deleted, or expired; no anomaly in itself, but the next committed position may be below it

The judged order is that in which the coordinator wrote positions to its log; those of aborted transactions never counted.
Compaction removes positions, and so may hide that one went back, but never makes one go back.

A group is protected from its own zombies: a member that was replaced cannot commit (KIP-345, KIP-447). So a position is set
back by a client outside of the group, an administrator, a program that lost its positions and began anew, or two programs with
one group name. Each of them processes records again. `verifiers.duplicates` finds these in the sink, unless it is idempotent;
this verifier names the moment.

Easily confused with it: the same position again. A program commits it if it had nothing to read, or repeats a commit whose
answer was lost.
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame, Row

from verifiers.base import Evidence, Example, Finding
from verifiers.findings import absent, first, kinds, rule

_KINDS = ("set back", "removed")


@dataclass(frozen=True, slots=True)
class Commits:
    """Compares each committed position with the one before it; ``checked`` are the positions."""

    name: str = "commits"
    guarantee: str = "a committed position never goes back"
    subjects: frozenset[str] = frozenset({"source"})
    views: frozenset[str] = frozenset({"commits"})
    anomalies: tuple[str, ...] = ("set back",)

    def check(self, evidence: Evidence) -> Finding:
        """Judge one log."""
        if evidence.commits is None:
            return absent(self.name, evidence, "the positions that the group committed")
        judged = _judged(evidence.commits)
        found = kinds(judged)
        counts = {kind: found.get(kind, 0) for kind in _KINDS}
        count, checked = counts["set back"], found.get("right", 0) + counts["set back"]
        wrong = first(judged.where("kind = 'set back'"), count, by=("partition", "seq"))
        verdict, note = rule(evidence, count, checked)
        return Finding(self.name, evidence.subject, verdict, count, checked, counts, tuple(map(_example, wrong)), note)


def _judged(commits: DataFrame) -> DataFrame:
    """Every commit; columns added: before (the last position before it that is not a removal), kind."""
    before = "last(position, true) OVER (PARTITION BY partition ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    return commits.selectExpr("*", f"{before} AS before").selectExpr(
        "*", "CASE WHEN position IS NULL THEN 'removed' WHEN position < before THEN 'set back' ELSE 'right' END AS kind"
    )


def _example(row: Row) -> Example:
    """Place the example at the first record that will be read again."""
    detail = f"the group committed position {row['position']} after {row['before']}"
    return Example("set back", row["partition"], row["position"], None, row["committed_at_ms"], detail)
