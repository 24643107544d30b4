"""Outcomes: the log agrees with the outcomes of transactions that their writers saw.

    not readable      the writer saw a transaction commit, but no row of it can be read
    in part           some rows of a transaction can be read and others cannot, whatever its writer saw
    aborted readable  the writer saw a transaction abort, but all its rows can be read

Only keys distinguish rows, and keys recur: in a batch that was aborted and is written again by a later transaction, and in any
program that has few keys. So no single row is judged. For a key, let r be its readable copies, and c, u and a the number of
times that it was written by transactions with the outcomes committed, unknown and aborted. The log is right if c <= r <= c + u.

* If r < c, committed copies are missing. If r > c + u and a > 0, aborted copies are there. Both are certain; but if several
  transactions have the key, it is not certain whose copies they are. The verifier counts few transactions that explain all of
  it: the next one is always one of which everything is missing, or there, else the one that explains most. If no two of them
  share a key, these are the transactions themselves.
* A row of a transaction of unknown outcome is certainly absent if r <= c, and certainly there if r >= c + u; in between,
  another unknown transaction may have written the copies. The transaction is in part if it has rows of both kinds.

Undecided, and UNKNOWN unless something else is certain: missing rows while an open transaction hides the end of a partition,
since they may be there; and surplus rows while the keys of a transaction of unknown outcome are not known, since they may be
its rows.

Easily confused with it: a copy too many of a key that no aborted transaction wrote (`verifiers.duplicates`), and a transaction
that lacks a row which its writer never put into it (`verifiers.gaps`). A torn transaction (`verifiers.atomicity`) is in part
here, even if its producer kept its epoch, so that the log alone does not show it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from verifiers.base import ANY_LOG, Evidence, Example, Finding
from verifiers.findings import EXAMPLES, absent, open_transaction, rule

_KINDS = ("not readable", "in part", "aborted readable")
_WHOLE = {"committed": "not readable", "aborted": "aborted readable"}
_TOLD = {"committed": "its writer saw it commit", "aborted": "its writer saw it abort", "unknown": "outcome unknown"}
_NAMED = 3  # keys of one kind, in an example
_OF_RUN = -1  # in place of a partition, if nothing is in the log


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Counts transactions; ``checked`` are those with a known outcome and known keys."""

    name: str = "outcomes"
    guarantee: str = "a transaction ended in the log as its writer saw it end"
    subjects: frozenset[str] = ANY_LOG
    views: frozenset[str] = frozenset({"told"})
    anomalies: tuple[str, ...] = _KINDS

    def check(self, evidence: Evidence) -> Finding:
        """Judge one log."""
        if evidence.told is None:
            return absent(self.name, evidence, "the outcomes that the writer saw")
        checked, silent = _asked(evidence.told)
        suspects = _suspects(_judged(evidence.told, evidence.observed))
        found, undecided = _found(suspects, hides=bool(open_transaction(evidence.bounds)), silent=silent)
        kinds = Counter(one.kind for one in found)
        counts = {kind: kinds[kind] for kind in _KINDS}
        verdict, note = rule(evidence, len(found), checked, undecided)
        return Finding(self.name, evidence.subject, verdict, len(found), checked, counts, _examples(found, evidence), note)


@dataclass(frozen=True, slots=True)
class _Wrong:
    """A wrong transaction: its anomaly, a description, and the first of its readable and of its missing keys."""

    kind: str
    transaction: str
    told: str
    words: str
    there: Sequence[str]
    missing: Sequence[str]


def _found(suspects: Mapping[str, Sequence[Row]], *, hides: bool, silent: int) -> tuple[list[_Wrong], str]:
    """Return what is certain, and the reason why the rest is not.

    Args:
        hides: whether an open transaction hides rows: missing ones may be there.
        silent: transactions of unknown outcome without keys: surplus rows may be theirs.
    """
    found: list[_Wrong] = []
    if not hides:
        found += [
            _wrong(row, row["there"], keys, f"{len(keys)} of its {row['size']} keys are missing")
            for row, keys in _fewest(suspects["committed"], "missing")
        ]
    if not silent:
        found += [
            _wrong(row, keys, row["missing"], f"{len(keys)} of its {row['size']} keys can be read")
            for row, keys in _fewest(suspects["aborted"], "there")
        ]
    if not hides and not silent:
        found += [
            _wrong(
                row,
                row["there"],
                row["missing"],
                f"{row['read']} of its {row['size']} keys can be read for certain, {row['unread']} cannot",
            )
            for row in suspects["unknown"]
        ]
    doubtful = silent and (suspects["aborted"] or suspects["unknown"])
    reason = f"the keys of {silent} transactions of unknown outcome are not known, so unexplained rows may be theirs"
    return found, reason if doubtful else ""


def _wrong(row: Row, there: Sequence[str], missing: Sequence[str], words: str) -> _Wrong:
    """Classify a suspect; if its outcome is known, only the keys on its wrong side are wrong."""
    whole = {"committed": missing, "aborted": there}.get(row["told"], ())
    kind = _WHOLE[row["told"]] if len(whole) == row["size"] else "in part"
    return _Wrong(kind, row["transaction"], row["told"], words, _named(there), _named(missing))


def _named(keys: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(keys))[:_NAMED]


