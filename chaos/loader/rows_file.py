"""The user's own rows, which a workload sends in place of integers: a Parquet file in the run's folder.

    id int64          number of the row in the order of sending, from 0; the ledger names rows by it
    partition int32   partition that the row is sent to
    number int64      number of the row among those of its partition
    key, value        bytes, or null
    headers           list of (key, value); null for none

The file is written before anything is sent, so that the run's folder has all rows, and the run can be judged against them. A
row without a partition goes where Kafka's default partitioner puts its key. A row without a key goes to partition ``id mod P``,
so that its partition is known beforehand too (Kafka's clients choose it at random).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

FILE = "rows.parquet"
COLUMNS = ("key", "value", "partition", "headers")
MOST_ROWS = 10_000_000
LARGEST_BYTES = 64 << 20
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("partition", pa.int32()),
        ("number", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
_AT_ONCE = 5_000
_BYTES_AT_ONCE = 32 << 20
_M, _R, _MASK = 0x5BD1E995, 24, 0xFFFFFFFF
_PAIR = 2


class RowsError(Exception):
    """The declared rows cannot be read or made; the message says what is wrong, where, and what to do."""


@dataclass(frozen=True, slots=True)
class Row:
    """A record to send.

    Attributes:
        id: number of the row in the order of sending.
        headers: name and value of each.
    """

    id: int
    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def write(path: Path, raw: Iterable[Any], partitions: int, records: int | None, *, name: Callable[[int], str]) -> int:
    """Write the declared rows, and return their number; memory stays bounded, however many they are.

    Args:
        raw: mappings with `COLUMNS`, or pairs of key and value.
        records: the number of rows to take from the begin of `raw`; None for all.
        name: names the n-th row in messages, from 0.

    Raises:
        RowsError: one is not a row, or there are too few or too many.
    """
    written = 0
    left = enumerate(islice(raw, MOST_ROWS + 1 if records is None else records))
    made = _rows(left, partitions, name)  # one generator for all batches: it counts the rows of each partition
    with parquet.ParquetWriter(path, SCHEMA) as writer:
        while batch := list(_batch(made)):
            written += len(batch)
            if written > MOST_ROWS:
                raise RowsError(f"there are more than {MOST_ROWS} rows; declare how many to send: records: {MOST_ROWS}")
            writer.write_table(pa.Table.from_pylist(batch, schema=SCHEMA))
    if not written:
        raise RowsError("there are no rows to send; give at least one")
    if records is not None and written < records:
        raise RowsError(
            f"there are {written} rows, but records: {records} is declared; declare records: {written}, or give more rows"
        )
    return written


def read(path: Path) -> Iterator[Row]:
    """Read the rows in the order of sending, a part at a time."""
    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(_AT_ONCE):
            for one in batch.to_pylist():
                headers = tuple((header["key"], header["value"]) for header in one["headers"] or ())
                yield Row(one["id"], one["partition"], one["key"], one["value"], headers)


def integers(records: int, partitions: int) -> Iterator[Row]:
    """Yield the default rows: id ``i`` as a decimal string, as key and value, to partition ``i mod P``."""
    for number in range(records):
        text = str(number).encode()
        yield Row(number, number % partitions, text, text)


def text(data: bytes | None) -> str | None:
    """Show bytes as text: UTF-8 unchanged; other bytes, and a text that begins with ``0x``, as ``0x`` and hex.

    Two texts are equal only if their bytes are. `chaos.matching.row_ids.text` is the same function in SQL.
    """
    if data is None:
        return None
    try:
        found = data.decode()
    except UnicodeDecodeError:
        found = "0x"
    return f"0x{data.hex().upper()}" if found.startswith("0x") else found


@lru_cache(maxsize=100_000)
def partition_of(key: bytes, partitions: int) -> int:
    """Partition a key like Kafka's default partitioner: murmur2, without its sign (`org.apache.kafka.common.utils.Utils`)."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """Hash like Kafka's Java client, as 32 bits without a sign."""
    found = (0x9747B28C ^ len(data)) & _MASK
    whole = len(data) - len(data) % 4
    for begin in range(0, whole, 4):
        part = int.from_bytes(data[begin : begin + 4], "little") * _M & _MASK
        found = (found * _M & _MASK) ^ ((part ^ part >> _R) * _M & _MASK)
    if len(data) > whole:
        found = (found ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    found = (found ^ found >> 13) * _M & _MASK
    return found ^ found >> 15


# declared rows ------------------------------------------------------------------------------------------------------------


def _batch(rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the next rows, fewer if they are large."""
    size = 0
    for row in islice(rows, _AT_ONCE):
        yield row
        size += len(row["value"] or b"")
        if size > _BYTES_AT_ONCE:
            return


