"""Pieces: the order of a log without runs, read by offset into the driver's memory, a piece at a time (why: `islands`).

A record is in conflict if its number is below the highest before it in its partition and line, or above the lowest behind it.
So only the highest and the lowest number of each line have to be known of all other pieces, and only the piece in memory is
sorted. A log in which no record is below one before it is in order; in others, the records in conflict are read once more, and
held. Each id is ticked off on the way, because blocks without offsets cannot distinguish an id that is expected twice from one
that is there twice.
"""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from verifiers import arrow, disorder
from verifiers.base import Evidence
from verifiers.disorder import Disorder
from verifiers.single_scan import groups
from verifiers.single_scan.groups import UNDECODABLE, Groups, Limits, Longs, starts

Piece = tuple[int, Longs, Longs]
_LARGEST = np.int64(2**63 - 1)


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """The result of reading a log.

    Attributes:
        checked: the records with an id.
        falls: whether a record is below one before it.
        repeated: the blocks (`Groups.ids`) that hold an id more than once; None if that is not known.
    """

    checked: int
    falls: bool
    repeated: Longs | None


def read(evidence: Evidence, observed: Groups, limits: Limits) -> Order:
    """Read a log, and find whether it is in order.

    Args:
        observed: its groups.
    """
    lines = evidence.lines
    blocks = np.unique(observed.ids(lines))
    seen = _Seen(blocks[blocks != UNDECODABLE], lines, limits)
    highest: dict[int, Longs] = {}
    checked, falls = 0, False
    for partition, _, id_ in _pieces(evidence.observed, limits.most_rows):
        number, line = np.divmod(id_, lines)
        seen.tick(number, line)
        before = _highest_before(line, number, highest.setdefault(partition, np.full(lines, -1, np.int64)))
        falls = falls or bool((number < before).any())
        checked += len(number)
    return Order(checked, falls, seen.repeated())


def disorder_of(evidence: Evidence, strays: tuple[Longs, Longs], limits: Limits) -> Disorder:
    """Find the disorder of a log that falls. It is read twice more: for the lowest numbers, and for the rows in conflict.

    Args:
        strays: partition and offset of records that have no place.
    """
    lines = evidence.lines
    lowest = [(partition, _lowest(number, line, lines)) for partition, _, number, line in _placed(evidence, strays, limits)]
    highest: dict[int, Longs] = {}
    kept = [np.empty((4, 0), np.int64)]
    for place, (partition, offset, number, line) in enumerate(_placed(evidence, strays, limits)):
        before = _highest_before(line, number, highest.setdefault(partition, np.full(lines, -1, np.int64)))
        behind = [low for home, low in lowest[place + 1 :] if home == partition]
        end = np.min(behind, axis=0) if behind else np.full(lines, _LARGEST)
        after = -_highest_before(line[::-1], -number[::-1], -end)[::-1]
        wrong = (number < before) | (number > after)
        kept.append(np.stack((np.full(len(number), partition), line, number, offset))[:, wrong])
    partitions, line, number, offset = np.concatenate(kept, axis=1)
    return disorder.find(partitions, line, number, number, offset)


def _placed(evidence: Evidence, strays: tuple[Longs, Longs], limits: Limits) -> Iterator[tuple[int, Longs, Longs, Longs]]:
    """Yield partition, offsets, numbers and lines of the records that have a place, piece by piece."""
    for partition, offset, id_ in _pieces(evidence.observed, limits.most_rows):
        kept = ~np.isin(offset, strays[1][strays[0] == partition])
        number, line = np.divmod(id_[kept], evidence.lines)
        yield partition, offset[kept], number, line


def _lowest(number: Longs, line: Longs, lines: int) -> Longs:
    """Return the lowest number of each line."""
    found = np.full(lines, _LARGEST)
    np.minimum.at(found, line, number)
    return found