def _fewest(suspects: Sequence[Row], side: str) -> Iterator[tuple[Row, list[str]]]:
    """Choose few transactions that explain all wrong keys (see the module); each comes with the keys that it explains.

    A transaction only ever explains less than before, so it is enough to count the top of a heap again.
    """
    left = {key: off for row in suspects for key, off in zip(row[side], row["off"], strict=True)}
    keys = [Counter(row[side]) for row in suspects]

    def explained(number: int) -> list[str]:
        return sorted(key for key, times in keys[number].items() for _ in range(min(times, left[key])))

    def rank(number: int) -> tuple[bool, int, str, int]:
        much = len(explained(number))
        return much < suspects[number]["size"], -much, suspects[number]["transaction"], number

    heap = [rank(number) for number in range(len(suspects))]
    heapify(heap)
    while heap:
        number = heap[0][-1]
        now = rank(number)
        if now > heap[0]:
            heapreplace(heap, now)
        elif now[1] == 0:
            return
        else:
            heappop(heap)
            chosen = explained(number)
            for key in chosen:
                left[key] -= 1
            yield suspects[number], chosen


# in Spark ------------------------------------------------------------------------------------------------------------------


def _balance(told: DataFrame, observed: DataFrame) -> DataFrame:
    """One row for every key: id, and r, c and u as in the module's docstring."""
    written = told.where("id IS NOT NULL").selectExpr(
        "id", "0 AS r", "int(told = 'committed') AS c", "int(told = 'unknown') AS u"
    )
    there = observed.where("key IS NOT NULL").selectExpr("key AS id", "1 AS r", "0 AS c", "0 AS u")
    return written.unionAll(there).groupBy("id").agg(*(F.expr(f"sum({name}) AS {name}") for name in "rcu"))


def _judged(told: DataFrame, observed: DataFrame) -> DataFrame:
    """One row for every transaction: transaction, told, size (its keys), there and missing (arrays of structs: id, off).

    If it committed, ``missing`` are the keys with too few copies, and ``off`` is how many; if it aborted, ``there`` are the
    keys with too many. If its outcome is unknown, both are the keys that are certain.
    """
    there = "CASE told WHEN 'committed' THEN r >= c WHEN 'aborted' THEN r > c + u ELSE r >= c + u END"
    missing = "CASE told WHEN 'committed' THEN r < c WHEN 'aborted' THEN r <= c + u ELSE r <= c END"
    one = "struct(id, abs(IF(told = 'committed', r - c, r - c - u)) AS off)"
    return (
        told.join(_balance(told, observed), "id", "left")
        .groupBy("transaction", "told")
        .agg(
            F.expr("count(id) AS size"),
            F.expr(f"array_sort(collect_list(IF(id IS NOT NULL AND ({there}), {one}, NULL))) AS there"),
            F.expr(f"array_sort(collect_list(IF(id IS NOT NULL AND ({missing}), {one}, NULL))) AS missing"),
        )
    )


def _asked(told: DataFrame) -> tuple[int, int]:
    """Count the transactions with known outcome and keys, and those with neither."""
    sizes = told.groupBy("transaction", "told").agg(F.expr("count(id) AS size"))
    counts = ("count_if(told <> 'unknown' AND size > 0)", "count_if(told = 'unknown' AND size = 0)")
    checked, silent = sizes.selectExpr(*counts).collect()[0]
    return checked, silent


def _suspects(judged: DataFrame) -> Mapping[str, list[Row]]:
    """Transactions that may be wrong, by outcome: read and unread (how many keys), there, missing, off.

    Right keys are only shown, so only the first of them are fetched; ``off`` belongs to the wrong ones.
    """
    wrong = """CASE told WHEN 'committed' THEN size(missing) > 0 WHEN 'aborted' THEN size(there) > 0
                         ELSE size(there) > 0 AND size(missing) > 0 END"""
    rows = (
        judged.where(wrong)
        .selectExpr(
            "transaction",
            "told",
            "size",
            "size(there) AS read",
            "size(missing) AS unread",
            f"IF(told = 'aborted', there, slice(there, 1, {_NAMED})).id AS there",
            f"IF(told = 'committed', missing, slice(missing, 1, {_NAMED})).id AS missing",
            "IF(told = 'committed', missing, there).off AS off",
        )
        .collect()
    )
    return {told: [row for row in rows if row["told"] == told] for told in _TOLD}


def _examples(found: Sequence[_Wrong], evidence: Evidence) -> tuple[Example, ...]:
    """Make the first examples, with the places of their readable keys."""
    shown = found[:EXAMPLES]
    keys = sorted({key for one in shown for key in one.there})
    there = evidence.observed.where(F.col("key").isin(keys)).groupBy("key")
    last = there.agg(F.expr("max(struct(timestamp_ms, partition, offset)) AS place"))
    places = {row["key"]: row["place"] for row in last.collect()} if keys else {}
    return tuple(
        sorted((_example(one, places) for one in shown), key=lambda one: (one.partition, one.offset or 0, str(one.detail)))
    )


def _example(one: _Wrong, places: Mapping[str, Row]) -> Example:
    """Place the example at the last copy of the first readable key."""
    there = ", ".join(f"{key!r} (partition {places[key].partition} offset {places[key].offset})" for key in one.there)
    named = "; ".join(
        f"{words} {keys}" for words, keys in (("readable:", there), ("missing:", ", ".join(map(repr, one.missing)))) if keys
    )
    detail = f"transaction {one.transaction!r} ({_TOLD[one.told]}): {one.words}; {named}"
    if not one.there:
        return Example(one.kind, _OF_RUN, None, None, None, detail)
    place = places[one.there[0]]
    return Example(one.kind, place["partition"], place["offset"], None, place["timestamp_ms"], detail)