def _rows(raw: Iterator[tuple[int, Any]], partitions: int, name: Callable[[int], str]) -> Iterator[dict[str, Any]]:
    counts = [0] * partitions
    for id_, one in raw:
        row = _row(one, lambda: name(id_))  # noqa: B023 - called at once
        if sum(len(row[column] or b"") for column in ("key", "value")) > LARGEST_BYTES:
            raise RowsError(
                f"{name(id_)} is larger than 64 MB; make it smaller (by default, a broker refuses records above 1 MB)"
            )
        home = row["partition"]
        if home is None:
            home = id_ % partitions if row["key"] is None else partition_of(row["key"], partitions)
        elif home >= partitions:
            raise RowsError(f"{name(id_)}: there is no partition {home}; write one from 0 to {partitions - 1}, or leave it out")
        yield {**row, "id": id_, "partition": home, "number": counts[home]}
        counts[home] += 1


def _row(one: Any, name: Callable[[], str]) -> dict[str, Any]:
    given = dict(zip(("key", "value"), one, strict=True)) if isinstance(one, tuple | list) and len(one) == _PAIR else one
    if not isinstance(given, Mapping):
        raise RowsError(f"{name()} is not a row but {_type(one)}; give a mapping with key and value, or a pair of both")
    unknown = next((key for key in given if key not in COLUMNS), None)
    if unknown is not None:
        raise RowsError(f"{name()}: {unknown!r} is not known; a row has {', '.join(COLUMNS)}")
    if "value" not in given:
        raise RowsError(f"{name()}: 'value' is missing; write null for a record without one")
    partition = given.get("partition")
    if partition is not None and (isinstance(partition, bool) or not isinstance(partition, int) or partition < 0):
        raise RowsError(f"{name()}: partition {partition!r} is not a whole number; write one from 0")
    return {
        "key": _bytes(given.get("key"), name, "key"),
        "value": _bytes(given["value"], name, "value"),
        "partition": partition,
        "headers": _headers(given.get("headers"), name),
    }


def _bytes(value: Any, name: Callable[[], str], column: str) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise RowsError(f"{name()}: {column} is {_type(value)}; give text, bytes or null")


def _headers(headers: Any, name: Callable[[], str]) -> list[dict[str, Any]] | None:
    if not headers:
        return None
    pairs = list(headers.items()) if isinstance(headers, Mapping) else [_pair_or_none(one) for one in headers]
    if not all(isinstance(pair, tuple) and isinstance(pair[0], str) for pair in pairs):
        raise RowsError(f"{name()}: headers must be a mapping of names to values, or pairs of both")
    return [{"key": key, "value": _bytes(value, name, f"header {key!r}")} for key, value in pairs]


def _pair_or_none(one: Any) -> Any:
    """Accept a struct of key and value too, as Arrow gives it."""
    if isinstance(one, Mapping) and one.keys() == {"key", "value"}:
        return (one["key"], one["value"])
    return tuple(one) if isinstance(one, tuple | list) and len(one) == _PAIR else None


def _type(value: Any) -> str:
    return f"a value of type {type(value).__name__}"
