"""Alignment: match the rows of a copy with their records by comparing both logs place by place.

Most sinks are such copies, and the comparison needs no shuffle, whatever the keys are: both logs are read by offset into the
driver's memory, a piece at a time, as hashes of key and value. After a difference, the comparison goes on at the nearest place
from which on they are alike::

    source    a b c d e f g h i j k l m n        c is lost, h is there again, and l is another value
    sink      a b d e f g h h i j k x m n
    aligned   == ==========   ====  ====         the rest is doubtful: c, h, l and x

Each key of a doubtful row or record is doubtful as a whole. All rows and records of any other key are aligned, in the order of
their offsets, so the k-th equal row answers the k-th equal record, as in `answers.find`. Its answer for a row or record depends
only on those of the same key, so it needs only the rows and records of doubtful keys. The choice of places at which the logs
are taken to be alike affects only the number of doubtful keys.

A key is known by a hash of 32 bits here: a key that has the hash of a doubtful one is doubtful, too. A wrong row has the hash
of the right one, of key and value, with a probability of 2^-64.

Records that the consumer group has not passed are doubtful, with their keys, whether they are answered or not.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import groupby, zip_longest
from operator import itemgetter

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from verifiers import arrow
from verifiers.single_scan.groups import Limits, Longs
from verifiers.single_scan.runs import Runs

_Pair = tuple[int, Longs, Longs]  # a partition, and a piece of either log
_NONE = np.empty(0, np.int32)
_NOTHING = np.empty((3, 0), np.int64)
_DEFAULT = Limits()
KEY = "hash(key)"  # a row without a key has a hash, too, but the print of no record
PRINT = "IF(key IS NULL, 0L, xxhash64(key, value)) AS print"
_ROW = ("offset", PRINT, f"{KEY} AS key")
_ALIKE_AT_ONCE = 4  # a single record that recurs would often be taken for another one
_MOST_BREAKS = 20_000  # a log with more is quicker to join
SHARE = 8  # if more than one in so many rows is doubtful, it is quicker to match all


class _UncertainError(Exception):
    """An offset is there twice, a record has no key, or too little is alike."""


@dataclass(frozen=True, slots=True, eq=False)
class Copied:
    """The result of a comparison: how far the sink is a copy of the demanded records.

    Attributes:
        rows: number of rows of the whole sink.
        doubtful: the hashes of the doubtful keys, ascending.
        aligned: rows and the records that they answer, among them some of doubtful keys. The line is the partition of the
            record, and its number is the record's offset. None if there are too many runs.
        doubles: number of demanded records that equal an earlier one (`chaos.matching.doubles`); None if it is not known.
    """

    rows: int
    doubtful: Longs
    aligned: Runs | None
    doubles: int | None = None


def worth_asking(rows: int, limits: Limits) -> int:
    """Return the greatest number of doubtful rows for which it is quicker to match these alone than all.

    Args:
        rows: number of rows of the whole sink.
    """
    return max(limits.small_rows, min(limits.most_rows, rows // SHARE))


def compare(
    wanted: DataFrame, sink: DataFrame, positions: Mapping[int, int], limits: Limits = _DEFAULT, *, doubles: bool = False
) -> Copied | None:
    """Compare the sink with the demanded records; None if nothing is certain.

    Args:
        wanted: partition, offset, key and value of demanded records; the sink has these columns, too.
        positions: how far each partition of the source was processed; 0 for a missing partition.
        doubles: whether the doubles of the demanded records are counted, too.
    """
    compared = _Comparison(limits, doubles=doubles)
    try:
        with ThreadPoolExecutor(2) as pool:
            ours, theirs = pool.map(partial(_side, limits), (wanted, sink))
            for number, pairs in groupby(_read(pool, (ours, theirs)), itemgetter(0)):
                compared.go_on(number, pairs, positions.get(number, 0))
        return compared.result(theirs.rows)
    except _UncertainError:
        return None


def of_doubtful_keys(rows: DataFrame, copied: Copied) -> DataFrame:
    """Select the rows, or records, of doubtful keys; rows without a key are among them."""
    doubtful = arrow.frame(rows.sparkSession, pa.table({"_key": copied.doubtful.astype(np.int32)}))
    return rows.withColumn("_key", F.expr(KEY)).join(F.broadcast(doubtful), "_key", "left_semi").drop("_key")


# reading -------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Side:
    """One log: its number of rows, and partition -> SQL conditions of its pieces."""

    log: DataFrame
    rows: int
    pieces: Mapping[int, Sequence[str]]


def _side(limits: Limits, log: DataFrame) -> _Side:
    """Plan the pieces of a log: a partition is one piece if it may be held; only of larger ones the ends are looked up."""
    counts = {row["partition"]: row["count"] for row in log.groupBy("partition").count().collect()}
    large = [number for number, rows in counts.items() if rows > limits.most_rows]
    ends = log.where(F.col("partition").isin(large)).groupBy("partition").agg(F.min("offset"), F.max("offset"))
    pieces = {number: [f"partition = {number}"] for number in counts}
    for number, first, last in ends.collect() if large else ():
        begins = range(first, last + 1, limits.most_rows)
        pieces[number] = [f"partition = {number} AND offset BETWEEN {at} AND {at + limits.most_rows - 1}" for at in begins]
    return _Side(log, sum(counts.values()), pieces)


def _read(pool: Executor, sides: Sequence[_Side]) -> Iterator[_Pair]:
    """Yield both logs, piece by piece; the next pieces are read while these are compared."""
    ahead: Callable[[], _Pair] | None = None
    for number in sorted(set().union(*(side.pieces for side in sides))):
        for pair in zip_longest(*(side.pieces.get(number, ()) for side in sides)):
            ours, theirs = (pool.submit(_piece, side.log, where) for side, where in zip(sides, pair, strict=True))
            current, ahead = ahead, partial(_both_read, number, ours, theirs)
            if current is not None:
                yield current()
    if ahead is not None:
        yield ahead()


def _both_read(number: int, ours: Future[Longs], theirs: Future[Longs]) -> _Pair:
    return number, ours.result(), theirs.result()


def _piece(log: DataFrame, where: str | None) -> Longs:
    """Read offset, print and key of the rows of a piece, by offset."""
    if where is None:
        return _NOTHING
    found = arrow.table(log.where(where).selectExpr(*_ROW))
    piece = np.empty((len(_ROW), len(found)), np.int64)
    for row, column in zip(piece, found.columns, strict=True):
        np.concatenate([_NONE, *(chunk.to_numpy() for chunk in column.chunks)], out=row)
    if (piece[0, 1:] <= piece[0, :-1]).any():
        piece = piece[:, np.argsort(piece[0], kind="stable")]
        if (np.diff(piece[0]) == 0).any():
            raise _UncertainError
    return piece


# comparing -----------------------------------------------------------------------------------------------------------------


class _Comparison:
    """Goes through both logs at once; rows are columns of offset, print and key."""

    def __init__(self, limits: Limits, *, doubles: bool) -> None:
        self._limits = limits
        self._doubtful = [np.empty(0, np.int64)]
        self._aligned: list[Longs] | None = [np.empty((5, 0), np.int64)]
        self._runs = self._breaks = self._records = 0
        self._prints: list[Longs] | None = [np.empty(0, np.int64)] if doubles else None  # of the records, if they may be held

    def go_on(self, partition: int, pairs: Iterable[_Pair], position: int) -> None:
        """Compare a partition, however it is cut into pieces."""
        left, right = _NOTHING, _NOTHING
        for _, one, other in pairs:
            if not one[1].all():
                raise _UncertainError  # a record without a key
            self._remember(one[1])
            left, right = _behind(left, one), _behind(right, other)
            here, there = self._align(partition, left, right, position)
            left, right = left[:, here:], right[:, there:]
            if max(left.shape[1], right.shape[1]) > self._limits.most_rows:
                raise _UncertainError
        self._doubt(left, right)

    def result(self, rows: int) -> Copied:
        """Return the result, once all partitions were compared."""
        aligned = None if self._aligned is None else Runs(*np.concatenate(self._aligned, axis=1))
        doubles = None if self._prints is None else _doubles(self._prints)
        return Copied(rows, np.unique(np.concatenate(self._doubtful)), aligned, doubles)

    def _remember(self, prints: Longs) -> None:
        self._records += len(prints)
        if self._records > self._limits.most_rows:
            self._prints = None
        if self._prints is not None:
            self._prints.append(prints.copy())  # not a view of the piece, which would keep all of it

    def _align(self, partition: int, left: Longs, right: Longs, position: int) -> tuple[int, int]:
        """Align both as long as there is a place at which they are alike; return how far that is."""
        here = there = 0
        while True:
            length = _common(left[1, here:], right[1, there:])
            ours, theirs = left[:, here : here + length], right[:, there : there + length]
            self._keep(_runs(partition, ours[0], theirs[0]))
            self._doubt(ours[:, np.searchsorted(ours[0], position) :])
            here, there = here + length, there + length
            step = _next(left[1, here:], right[1, there:])
            if step is None:
                return here, there
            self._breaks += 1
            if self._breaks > _MOST_BREAKS:
                raise _UncertainError
            self._doubt(left[:, here : here + step[0]], right[:, there : there + step[1]])
            here, there = here + step[0], there + step[1]

    def _keep(self, aligned: Longs) -> None:
        self._runs += aligned.shape[1]
        if self._runs > self._limits.most_rows:
            self._aligned = None
        if self._aligned is not None:
            self._aligned.append(aligned)

    def _doubt(self, *sides: Longs) -> None:
        self._doubtful += [np.unique(rows[2]) for rows in sides if rows.shape[1]]


def _behind(rest: Longs, piece: Longs) -> Longs:
    """Append a piece to the rest of earlier ones, without a copy if there is none."""
    return np.concatenate((rest, piece), axis=1) if rest.shape[1] else piece


def _common(ours: Longs, theirs: Longs) -> int:
    """Return the length of the common beginning; the search is short if that is."""
    begin, step, end = 0, 256, min(len(ours), len(theirs))
    while begin < end:
        differs = ours[begin : min(begin + step, end)] != theirs[begin : min(begin + step, end)]
        if differs.any():
            return begin + int(differs.argmax())
        begin, step = begin + step, 4 * step
    return end


def _next(ours: Longs, theirs: Longs) -> tuple[int, int] | None:
    """Find the nearest places from which on some prints are alike; None if there are none."""
    size = 64
    while True:
        _, here, there = np.intersect1d(_joined(ours[:size]), _joined(theirs[:size]), return_indices=True)
        if len(here):
            nearest = int(np.argmin(here + there))
            return int(here[nearest]), int(there[nearest])
        if size >= max(len(ours), len(theirs)):
            return None
        size *= 4


def _joined(prints: Longs) -> Longs:
    """Hash each print together with those after it."""
    size = max(0, len(prints) - _ALIKE_AT_ONCE + 1)
    found = np.zeros(size, np.int64)
    for place in range(_ALIKE_AT_ONCE):
        found = found * 0x5851F42D4C957F2D + prints[place : place + size]
    return found


def _doubles(pieces: Sequence[Longs]) -> int:
    prints = np.sort(np.concatenate(pieces))
    return int(np.count_nonzero(prints[1:] == prints[:-1]))


def _runs(partition: int, numbers: Longs, offsets: Longs) -> Longs:
    """Turn pairs of record and row into runs: rows of the five columns of `Runs`."""
    if not len(numbers):
        return np.empty((5, 0), np.int64)
    breaks = np.flatnonzero((np.diff(numbers) != 1) | (np.diff(offsets) != 1)) + 1
    begins, ends = np.append(0, breaks), np.append(breaks, len(numbers)) - 1
    home = np.full(len(begins), partition)
    return np.stack((home, home, numbers[begins], numbers[ends], offsets[begins]))
