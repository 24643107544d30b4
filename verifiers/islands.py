"""Islands: duplicates, gaps, ordering and values of a large log at once, in one scan of it that shuffles no rows.

An island is a run of records whose numbers rise by one with their offsets. Between two transaction markers a sound pipeline
writes nothing else, so 10^8 records are some 10^5 islands, and what can be said of the islands is said of the records.

    partition 0   number  0 1 2 3 - 4 5 6 7 -  8 10 11  6  7 -      - is a marker: it takes an offset
                  offset  0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15
    number - offset       0 0 0 0  -1-1-1-1   -2 -1 -1 -7 -7        5 groups; 9 is lost, 6 and 7 are there again

1. Each record is put into the group of its (partition, line, block, number - offset) by a hash aggregation. The *line* is
   ``id mod P``, the *number* ``id div P``, a *block* 4096 numbers of one line. A group with as many records as there are numbers
   between its first and its last is *solid*: an island, as no two records of a partition share an offset. Expected rows are
   grouped likewise.
2. A block is sound when as many records are there as are expected and their fingerprints agree: exclusive or and sum of a
   64-bit hash of (partition, id, value). Nothing in it is missing, double, wrong or elsewhere. That two different blocks agree
   by chance has a probability of less than 2^-64.
3. The rows of all other blocks are read again and judged by the verifiers themselves (`verifiers.duplicates` and so on), with
   the number of those that are proved already. The verdict on a record hangs on records of the same id only, so none of the
   rest is needed.
4. Order is judged by islands alone, from all blocks: the rows read again are cut into runs, and of the islands of a line in the
   order of their offsets, one that begins below the highest number before it is late, up to that number.

Groups of two halves of a log can be merged (`Groups.merge`), in any order: the halves need not be read at the same time.

Islands fail where a log has no runs, for example where a partition holds every third number: there is a group for each record.
Then blocks are compared without offsets, and order is left to `verifiers.ordering`, which sorts. What is chosen is decided by the
first rows, and again by the number of groups, before they are collected; it changes the cost, never the answer.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from verifiers import runs
from verifiers.base import Evidence, Finding
from verifiers.duplicates import Duplicates
from verifiers.gaps import Gaps
from verifiers.ordering import Ordering
from verifiers.values import Values

Longs = NDArray[np.int64]

NAMES = ("duplicates", "gaps", "ordering", "values")
UNDECODABLE = -1  # the line and the block of records without an id; their number is their offset
_KEY = ("partition", "line", "block", "delta")
_COLUMNS = (*_KEY, "records", "optional", "first", "last", "xor", "total")
_PROBE = 1024
_RANGES = 32  # of offsets, for each partition, to which a second read is confined
_AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class Limits:
    """What may be held in the driver's memory, and how fine a second look is.

    Attributes:
        block_bits: a block has 2 to the power of this many numbers.
        least_run: records to a group, at least, among the first rows: below it, offsets are left out of account.
        most_groups: of one log, about 100 bytes each.
        most_rows: read again and cut into runs, about 50 bytes each.
    """

    block_bits: int = 12
    least_run: int = 8
    most_groups: int = 4_000_000
    most_rows: int = 4_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """One log, or a part of one, as groups; 80 bytes each.

    Attributes:
        columns: by name, all of one length, ordered by the first four: partition, line, block, delta (number - offset, 0
            throughout where ``by_offset`` is False), records, optional (those not required), first and last (numbers), xor and
            total (of the fingerprints; the latter modulo 2^64).
        by_offset: whether groups with ``last - first + 1`` records are islands.
    """

    columns: dict[str, Longs]
    by_offset: bool

    def __len__(self) -> int:
        return len(self.columns["records"])

    def __getitem__(self, column: str) -> Longs:
        return self.columns[column]

    def merge(self, other: "Groups") -> "Groups":
        """The groups of both logs together; associative and commutative.

        Raises:
            ValueError: one was made by offset and the other was not.
        """
        if self.by_offset is not other.by_offset:
            raise ValueError("groups by offset and groups without cannot be merged: summarize both alike")
        return _merged({name: np.concatenate((self[name], other[name])) for name in _COLUMNS}, by_offset=self.by_offset)

    def solid(self) -> NDArray[np.bool_]:
        """Which groups are islands."""
        return self["records"] == self["last"] - self["first"] + 1

    def blocks(self, partitions: int) -> Longs:
        """One number for line and block of each group, as `_BLOCK` makes it of a row."""
        return np.where(self["line"] < 0, UNDECODABLE, self["block"] * partitions + self["line"])


def check(evidence: Evidence, limits: Limits = _DEFAULT, *, unique: bool = True) -> tuple[Finding, ...]:
    """What the four verifiers of `NAMES` say of one log, in this order and to the letter.

    Args:
        unique: False where an id may be expected more than once; then its first row by (partition, position) is taken, as the
            record that demands it. Positions must be there, and two rows of a partition must not share one.
    """
    with ThreadPoolExecutor(_AT_ONCE, "islands") as pool:
        expected = pool.submit(summarize_expected, evidence, limits, unique=unique)
        observed = pool.submit(summarize, evidence, limits)
        return judge(evidence, expected.result(), observed.result(), limits, unique=unique)


def summarize(evidence: Evidence, limits: Limits = _DEFAULT) -> Groups | None:
    """The observed log as groups; None where there are too many to be held."""
    rows = _keyed(evidence.observed.selectExpr("*", f"{ID} AS id", "true AS required"), evidence, limits, "offset")
    probe = rows.select(*_KEY).take(_PROBE)
    return _bounded(rows, limits, by_offset=len(set(probe)) * limits.least_run <= len(probe))


def summarize_expected(evidence: Evidence, limits: Limits = _DEFAULT, *, unique: bool = True) -> Groups | None:
    """The same of what is expected, by position where that has to show that no id is expected twice."""
    return _bounded(_keyed(evidence.expected, evidence, limits, "position"), limits, by_offset=not unique)


def judge(
    evidence: Evidence, expected: Groups | None, observed: Groups | None, limits: Limits = _DEFAULT, *, unique: bool = True
) -> tuple[Finding, ...]:
    """The findings, from the groups of both sides."""
    whole = evidence if unique else replace(evidence, expected=_firsts(evidence.expected))
    if expected is None or observed is None:
        return tuple(verifier.check(whole) for verifier in (Duplicates(), Gaps(), Ordering(), Values()))
    partitions = max(1, len(evidence.bounds))
    doubtful = _doubtful(expected, observed, partitions)
    sound = ~np.isin(observed.blocks(partitions), doubtful)
    proved = int(observed["records"][sound].sum())
    with _narrowed(evidence, doubtful, (expected, observed), unique=unique) as rest:
        return (
            Duplicates().check(rest, proved),
            Gaps().check(rest, proved),
            _ordering(whole, rest, observed, sound, limits),
            Values().check(rest, proved),
        )


def _doubtful(expected: Groups, observed: Groups, partitions: int) -> Longs:
    """The blocks that are not proved to be sound, in ascending order."""
    sides = [_by_block(side, partitions) for side in (expected, observed)]
    unlike = _unlike(*sides)
    broken = [side.blocks(partitions)[~side.solid()] for side in (expected, observed) if side.by_offset]
    open_ = expected.blocks(partitions)[expected["optional"] > 0]
    undecodable = np.array([UNDECODABLE], np.int64)[: int((observed["line"] < 0).any())]
    return np.unique(np.concatenate((unlike, open_, undecodable, *broken)))


def _by_block(groups: Groups, partitions: int) -> Longs:
    """One row for each block, ascending: block, records, xor, total, and how many islands overlap the one before."""
    order = np.lexsort((groups["first"], groups.blocks(partitions)))
    blocks = groups.blocks(partitions)[order]
    starts = _starts(blocks)
    overlaps = np.zeros(len(blocks), np.int64)
    if groups.by_offset:
        overlaps[1:] = (blocks[1:] == blocks[:-1]) & (groups["first"][order][1:] <= groups["last"][order][:-1])
    columns = [groups["records"][order], groups["total"][order], overlaps]
    sums = [_reduced(np.add, column, starts) for column in columns]
    return np.stack((blocks[starts], _reduced(np.bitwise_xor, groups["xor"][order], starts), *sums), axis=1)


def _unlike(expected: Longs, observed: Longs) -> Longs:
    """Blocks that one side has and the other has not, or has otherwise, or that hold a record twice on a side."""
    both, here, there = np.intersect1d(expected[:, 0], observed[:, 0], assume_unique=True, return_indices=True)
    same = (expected[here] == observed[there]).all(axis=1) & (expected[here, -1] == 0)
    return np.setdiff1d(np.concatenate((expected[:, 0], observed[:, 0])), both[same])
