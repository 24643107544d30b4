"""Content-defined chunks: the rows of a log say where it is cut, so two logs have equal chunks wherever their rows are equal.

A row whose print ends in some zeros ends a chunk, as in rsync. A lost, changed or repeated row changes only its own chunk; the
chunks after it are alike again. The hash of a chunk depends on the order of its rows, and follows from those of its parts::

    H(rows) = sum of print[i] * B^i mod 2^64        H(a + b) = H(a) + B^len(a) * H(b)

So each executor makes parts of the rows that it reads, however the log is split, and nothing is shuffled. The offsets of a part
have no hole, so three numbers give the places of all its rows.

Executors may lack this project, so the module itself is sent to them: it imports numpy and pyarrow, and nothing else.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

SCHEMA = "partition int, first long, rows long, hash long, closed boolean, keyless boolean"

_BASE = np.uint64(0x9E3779B97F4A7C15)
_OF_LENGTH = np.uint64(0xD6E8FEB86659FD93)
_ONE = np.uint64(1)

Longs = NDArray[np.int64]
Hashes = NDArray[np.uint64]
Flags = NDArray[np.bool_]


# on executors --------------------------------------------------------------------------------------------------------------


def splitter(bits: int) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that makes parts of rows, for executors.

    Rows have the columns partition int, offset long and print long; the print of a row without a key is 0. Parts have the
    columns of `SCHEMA`.

    Args:
        bits: a chunk has 2 to the power of this many rows in the mean.
    """

    def split(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                yield _parts(batch, np.uint64((1 << bits) - 1))

    return split


def _parts(batch: pa.RecordBatch, mask: np.uint64) -> pa.RecordBatch:
    partition, offset, prints = (column.to_numpy(zero_copy_only=False) for column in batch.columns)
    hashes = prints.view(np.uint64)
    closes = (hashes & mask) == 0
    breaks = closes[:-1] | (np.diff(partition) != 0) | (np.diff(offset) != 1)
    begins = np.concatenate((np.zeros(1, np.int64), np.flatnonzero(breaks) + 1))
    rows = np.diff(np.append(begins, len(hashes)))
    place = np.arange(len(hashes)) - np.repeat(begins, rows)
    columns = {
        "partition": partition[begins],
        "first": offset[begins],
        "rows": rows,
        "hash": np.add.reduceat(hashes * _powers(int(rows.max()))[place], begins).view(np.int64),
        "closed": closes[begins + rows - 1],
        "keyless": np.logical_or.reduceat(hashes == 0, begins),
    }
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns.values()], names=list(columns))


def _powers(count: int) -> Hashes:
    """Return the first powers of the base, beginning with 1."""
    return np.cumprod(np.concatenate((np.ones(1, np.uint64), np.full(count - 1, _BASE))), dtype=np.uint64)


# in the driver -------------------------------------------------------------------------------------------------------------


class OverlapError(Exception):
    """Two rows of a log share an offset."""


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """The parts of a log, ordered by place; the columns have one length.

    Attributes:
        chunk: the number of the chunk to which each part belongs; the numbers rise from 0 on.
        keyless: whether any row has no key.
    """

    partition: Longs
    first: Longs
    rows: Longs
    chunk: Longs
    keyless: bool

    def taken(self, places: Flags) -> "Parts":
        """Select the parts at these places."""
        return Parts(self.partition[places], self.first[places], self.rows[places], self.chunk[places], self.keyless)

    def of(self, chunks: Longs) -> "Parts":
        """Select the parts of these chunks."""
        return self.taken(self._among(chunks))

    def others(self, chunks: Longs) -> "Parts":
        """Select the parts of all other chunks."""
        return self.taken(~self._among(chunks))

    def _among(self, chunks: Longs) -> Flags:
        among = np.zeros(self.chunk.max(initial=-1) + 1, np.bool_)
        among[chunks] = True
        return np.asarray(among[self.chunk], np.bool_)


def assembled(found: pa.Table) -> tuple[Parts, Longs, Hashes]:
    """Order the parts of a log, and return with them the partition of each chunk, and a number that equal chunks share.

    Two chunks with different rows share a number with a probability of 2^-62 times their length at most: if two rows of one
    change places at a distance of d, this multiplies the difference of their prints by 2^2 * d and an odd number, at most.

    Raises:
        OverlapError: two rows share an offset.
    """
    ordered = found.sort_by([("partition", "ascending"), ("first", "ascending")])
    partition, first, rows = (ordered.column(name).to_numpy().astype(np.int64) for name in ("partition", "first", "rows"))
    hashes = ordered.column("hash").to_numpy().view(np.uint64)
    closed = ordered.column("closed").to_numpy()
    other = np.diff(partition) != 0
    if (~other & (first[:-1] + rows[:-1] > first[1:])).any():
        raise OverlapError
    begins = np.flatnonzero(np.concatenate((np.ones(min(1, len(rows)), np.bool_), other | closed[:-1])))
    chunk = np.repeat(np.arange(len(begins)), np.diff(np.append(begins, len(rows))))
    parts = Parts(partition, first, rows, chunk, bool(ordered.column("keyless").to_numpy().any()))
    if not len(rows):
        return parts, partition, hashes
    before = np.cumsum(rows) - rows
    before -= before[begins][chunk]
    numbers = np.add.reduceat(hashes * _raised(before), begins) + np.add.reduceat(rows, begins).view(np.uint64) * _OF_LENGTH
    return parts, partition[begins], numbers


def _raised(exponents: Longs) -> Hashes:
    """Raise the base to each of these powers."""
    left, found, square = exponents.view(np.uint64), np.ones(len(exponents), np.uint64), np.array([_BASE])
    while left.any():
        found = np.where(left & _ONE, found * square, found)
        square, left = square * square, left >> _ONE
    return found
