"""Content-defined chunks: the rows of a log say where it is cut, so two logs have equal chunks wherever their rows are equal.

A row whose print ends in some zeros ends a chunk, as in rsync. A lost, changed or repeated row changes only its own chunk; the
chunks after it are alike again. The hash of a chunk depends on the order of its rows, and follows from those of its parts::

    H(rows) = sum of print[i] * B^i mod 2^64        H(a + b) = H(a) + B^len(a) * H(b)

So each executor makes parts of the rows that it reads, however the log is split, and no row is shuffled. The offsets of a part
have no hole, so three numbers give the places of all its rows. Prints are shuffled only to count equal ones (`dealer`).

Executors may lack this project, so the module itself is sent to them: it imports numpy and pyarrow, and nothing else.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

SCHEMA = "partition int, first long, rows long, hash long, closed boolean, keyless boolean"
OFFSET_BITS = 48
PARTITION_BITS = 15  # the other bits of a long, without the sign
DEALT = f"{SCHEMA}, home int, prints binary"
COUNTED = f"{SCHEMA}, doubles long"

_BASE = np.uint64(0x9E3779B97F4A7C15)
_OF_LENGTH = np.uint64(0xD6E8FEB86659FD93)
_ONE = np.uint64(1)
_HOME_BITS = 8
_HOMES = 1 << _HOME_BITS
_HELD = 1 << 17  # prints that are dealt at once

Longs = NDArray[np.int64]
Hashes = NDArray[np.uint64]
Flags = NDArray[np.bool_]


# on executors --------------------------------------------------------------------------------------------------------------


def splitter(bits: int) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that makes parts of rows, for executors.

    Rows have the columns place long and print long. A place is a partition and behind it an offset of `OFFSET_BITS`, or null if
    they do not fit; the print of a row without a key is 0. Two columns of one type reach Python in two thirds of the time of
    three. Parts have the columns of `SCHEMA`; partition -1 has rows whose place does not fit.

    Args:
        bits: a chunk has 2 to the power of this many rows in the mean.
    """

    def split(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                yield _parts(batch, bits)

    return split


def dealer(bits: int) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that makes parts like `splitter`, and deals the prints of the rows to homes.

    Its rows have the columns of `DEALT`, either those of a part or the prints of one home, as bytes. A print has one home.
    """

    def deal(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held, size = list[Longs](), 0
        for batch in batches:
            if batch.num_rows:
                parts = _parts(batch, bits)
                homes = np.arange(len(parts), dtype=np.int32) % _HOMES
                yield _batch(DEALT, [*parts.columns, homes, pa.nulls(len(parts), pa.binary())])
                held.append(batch.column(1).to_numpy())
                size += batch.num_rows
            if size >= _HELD:
                yield _dealt(np.concatenate(held))
                held, size = [], 0
        if held:
            yield _dealt(np.concatenate(held))

    return deal


def _dealt(prints: Longs) -> pa.RecordBatch:
    """Deal prints by their first bits; their last bits say where chunks end."""
    home = (prints.view(np.uint64) >> np.uint64(64 - _HOME_BITS)).astype(np.uint8)
    ends = np.cumsum(np.bincount(home, minlength=_HOMES))
    offsets = (np.append(0, ends) * prints.itemsize).astype(np.int32)
    of_home = prints[np.argsort(home, kind="stable")]
    texts = pa.Array.from_buffers(pa.binary(), _HOMES, [None, pa.py_buffer(offsets), pa.py_buffer(of_home)])
    of_parts = (pa.nulls(_HOMES, type_) for type_ in _types(SCHEMA))
    return _batch(DEALT, [*of_parts, np.arange(_HOMES, dtype=np.int32), texts])


def count_doubles(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pass the parts on, and count the prints that equal another one of the same homes, but for the first of each.

    Rows are those of `dealer`. The result has the columns of `COUNTED`: ``doubles`` is null for a part, and the last row has
    nothing else.
    """
    held = [np.empty(0, np.int64)]
    for batch in batches:
        *_, prints_of_home = batch.columns
        parts = batch.filter(prints_of_home.is_null())
        if parts.num_rows:
            *of_parts, _home, _prints = parts.columns
            yield _batch(COUNTED, [*of_parts, pa.nulls(len(parts), pa.int64())])
        held += [np.frombuffer(one, np.int64) for one in prints_of_home.drop_null().to_pylist()]
    prints = np.sort(np.concatenate(held))
    doubles = np.array([np.count_nonzero(prints[1:] == prints[:-1])])
    yield _batch(COUNTED, [*(pa.nulls(1, type_) for type_ in _types(SCHEMA)), doubles])


def _batch(schema: str, columns: Sequence[pa.Array | NDArray[np.generic]]) -> pa.RecordBatch:
    """Make a batch with the names of this schema."""
    names = [column.split()[0] for column in schema.split(", ")]
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], names=names)


def _types(schema: str) -> list[pa.DataType]:
    kinds = {"int": pa.int32(), "long": pa.int64(), "boolean": pa.bool_()}
    return [kinds[column.split()[1]] for column in schema.split(", ")]


def _parts(batch: pa.RecordBatch, bits: int) -> pa.RecordBatch:
    places, prints = batch.columns
    place = places.fill_null(-1).to_numpy()
    hashes = prints.to_numpy().view(np.uint64)
    closes = (hashes & np.uint64((1 << bits) - 1)) == 0
    breaks = closes[:-1] | (np.diff(place) != 1)
    begins = np.concatenate((np.zeros(1, np.int64), np.flatnonzero(breaks) + 1))
    rows = np.diff(np.append(begins, len(hashes)))
    turn = np.arange(len(hashes)) - np.repeat(begins, rows)
    sums = np.add.reduceat(hashes * _powers(int(rows.max()))[turn], begins).view(np.int64)
    keyless = np.logical_or.reduceat(hashes == 0, begins)
    partition, first = (place[begins] >> OFFSET_BITS).astype(np.int32), place[begins] & ((1 << OFFSET_BITS) - 1)
    return _batch(SCHEMA, [partition, first, rows, sums, closes[begins + rows - 1], keyless])


def _powers(count: int) -> Hashes:
    """Return the first powers of the base, beginning with 1."""
    return np.cumprod(np.concatenate((np.ones(1, np.uint64), np.full(count - 1, _BASE))), dtype=np.uint64)


# in the driver -------------------------------------------------------------------------------------------------------------


class PlaceError(Exception):
    """The rows of a log have no places that chunks can have."""


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
        PlaceError: two rows share an offset, or a partition or an offset is too large.
    """
    ordered = found.sort_by([("partition", "ascending"), ("first", "ascending")])
    partition, first, rows = (ordered.column(name).to_numpy().astype(np.int64) for name in ("partition", "first", "rows"))
    hashes = ordered.column("hash").to_numpy().view(np.uint64)
    closed = ordered.column("closed").to_numpy()
    other = np.diff(partition) != 0
    if (partition < 0).any() or (~other & (first[:-1] + rows[:-1] > first[1:])).any():
        raise PlaceError
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
