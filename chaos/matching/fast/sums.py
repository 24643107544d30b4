"""Narrow a query's rows, and the sink's, to those that have to be matched; the others surely answer each other.

To match all rows of two large logs takes a dozen shuffles of both. Most rows need none:

    each has a place of its own   both logs are compared from place to place (`alignment`), and order with it
    without places                both are added up by hashes of their keys: if a hash has as many rows on both sides, and their
                                  prints have equal sums, the same rows are there, as often

All rows of a key are matched, or none, since the result for a row depends only on those of its key. Different rows have equal
sums by chance with a probability of 2^-64.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from chaos.matching import row_ids
from chaos.matching.demanded import Demanded
from chaos.matching.fast import alignment, are_off, copies
from chaos.matching.fast.alignment import Copied
from verifiers import arrow
from verifiers.single_scan.groups import Limits, Longs, longs
from verifiers.single_scan.runs import Runs

_PLACE = ("partition", "offset")
_BUCKET = "pmod(hash(key), 65536)"
_SUMS = ("count(*) AS records", "sum(print & 4294967295L) AS low", "sum(shiftrightunsigned(print, 32)) AS high")
_DEFAULT = Limits()


@dataclass(frozen=True, slots=True, eq=False)
class Narrowed:
    """The rows that have to be matched.

    Attributes:
        demanded: those that a query demands.
        sink: those of the sink.
        proved: number of other rows in the sink, or of last values in a state.
        beyond: the other rows with the records that they answer, if each has a place of its own.
        are_none: whether no rows have to be matched.
    """

    demanded: Demanded
    sink: DataFrame
    proved: int = 0
    beyond: Runs | None = None
    are_none: bool = False


def compared(
    rows: DataFrame, sink: DataFrame, positions: Mapping[int, int], records: int, limits: Limits = _DEFAULT
) -> Copied | None:
    """Compare the sink with rows that have places; None if nothing is certain, or two of them share a place.

    Args:
        records: number of rows of both, roughly.
    """
    return copies.compare(row_ids.keyed(rows), row_ids.keyed(sink), positions, records, limits)


def by_place(found: Demanded, sink: DataFrame, copied: Copied, limits: Limits = _DEFAULT) -> Narrowed:
    """Select the rows of doubtful keys, once all were compared; all rows if they are many."""
    if not len(copied.doubtful):
        return _nothing(found, sink, copied.rows)
    most = alignment.worth_asking(copied.rows, limits)
    if copied.aligned is None or len(copied.doubtful) > most:
        return Narrowed(found, sink)
    of_keys = partial(alignment.of_doubtful_keys, copied=copied)
    ours, theirs = (row_ids.held(_chosen(rows, of_keys)) for rows in (found.rows, sink))
    counts = ours.count(), theirs.count()
    if max(counts) > most:
        return Narrowed(found, sink)
    places = longs(arrow.table(theirs.select(*_PLACE)), *_PLACE)
    beyond = copied.aligned.without(*places)
    return Narrowed(replace(found, rows=ours, count=counts[0]), theirs, beyond.records, beyond)


def by_sums(
    found: Demanded, sink: DataFrame, *, anywhere: bool, last_values: bool = False, limits: Limits = _DEFAULT
) -> Narrowed:
    """Select the rows of hashes with unequal sums on both sides; all rows if they are many, or accelerators are off.

    Args:
        anywhere: whether a row may be in any partition.
        last_values: whether only the last values of the sink count.
    """
    if are_off():
        return Narrowed(found, sink)
    alike = "key, value" if anywhere else "CAST(partition AS INT), key, value"
    there = row_ids.last_of_each(sink) if last_values else sink
    buckets, ours, theirs = _matched(_sums(found.rows, alike), _sums(there, alike))
    odd = (ours != theirs).any(axis=0)
    rows = int(theirs[0].sum())
    doubtful = int(max(side[0][odd].sum() for side in (ours, theirs)))
    if doubtful > max(limits.small_rows, rows // alignment.SHARE):
        return Narrowed(found, sink)
    proved = rows - int(theirs[0][odd].sum())
    if not odd.any():
        return _nothing(found, sink, proved)
    of_buckets = partial(_in_buckets, buckets=buckets[odd])
    mine, others = (row_ids.held(_chosen(side, of_buckets)) for side in (found.rows, sink))
    return Narrowed(replace(found, rows=mine, count=mine.count()), others, proved)


def _nothing(found: Demanded, sink: DataFrame, proved: int) -> Narrowed:
    """Select no rows of a right sink; an empty sink is judged all the same, as if it had rows."""
    return Narrowed(replace(found, rows=found.rows.limit(0), count=0), sink.limit(0), proved, are_none=proved > 0)


def _chosen(rows: DataFrame, choose: Callable[[DataFrame], DataFrame]) -> DataFrame:
    """Choose rows by a key that is never null; they keep their own keys."""
    keyed = row_ids.keyed(rows.withColumn("own", F.col("key")))
    return choose(keyed).withColumn("key", F.col("own")).drop("own")


def _sums(rows: DataFrame, alike: str) -> pa.Table:
    """Sum up each bucket: the number of rows, and the sums of their prints, in two halves, which do not overflow."""
    prints = row_ids.keyed(rows).selectExpr(f"{_BUCKET} AS bucket", f"xxhash64({alike}) AS print")
    return arrow.table(prints.groupBy("bucket").agg(*map(F.expr, _SUMS)))


def _matched(ours: pa.Table, theirs: pa.Table) -> tuple[Longs, Longs, Longs]:
    """Return the buckets of both sides, and the sums of either side there; 0 if it has none."""
    columns = ("bucket", "records", "low", "high")
    left, right = (np.stack(longs(side, *columns)) for side in (ours, theirs))
    buckets = np.union1d(left[0], right[0])
    found = []
    for side in (left, right):
        sums = np.zeros((3, len(buckets)), np.int64)
        sums[:, np.searchsorted(buckets, side[0])] = side[1:]
        found.append(sums)
    return buckets, found[0], found[1]


def _in_buckets(keyed: DataFrame, buckets: Longs) -> DataFrame:
    these = arrow.frame(keyed.sparkSession, pa.table({"_bucket": buckets.astype(np.int32)}))
    return keyed.withColumn("_bucket", F.expr(_BUCKET)).join(F.broadcast(these), "_bucket", "left_semi").drop("_bucket")
