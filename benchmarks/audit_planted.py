"""Logs for `audit.py`: a source of 0, 1, 2, … and a sink of their squares, as Parquet, with anomalies whose number is known.

    identity    partition i mod 3, so that a partition holds every number of one line: what a keyed pipeline leaves
    scattered   partition by a hash of the id: a partition holds each number of three lines or not
    recurring   as identity, but the key is text, and every key is there eight times

A marker follows every 1000th record of the sink. In a dirty sink each partition has lost 20 records and a run of 500, has a run
of 1000 again and 10 records elsewhere again, 15 pairs in each other's place, 7 wrong values and 3 phantoms.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

PARTITIONS = 3
LAYOUTS = ("identity", "scattered", "recurring")
RECURRING = LAYOUTS[2]
_TRANSACTION = 1000
_FILES = 2  # for each partition, so that each core has one of its own
_ROWS = 1_000_000  # of a row group

Longs = NDArray[np.int64]


def plant(folder: Path, records: int, layout: str, *, dirty: bool) -> Counter[str]:
    """Write ``source/`` and ``sink/``, and say how often each anomaly is there (inversions are not counted)."""
    truth = Counter[str]()
    draw = np.random.default_rng(7)
    for partition in range(PARTITIONS):
        _plant_partition(folder, partition, records, layout, draw if dirty else None, truth)
    return truth


def _plant_partition(
    folder: Path, partition: int, records: int, layout: str, draw: np.random.Generator | None, truth: Counter[str]
) -> None:
    ids = _ids(records, partition, layout)
    keys = partial(_keys, records=records, layout=layout)
    _write(folder / "source", partition, keys, ids, ids, np.arange(len(ids), dtype=np.int64))
    there, values = _spoiled(ids, records * (partition + 1), draw, truth) if draw else (ids, ids * ids)
    places = np.arange(len(there), dtype=np.int64)
    _write(folder / "sink", partition, keys, there, values, places + places // _TRANSACTION)


def _ids(records: int, partition: int, layout: str) -> Longs:
    if layout != "scattered":
        return np.arange(partition, records, PARTITIONS, dtype=np.int64)
    ids = np.arange(records, dtype=np.int64)
    mine: Longs = ids[((ids * np.int64(0x9E3779B1)) >> 13) % PARTITIONS == partition]
    return mine


def _keys(ids: Longs, records: int, layout: str) -> pa.Array:
    """As texts; those of records that nothing demands do not recur."""
    if layout != RECURRING:
        return pc.cast(pa.array(ids), pa.string())
    some = PARTITIONS * max(1, records // (PARTITIONS * 8))  # so that records of a key are in one partition
    return pc.binary_join_element_wise("user", pc.cast(pa.array(np.where(ids < records, ids % some, ids)), pa.string()), "-")


def _spoiled(ids: Longs, beyond: int, draw: np.random.Generator, truth: Counter[str]) -> tuple[Longs, Longs]:
    """Ids and values; phantoms have ids beyond three times ``beyond``, each in the line of its neighbour."""
    count = len(ids)
    lost = np.concatenate((draw.choice(count, 20, replace=False), np.arange(count // 3, count // 3 + 500)))
    kept = np.delete(ids, lost)
    half = len(kept) // 2
    there = np.concatenate((kept[:half], kept[half - 1000 : half], kept[half:]))
    there = np.insert(there, draw.integers(2000, len(there), 10), there[draw.integers(0, 1000, 10)])
    for place in draw.integers(10, len(there) - 10, 15):
        there[[place, place + 5]] = there[[place + 5, place]]
    strays = there[-3:] + PARTITIONS * (beyond + np.arange(3, dtype=np.int64))
    there = np.concatenate((there, np.sort(strays)))
    values = there * there
    values[draw.choice(len(there) - 3, 7, replace=False)] += 1
    truth.update(duplicates=len(there) - len(kept) - len(strays), gaps=count - len(kept), values=7 + 3)
    return there, values


def _write(folder: Path, partition: int, keys: Callable[[Longs], pa.Array], ids: Longs, values: Longs, offsets: Longs) -> None:
    """Texts are made a row group at a time, since Arrow holds at most 2 GB of them in one array."""
    folder.mkdir(parents=True, exist_ok=True)
    bounds = [len(ids) * number // _FILES for number in range(_FILES + 1)]
    schema = pa.schema({"partition": pa.int32(), "offset": pa.int64(), "key": pa.string(), "value": pa.string()})
    for number, (first, end) in enumerate(pairwise(bounds)):
        with pq.ParquetWriter(folder / f"{partition}-{number}.parquet", schema) as file:
            for start in range(first, max(end, first + 1), _ROWS):
                rows = slice(start, min(start + _ROWS, end))
                columns = (
                    pa.array(np.full(len(ids[rows]), partition, np.int32)),
                    pa.array(offsets[rows]),
                    keys(ids[rows]),
                    pc.cast(pa.array(values[rows]), pa.string()),
                )
                file.write_table(pa.table(columns, schema), row_group_size=_ROWS)