def rise(log: DataFrame, blocks: Longs, partitions: int, limits: Limits) -> bool | None:
    """Whether the ids of each partition of a log rise, and none is there twice; None if that is not known.

    Args:
        blocks: the log's blocks (`Groups.ids`).
    """
    seen = _Seen(np.unique(blocks[blocks != UNDECODABLE]), partitions, limits)
    highest: dict[int, int] = {}
    for partition, _, id_ in _pieces(log, limits.most_rows):
        if not len(id_):
            continue
        if id_[0] <= highest.get(partition, -1) or (np.diff(id_) <= 0).any():
            return False
        highest[partition] = int(id_[-1])
        seen.tick(*np.divmod(id_, partitions))
    repeated = seen.repeated()
    return None if repeated is None else not len(repeated)


class _Seen:
    """A set of seen ids: a byte for each number of the log's blocks."""

    def __init__(self, blocks: Longs, partitions: int, limits: Limits) -> None:
        self._blocks, self._partitions, self._bits = blocks, partitions, limits.block_bits
        self._ticks = np.zeros(len(blocks) << self._bits, np.bool_) if len(blocks) << self._bits <= limits.most_ids else None
        self._ticked = 0
        self._repeated = [np.empty(0, np.int64)]

    def tick(self, numbers: Longs, lines: Longs) -> None:
        """Tick off records, by number and line."""
        if self._ticks is None:
            return
        blocks = (numbers >> self._bits) * self._partitions + lines
        places = (np.searchsorted(self._blocks, blocks) << self._bits) + (numbers & ((1 << self._bits) - 1))
        before = places[self._ticks[places]]
        self._ticks[places] = True
        self._ticked, former = int(np.count_nonzero(self._ticks)), self._ticked
        if self._ticked - former < len(places):
            ordered = np.sort(places, kind="stable")
            twice = ordered[1:][ordered[1:] == ordered[:-1]]
            self._repeated.append(np.unique(np.concatenate((before, twice)) >> self._bits))

    def repeated(self) -> Longs | None:
        """Return the blocks that hold an id more than once."""
        return None if self._ticks is None else self._blocks[np.unique(np.concatenate(self._repeated))]


def _pieces(observed: DataFrame, most: int) -> Iterator[Piece]:
    """Yield partition, offsets and ids of the records that have an id, by (partition, offset)."""
    ends = observed.groupBy("partition").agg(F.min("offset"), F.max("offset")).collect()
    rows = groups.decoded(observed).where("id IS NOT NULL").select("partition", "offset", "id")
    asked = [(home, begin, begin + most - 1) for home, low, high in sorted(ends) for begin in range(low, high + 1, most)]
    with ThreadPoolExecutor(1) as pool:  # a piece is read while the one before it is judged
        ahead: Future[Piece] | None = None
        for home, begin, end in asked:
            current, ahead = ahead, pool.submit(_piece, rows, home, begin, end)
            if current is not None:
                yield current.result()
        if ahead is not None:
            yield ahead.result()


def _piece(rows: DataFrame, home: int, begin: int, end: int) -> Piece:
    found = arrow.table(rows.where(f"partition = {home} AND offset BETWEEN {begin} AND {end}").select("offset", "id"))
    offset, id_ = (column.to_numpy() for column in found.columns)
    order = np.argsort(offset, kind="stable")  # costs one comparison for each row if the file is in order
    return home, offset[order], id_[order]


def _highest_before(line: Longs, number: Longs, highest: Longs) -> Longs:
    """Return the highest number before each record in its line.

    Args:
        highest: by line, over all pieces before; it is updated.
    """
    order = np.argsort(line.astype(np.min_scalar_type(len(highest))), kind="stable")  # numpy has a radix sort for small types
    before = np.empty_like(number)
    begins = starts(line[order])
    for mine in np.split(order, begins[1:]) if len(order) else ():
        peaks = np.maximum.accumulate(np.concatenate((highest[line[mine[:1]]], number[mine])))
        before[mine] = peaks[:-1]
        highest[line[mine[0]]] = peaks[-1]
    return before
