"""Compare copies on executors: the driver holds one row for each part of a chunk (`chunks`), and no rows of the logs.

The result is that of `alignment`::

    source    a b c d.e f g.h i j k l.m n        dots end chunks; c is lost
    sink      a b d.e f g.h i j k l.m n
    alike           =========================    a, b, c and d are read; c is doubtful

The driver pairs equal chunks. It reads only the rows of other chunks, and compares these one by one; chunks are small, so few
rows are read beside those that differ. If too many rows are in such chunks, none is read, and all of their keys are doubtful.

Executors need Python with numpy, pandas and pyarrow. There is no result if they lack it, or if chunks do not help: if a log has
so many holes in its offsets, or is in so many pieces, that it has nearly as many parts as rows, or if its records are so much
alike that few of them end a chunk. The driver compares then (`copies`).
"""

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial, reduce

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from chaos.matching.fast import alignment, alike, chunks
from chaos.matching.fast.alignment import Copied
from chaos.matching.fast.chunks import Hashes, Longs, Parts
from verifiers import arrow
from verifiers.findings import by_partition
from verifiers.single_scan import runs
from verifiers.single_scan.groups import Limits, longs, starts
from verifiers.single_scan.runs import Runs

_NO_PYTHON = re.compile(
    r"No module named|PACKAGE_NOT_INSTALLED|UNSUPPORTED_PACKAGE_VERSION"
    r"|PYTHON_VERSION_MISMATCH|has different version|Cannot run program"
)
_BLOCK_BITS = 6  # ranges of offsets are joined by blocks of 2 to the power of this many
_COARSE_BITS = 3  # chunks that are 2 to the power of this many times larger than intended are of no use
_ROWS_FOR_A_GROUP = 4  # so many held rows need the memory of one group
_PLACE = (
    f"CASE WHEN shiftright(offset, {chunks.OFFSET_BITS}) = 0 AND shiftright(partition, {chunks.PARTITION_BITS}) = 0 "
    f"THEN shiftleft(CAST(partition AS BIGINT), {chunks.OFFSET_BITS}) + offset END AS place"
)
_ROW = ("partition", "offset", "print", "key")
_MIXED = np.array([[0x9E3779B97F4A7C15], [0xC2B2AE3D27D4EB4F], [0x165667B19E3779F9]], np.uint64)
_NONE = np.empty(0, np.int64)

_Chunked = tuple[Parts, Longs, Hashes]  # as `chunks.assembled` returns it

cloudpickle.register_pickle_by_value(chunks)  # type: ignore[no-untyped-call]


def compare(
    wanted: DataFrame, sink: DataFrame, positions: Mapping[int, int], records: int, limits: Limits, *, doubles: bool = False
) -> Copied | None:
    """Compare the sink with the demanded records; None if that is left to the driver, which also finds records without a key.

    Args:
        wanted, sink, positions, doubles: as in `alignment.compare`.
        records: number of records in both logs, roughly.
    """
    logs = (wanted, sink)
    large, small = (_bits(records, most, limits) for most in (limits.first_chunks, limits.most_groups))
    try:
        return _by_chunks(logs, positions, max(large, small), limits, doubles=doubles, last=large <= small)
    except _TooLargeError as error:
        found = _by_chunks(logs, positions, small, limits)
        return None if found is None else replace(found, doubles=error.doubles)


class _TooLargeError(Exception):
    """Too many rows are in chunks that differ, and may be fewer in smaller chunks."""

    doubles: int | None = None


def _bits(records: int, most: int, limits: Limits) -> int:
    """Return the size of chunks, as a power of 2: the smallest one of which there are no more than ``most``."""
    bits = limits.chunk_bits
    while records >> bits > most:
        bits += 1
    return bits


