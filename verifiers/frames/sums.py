"""Sums of hashes prove most of two frames equal in one aggregation: only buckets that differ are compared row by row.

Rows are dealt into buckets by the hash of their key, so a bucket has all rows of its keys. Two multisets of rows whose counts
and sums agree are equal but for a chance of about 2^-96: of each row xxHash64 is summed in two halves, and Murmur3.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from verifiers.frames.question import Question, RowsError

_BUCKETS = 65_536
_MOST = _BUCKETS // 4  # if more differ, all rows are compared
_WORD_BITS = 5  # of buckets in a long, which has a sign beside
_IN_WORD = (1 << _WORD_BITS) - 1
_HASHES = ("1L", "shiftrightunsigned(wide, 32)", "wide & 4294967295L", "CAST(narrow AS BIGINT)")


@dataclass(frozen=True, slots=True)
class Sums:
    """What both frames have.

    Attributes:
        records, rows: demanded ones, and those of the sink.
        differing: buckets in which the frames differ; None if they are too many for a difference.
        totals: the sums of `totals` over these buckets, or over all.
    """

    records: int
    rows: int
    differing: tuple[int, ...] | None
    totals: tuple[int, ...]

    @property
    def equal(self) -> bool:
        """Whether both frames have the same rows."""
        return self.differing == ()


def of(question: Question) -> Sums:
    """Read both frames, once.

    Raises:
        RowsError: a demanded row has no key, or a row has no position.
    """
    sums = totals()
    names = [f"{side}{at}" for side in "ab" for at in range(len(_HASHES))]
    unlike = " OR ".join(f"a{at} <> b{at}" for at in range(len(_HASHES)))
    rows = hashed(question, both(question)).withColumn("bucket", F.expr(_bucket(question)))
    buckets = rows.groupBy("bucket").agg(
        *(one.alias(name) for one, name in zip(sums, names, strict=True)),
        F.expr(f"count_if(mine AND ({unnamed(question)})) AS unnamed"),
        F.expr("count_if(n IS NULL) AS unplaced"),
    )
    found = (
        buckets.withColumn("unlike", F.expr(unlike))
        .groupBy("unlike")
        .agg(
            *(F.expr(f"sum({name}) AS {name}") for name in (*names, "unnamed", "unplaced")),
            F.expr("collect_list(IF(unlike, bucket, NULL)) AS buckets"),
        )
        .collect()
    )
    _require_places(question, *(sum(row[name] for row in found) for name in ("unnamed", "unplaced")))
    differing = tuple(sorted(bucket for row in found for bucket in row["buckets"]))
    named = len(differing) <= _MOST
    counted = [row for row in found if row["unlike"] or not named]
    return Sums(
        records=sum(row["a0"] for row in found),
        rows=sum(row["b0"] for row in found),
        differing=differing if named else None,
        totals=tuple(sum(row[name] for row in counted) for name in names),
    )


def totals() -> Sequence[Column]:
    """Aggregates of `hashed` rows: the number of demanded rows and the sums of their hashes, then the same of the sink's."""
    return [F.expr(f"coalesce(sum(IF({side}, {one}, 0L)), 0L)") for side in ("mine", "NOT mine") for one in _HASHES]


def both(question: Question) -> DataFrame:
    """All rows of both frames; ``mine`` marks the demanded ones, whose row is in ``ours``; the others have it in ``theirs``."""
    ours = question.ours.selectExpr("k", "v", "g", "n", "true AS mine", "row AS ours")
    theirs = question.theirs.selectExpr("k", "v", "g", "n", "false AS mine", "row AS theirs")
    return ours.unionByName(theirs, allowMissingColumns=True)


def hashed(question: Question, rows: DataFrame) -> DataFrame:
    """Add the hashes of key and compared columns: wide, a long, and narrow, an int."""
    columns = ", ".join(question.hashed)
    return rows.selectExpr("*", f"xxhash64({columns}) AS wide", f"hash({columns}) AS narrow")


def in_buckets(question: Question, sums: Sums, *, that_differ: bool) -> Column:
    """Whether a row is in one of the buckets that differ, or in none."""
    if sums.differing is None:
        return F.lit(that_differ)
    words = [0] * (_BUCKETS >> _WORD_BITS)
    for bucket in sums.differing:
        words[bucket >> _WORD_BITS] |= 1 << (bucket & _IN_WORD)
    named = ", ".join(f"{word}L" for word in words)  # one bit for each; names in a list would be parsed for seconds
    word = f"element_at(array({named}), CAST(shiftright({_bucket(question)}, {_WORD_BITS}) AS INT) + 1)"
    return F.expr(f"getbit({word}, CAST({_bucket(question)} & {_IN_WORD} AS INT)) = {int(that_differ)}")


def unnamed(question: Question) -> str:
    """SQL: whether a row has no key; one that has only a part of it has none."""
    return " OR ".join(f"k.k{at} IS NULL" for at in range(len(question.names.key)))


def _bucket(question: Question) -> str:
    """SQL: the bucket of a row."""
    return f"pmod(xxhash64({', '.join(one for one in question.hashed if one.startswith(('k.', 'CAST(k.')))}), {_BUCKETS})"


def _require_places(question: Question, without_key: int, without_position: int) -> None:
    names = question.names
    if without_key:
        told = ", ".join(names.key)
        raise RowsError(f"{without_key} demanded rows have no key ({told} is null): name another key, or leave these rows out")
    if without_position:
        raise RowsError(f"{without_position} rows have no position ({names.order[-1]} is null): leave them out, or order=None")
