"""Disorder: find the rows of a log that are out of place, blaming as few as possible (used by `verifiers.ordering`).

Rows come as runs, whose numbers and offsets rise by one together; a single row is a run of one. Each partition is judged
by itself, and in it each line::

    number         0 1 2 9 3 4 5 6 7 8 9        all from 3 to 8 are below the 9 before them, but only one row is out of place
    in conflict          ^ ^ ^ ^ ^ ^ ^          below a row before it, or above a row behind it
    in order               = = = = = =          the longest rising sequence of those in conflict
    out of place         ^                      too early by 6: it is above the 3 that comes after it

1. A row is in *conflict* if a row before it has a higher number, or a row behind it a lower one. All others are in order.
2. Among the rows in conflict, the longest sequence with rising numbers is *in order*; among several, the one nearest the front.
3. A row in conflict is *out of place* if it is too late (a row in order stands before it, with a higher number) or too early
   (one stands behind it, with a lower number). The remaining rows are copies of rows in order that stand at the right place.

To find the longest sequence, the runs are cut where any of them begins or ends, so that any two pieces have equal numbers or
none in common. Then it is patience sorting, with the length of a piece as its weight: n pieces take n log n steps, some
microseconds each. Memory is some 100 bytes for each piece, and there are never more pieces than rows in conflict.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]
_LARGEST = 2**63 - 2  # so that the number behind it is a long, too


@dataclass(frozen=True, slots=True)
class Misplaced:
    """A row that is out of place.

    Attributes:
        rival: the number that shows it: the higher one of the nearest row in order before it, or the lower one behind it.
    """

    partition: int
    offset: int
    line: int
    number: int
    rival: int


@dataclass(frozen=True, slots=True)
class Total:
    """Rows of a partition that are out of place, and how far at most."""

    partition: int
    late: int = 0
    latest: int = 0
    early: int = 0
    earliest: int = 0

    @property
    def count(self) -> int:
        """Rows that are too late or too early."""
        return self.late + self.early


@dataclass(frozen=True, slots=True, eq=False)
class Disorder:
    """Runs of rows that are out of place, by (partition, offset); all columns are of one length.

    Attributes:
        first, last: numbers.
        offset: of the first row.
        rival: as in `Misplaced`; above ``last`` if the rows are too late, below ``first`` if they are too early.
    """

    partition: Longs
    line: Longs
    first: Longs
    last: Longs
    offset: Longs
    rival: Longs

    def __len__(self) -> int:
        return len(self.first)

    def totals(self) -> tuple[Total, ...]:
        """Return the totals of each partition that has such rows."""
        return tuple(self._total(int(partition)) for partition in np.unique(self.partition))

    def shown(self, count: int) -> tuple[Misplaced, ...]:
        """Return the first rows, at most `count`."""
        return tuple(islice(self._each(), count))

    def _total(self, partition: int) -> Total:
        here = self.partition == partition
        first, last, rival = self.first[here], self.last[here], self.rival[here]
        rows, late = last - first + 1, rival > last
        latest = (rival - first)[late].max(initial=0)
        earliest = (last - rival)[~late].max(initial=0)
        return Total(partition, int(rows[late].sum()), int(latest), int(rows[~late].sum()), int(earliest))

    def _each(self) -> Iterator[Misplaced]:
        for partition, line, first, last, offset, rival in zip(
            *(getattr(self, name).tolist() for name in ("partition", "line", "first", "last", "offset", "rival")), strict=True
        ):
            for step in range(last - first + 1):
                yield Misplaced(partition, offset + step, line, first + step, rival)


NONE = Disorder(*np.empty((6, 0), np.int64))


def find(partition: Longs, line: Longs, first: Longs, last: Longs, offset: Longs) -> Disorder:
    """Find the rows out of place, from all runs of a log or from all of its rows in conflict, in any order."""
    order = np.lexsort((offset, line, partition))
    first, last = np.minimum(first, _LARGEST), np.minimum(last, _LARGEST)
    columns = [column[order] for column in (partition, line, first, last, offset)]
    home, of, begin, end, at = columns
    bounds = np.flatnonzero((np.diff(home, prepend=-1) != 0) | (np.diff(of, prepend=-1) != 0)) if len(home) else order
    found = [np.empty((6, 0), np.int64)]
    for here, there in zip(bounds, np.append(bounds[1:], len(home)), strict=False):
        part = slice(here, there)
        rows = of_line(begin[part], end[part], at[part])
        found.append(np.stack((np.full(rows.shape[1], home[here]), np.full(rows.shape[1], of[here]), *rows)))
    merged = np.concatenate(found, axis=1)
    return Disorder(*merged[:, np.lexsort((merged[4], merged[0]))])


def of_line(first: Longs, last: Longs, offset: Longs) -> Longs:
    """Find the rows out of place of one line, from its runs by offset: rows of first, last, offset and rival."""
    pieces = _in_conflict(first, last, offset)
    if not pieces.shape[1]:
        return np.empty((4, 0), np.int64)
    cuts, piece, offset = _cut(*pieces)
    return _out_of_place(cuts, piece, offset, _longest(piece, np.diff(cuts)))


def _in_conflict(first: Longs, last: Longs, offset: Longs) -> Longs:
    """Return the parts of the runs that are in conflict, by offset: rows of first, last and offset.

    The rows of one run do not conflict with each other. So its numbers below the highest before it are at its beginning, and
    those above the lowest behind it are at its end.
    """
    if not len(first):
        return np.empty((3, 0), np.int64)
    highest = np.concatenate((first[:1] - 1, np.maximum.accumulate(last)[:-1]))
    lowest = np.concatenate((np.minimum.accumulate(first[::-1])[::-1][1:], last[-1:] + 1))
    late_to, early_from = np.minimum(last, highest - 1), np.maximum(first, lowest + 1)
    whole = (early_from <= late_to + 1) & (late_to >= first) & (early_from <= last)  # both parts, with nothing between them
    late_to = np.where(whole, last, late_to)
    early_from = np.where(whole, last + 1, early_from)
    begins, ends = np.stack((first, early_from)), np.stack((late_to, last))
    columns = np.stack((begins, ends, np.stack((offset, offset + early_from - first)))).reshape(3, -1)
    columns = columns[:, columns[0] <= columns[1]]
    return columns[:, np.argsort(columns[2], kind="stable")]


def _cut(first: Longs, last: Longs, offset: Longs) -> tuple[Longs, Longs, Longs]:
    """Return the ascending cuts; and for each piece, by offset, its index (from cut to cut) and the offset of its first row."""
    cuts = np.unique(np.concatenate((first, last + 1)))
    begin, end = np.searchsorted(cuts, first), np.searchsorted(cuts, last + 1)
    sizes = end - begin
    run = np.repeat(np.arange(len(first)), sizes)
    piece = begin[run] + np.arange(len(run)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return cuts, piece, offset[run] + cuts[piece] - first[run]


def _longest(piece: Longs, weight: Longs) -> Longs:
    """Return the places of the heaviest rising sequence of pieces, ascending; among several, the one nearest the front.

    It is built from the end. For each piece that can begin a sequence, the heaviest one is kept, unless one that begins with a
    higher piece is as heavy.
    """
    keys: list[int] = []  # pieces, negated, so that they rise; so do the weights
    weights: list[int] = []
    places: list[int] = []
    behind = np.full(len(piece), -1, np.int64)
    for place, one in zip(range(len(piece) - 1, -1, -1), piece[::-1].tolist(), strict=True):
        at = end = bisect_left(keys, -one)
        heavy = int(weight[one]) + (weights[at - 1] if at else 0)
        behind[place] = places[at - 1] if at else -1
        while end < len(weights) and weights[end] <= heavy:
            end += 1
        keys[at:end], weights[at:end], places[at:end] = [-one], [heavy], [place]
    found, place = [], places[-1]
    while place >= 0:
        found.append(place)
        place = int(behind[place])
    return np.array(found, np.int64)


def _out_of_place(cuts: Longs, piece: Longs, offset: Longs, in_order: Longs) -> Longs:
    """Return the rows of pieces that are too late or too early: first, last, offset and rival."""
    kept = np.zeros(len(piece), np.bool_)
    kept[in_order] = True
    next_ = np.searchsorted(in_order, np.arange(len(piece)))
    before = np.concatenate(([-1], piece[in_order]))[next_]  # the pieces in order before and behind each piece
    after = np.concatenate((piece[in_order], [len(cuts)]))[next_]
    first, last = cuts[piece], cuts[piece + 1] - 1
    late, early = ~kept & (before >= piece), ~kept & (after <= piece)
    highest, lowest = cuts[np.minimum(before + 1, len(cuts) - 1)] - 1, cuts[np.minimum(after, len(cuts) - 1)]
    too_late = np.stack((first, np.minimum(last, highest - 1), offset, highest))[:, late]
    begin = np.maximum(first, lowest + 1)
    too_early = np.stack((begin, last, offset + begin - first, lowest))[:, early & ~late]
    found = np.concatenate((too_late, too_early), axis=1)
    return found[:, found[0] <= found[1]]