def _by_chunks(
    logs: tuple[DataFrame, DataFrame],
    positions: Mapping[int, int],
    bits: int,
    limits: Limits,
    *,
    doubles: bool = False,
    last: bool = True,
) -> Copied | None:
    """Compare both logs by chunks of this size.

    Args:
        last: whether no smaller ones are cut if these do not help.

    Raises:
        _TooLargeError: smaller ones may help.
    """
    wanted, sink = logs
    with ThreadPoolExecutor(2) as pool:
        demanded = _with_doubles(wanted, bits) if doubles else _split(wanted, bits)
        left, right = pool.map(partial(_parts, limits), (demanded, _split(sink, bits)))
    if left is None or right is None:
        return None
    left, number = _doubles(left) if doubles else (left, None)
    try:
        ours, theirs = chunks.assembled(left), chunks.assembled(right)
    except chunks.PlaceError:
        return None
    try:
        found = None if ours[0].keyless else _compared(logs, (ours, theirs), positions, bits, limits, last=last)
    except _TooLargeError as error:
        error.doubles = number
        raise
    return None if found is None else replace(found, doubles=number)


def _split(log: DataFrame, bits: int) -> DataFrame:
    """The parts of a log."""
    return _prints(log).mapInArrow(chunks.splitter(bits), chunks.SCHEMA)


def _with_doubles(log: DataFrame, bits: int) -> DataFrame:
    """The parts of a log, and the numbers of doubles in some rows of their own; parts and prints are shuffled."""
    dealt = _prints(log).mapInArrow(chunks.dealer(bits), chunks.DEALT)
    return dealt.repartition("home").mapInArrow(chunks.count_doubles, chunks.COUNTED)


def _prints(log: DataFrame) -> DataFrame:
    return log.selectExpr(_PLACE, alignment.PRINT)


def _doubles(found: pa.Table) -> tuple[pa.Table, int]:
    """Separate the parts of a log from the number of its doubles."""
    numbers = found.column("doubles")
    return found.filter(numbers.is_null()).drop_columns(["doubles"]), int(numbers.drop_null().to_numpy().sum())


def _parts(limits: Limits, parts: DataFrame) -> pa.Table | None:
    """Load the parts of a log; None if executors cannot make them, or they are too many."""
    try:
        found = arrow.table(parts.limit(limits.most_groups + 1))
    except (PySparkException, Py4JJavaError) as error:
        if _NO_PYTHON.search(str(error)):
            return None
        raise
    return found if len(found) <= limits.most_groups else None


def _compared(
    logs: tuple[DataFrame, DataFrame],
    both: tuple[_Chunked, _Chunked],
    positions: Mapping[int, int],
    bits: int,
    limits: Limits,
    *,
    last: bool,
) -> Copied | None:
    (ours, theirs), pairs = both, _alike(*both)
    rows = int(theirs[0].rows.sum())
    differ = [side[0].others(chunks_) for side, chunks_ in zip(both, pairs, strict=True)]
    behind = _rows_behind(ours[0], positions)
    counts = [int(parts.rows.sum()) for parts in differ]
    most = alignment.worth_asking(rows, limits)
    if not last and behind <= most < max(counts):
        raise _TooLargeError
    if max(*counts, behind) > most:
        may_be_few = behind <= most and any(_are_coarse(side, bits) for side in both)
        return None if may_be_few else Copied(rows, np.arange(most + 1), None)
    aligned = _runs(ours[0].of(pairs[0]), theirs[0].of(pairs[1]))
    later = [logs[0].where(f"offset >= {by_partition(positions)}")] if behind else []
    within = [_within(log, parts) for log, parts in zip(logs, differ, strict=True)] if any(counts) else []
    if not within or sum(counts) > limits.most_groups // _ROWS_FOR_A_GROUP:
        keys = _keys([*within, *later], most)
    else:
        found, odd = _by_row(*map(_rows, within, differ, pairs))
        aligned, keys = aligned.merge(found), np.union1d(odd, _keys(later, most))
    return Copied(rows, keys, aligned if len(aligned) <= limits.most_rows else None)


def _are_coarse(side: _Chunked, bits: int) -> bool:
    """Whether too few records end a chunk, because there are few different ones."""
    return int(side[0].rows.sum()) > len(side[1]) << (bits + _COARSE_BITS)


def _alike(ours: _Chunked, theirs: _Chunked) -> tuple[Longs, Longs]:
    """Pair equal chunks of both logs, in the order of both."""
    here, there = [_NONE], [_NONE]
    for partition in np.intersect1d(ours[1], theirs[1]):
        (first, end), (other, other_end) = (np.searchsorted(side[1], [partition, partition + 1]) for side in (ours, theirs))
        found = alike.pairs(ours[2][first:end], theirs[2][other:other_end])
        here.append(found[0] + first)
        there.append(found[1] + other)
    return np.concatenate(here), np.concatenate(there)


