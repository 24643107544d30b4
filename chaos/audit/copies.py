"""Copies: whether each partition of the sink has what that of the source demands, in its order, and nothing else.

That is the rule, and it can be told without a shuffle, whatever the keys are: both logs are read by offset into the driver's
memory, a piece at a time, as hashes of key and value, and compared place by place. That a wrong row has the hash of the right
one has a probability of 2^-64. Where anything differs nothing is said: what is wrong is found by `answers`.
"""

from collections.abc import Iterator
from itertools import zip_longest

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from verifiers.single_scan.groups import Limits, Longs

_NOTHING = np.empty(0, np.int64)
_DEFAULT = Limits()
_ROW = ("partition", "offset", "IF(key IS NULL, NULL, xxhash64(key, value)) AS print")


class _UncertainError(Exception):
    """A record has no key, or an offset is there twice."""


def records(wanted: DataFrame, sink: DataFrame, limits: Limits = _DEFAULT) -> int:
    """How many records were compared, if the sink is such a copy; else 0, as where nothing is certain.

    Args:
        wanted: partition, offset, key and value of what is demanded; the sink has these columns too.
    """
    (ours, here), (theirs, there) = ((side.selectExpr(*_ROW), _ends(side)) for side in (wanted, sink))
    try:
        if here.keys() == there.keys() and all(
            _alike(_pieces(ours, number, *here[number], limits), _pieces(theirs, number, *there[number], limits))
            for number in here
        ):
            return wanted.count()
    except _UncertainError:
        pass
    return 0


def _ends(rows: DataFrame) -> dict[int, tuple[int, int]]:
    """Partition -> first and last offset."""
    ends = rows.groupBy("partition").agg(F.min("offset"), F.max("offset")).collect()
    return {number: (first, last) for number, first, last in sorted(ends)}


def _alike(ours: Iterator[Longs], theirs: Iterator[Longs]) -> bool:
    """Whether both say the same, however they are cut."""
    left, right = _NOTHING, _NOTHING
    for one, other in zip_longest(ours, theirs, fillvalue=_NOTHING):
        left, right = np.concatenate((left, one)), np.concatenate((right, other))
        both = min(len(left), len(right))
        if not np.array_equal(left[:both], right[:both]):
            return False
        left, right = left[both:], right[both:]
    return not len(left) and not len(right)


def _pieces(rows: DataFrame, partition: int, first: int, last: int, limits: Limits) -> Iterator[Longs]:
    """The hashes of a partition by offset."""
    for begin in range(first, last + 1, limits.most_rows):
        within = f"partition = {partition} AND offset BETWEEN {begin} AND {begin + limits.most_rows - 1}"
        found = rows.where(within).select("offset", "print").toArrow()
        if found.column("print").null_count:
            raise _UncertainError
        offset, hashed = (column.to_numpy() for column in found.columns)
        order = np.argsort(offset, kind="stable")
        if (np.diff(offset[order]) == 0).any():
            raise _UncertainError
        yield hashed[order]