def _rows_behind(parts: Parts, positions: Mapping[int, int]) -> int:
    """Count the records that the consumer group has not passed."""
    reached = np.array([positions.get(number, 0) for number in range(parts.partition.max(initial=-1) + 1)], np.int64)
    return int(np.clip(parts.first + parts.rows - reached[parts.partition], 0, parts.rows).sum())


def _keys(asked: Sequence[DataFrame], most: int) -> Longs:
    """Return the hashes of the keys of these rows; one more than ``most`` shows that they are too many."""
    if not asked:
        return _NONE
    keys = (rows.selectExpr(f"{alignment.KEY} AS key") for rows in asked)
    found = arrow.table(reduce(DataFrame.unionByName, keys).distinct().limit(most + 1))
    return np.unique(found.column("key").to_numpy()).astype(np.int64)


def _within(log: DataFrame, parts: Parts) -> DataFrame:
    """Select the rows of these parts, by the blocks of offsets in which each part lies."""
    last = parts.first + parts.rows - 1
    blocks = (last >> _BLOCK_BITS) - (parts.first >> _BLOCK_BITS) + 1
    of_part = np.repeat(np.arange(len(blocks)), blocks)
    turn = np.arange(len(of_part)) - np.repeat(np.cumsum(blocks) - blocks, blocks)
    ranges = {
        "_home": parts.partition[of_part].astype(np.int32),
        "_block": (parts.first[of_part] >> _BLOCK_BITS) + turn,
        "_first": parts.first[of_part],
        "_last": last[of_part],
    }
    is_within = f"partition = _home AND shiftright(offset, {_BLOCK_BITS}) = _block AND offset BETWEEN _first AND _last"
    return log.join(F.broadcast(arrow.frame(log.sparkSession, pa.table(ranges))), F.expr(is_within), "left_semi")


def _runs(ours: Parts, theirs: Parts) -> Runs:
    """Pair the rows of equal chunks with the records that they answer: both sides have as many, in the same order."""
    here, there = (np.cumsum(side.rows) - side.rows for side in (ours, theirs))
    begins = np.union1d(here, there)
    lengths = np.diff(np.append(begins, ours.rows.sum()))
    of_ours, of_theirs = (np.searchsorted(side, begins, side="right") - 1 for side in (here, there))
    home = ours.partition[of_ours]
    numbers = ours.first[of_ours] + begins - here[of_ours]
    offsets = theirs.first[of_theirs] + begins - there[of_theirs]
    places = np.cumsum(lengths) - lengths
    whole = starts(home, numbers - places, offsets - places)
    ends = np.append(whole[1:], len(begins))[: len(whole)] - 1
    return Runs(home[whole], home[whole], numbers[whole], numbers[ends] + lengths[ends] - 1, offsets[whole])


# rows of chunks that differ ------------------------------------------------------------------------------------------------


def _rows(log: DataFrame, parts: Parts, pairs: Longs) -> Longs:
    """Load the rows of these parts by place: partition, offset, print, key, and the number of paired chunks before each.

    Equal rows may be paired only if that number is equal, too; otherwise they would contradict the order of the paired chunks.

    Args:
        log: the rows of these parts.
        pairs: the paired chunks of this log.
    """
    place = ("CAST(partition AS BIGINT) AS partition", "offset")
    columns = longs(arrow.table(log.selectExpr(*place, alignment.PRINT, f"{alignment.KEY} AS key")), *_ROW)
    ordered = np.stack(columns)[:, np.lexsort((columns[1], columns[0]))]
    return np.vstack((ordered, np.repeat(np.searchsorted(pairs, parts.chunk), parts.rows)))


def _by_row(ours: Longs, theirs: Longs) -> tuple[Runs, Longs]:
    """Pair equal rows with the records that they answer, and return with them the hashes of the keys of all others."""
    here, there = alike.pairs(*(np.add.reduce(side[[2, 0, 4]].view(np.uint64) * _MIXED, axis=0) for side in (ours, theirs)))
    answered = runs.of_rows(ours[0, here], theirs[1, there], ours[0, here], ours[1, here])
    return answered, np.unique(np.concatenate((np.delete(ours[3], here), np.delete(theirs[3], there))))
