"""The form of a row, its partition, and the message for something that is no row."""

from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from chaos.loader import rows_file
from chaos.loader.rows_file import Row, RowsError, integers, murmur2, read, text, write
from tests.unit.wording import raised


def written(path: Path, raw: Any, records: int | None = None, partitions: int = 3) -> list[Row]:
    """Write and read rows."""
    write(path / rows_file.FILE, raw, partitions, records, name=lambda number: f"row {number}")
    return list(read(path / rows_file.FILE))


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        ("abc", 479470107),
    ],
)
def test_the_hash_is_that_of_kafka(key: str, signed: int) -> None:
    """The cases of Kafka's own `UtilsTest.testMurmur2`."""
    assert murmur2(key.encode()) == signed % 2**32


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """Any bytes, nulls, headers in both forms, a partition of its own; a pair is key and value."""
    raw = [
        {"key": "a", "value": b"\xff\x00", "headers": {"trace": "1", "none": None}},
        {"value": None, "headers": [("trace", b"\xfe")], "partition": 2},
        ("a", "ä"),
    ]

    found = written(tmp_path, raw)

    home = rows_file.partition_of(b"a", 3)
    assert found == [
        Row(0, home, b"a", b"\xff\x00", (("trace", b"1"), ("none", None))),
        Row(1, 2, None, None, (("trace", b"\xfe"),)),
        Row(2, home, b"a", "ä".encode()),
    ]


def test_numbers_rise_within_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By them the judge tells order; a row without a key goes round."""
    monkeypatch.setattr(rows_file, "_AT_ONCE", 3)  # also from one part that is written at once to the next
    written(tmp_path, [(None, "x") for _ in range(10)])

    found = parquet.read_table(tmp_path / rows_file.FILE, columns=["partition", "number"]).to_pylist()
    assert [(row["partition"], row["number"]) for row in found] == [(n % 3, n // 3) for n in range(10)]


def test_of_more_rows_the_first_are_taken(tmp_path: Path) -> None:
    """A generator need not end."""
    assert [row.value for row in written(tmp_path, (("k", str(n)) for n in count()), records=2)] == [b"0", b"1"]


def test_many_large_rows_are_written_part_by_part(tmp_path: Path) -> None:
    """Each part has so many bytes at most, so that memory stays bounded."""
    written(tmp_path, (("k", b"x" * (8 << 20)) for _ in range(9)))

    assert parquet.ParquetFile(tmp_path / rows_file.FILE).num_row_groups == 2


@pytest.mark.parametrize(
    ("raw", "names"),
    [
        pytest.param([7], ("row 0 ", "type int"), id="a number"),
        pytest.param([("a", "b", "c")], ("row 0 ", "type tuple"), id="three values"),
        pytest.param([("a", "b"), {"key": "a"}], ("row 1: 'value' ", "null"), id="no value"),
        pytest.param([{"value": "a", "amount": 1}], ("row 0: 'amount' ", "key, value, partition, headers"), id="another key"),
        pytest.param([("a", 7)], ("row 0: value ", "type int"), id="a number as value"),
        pytest.param([{"value": "a", "partition": 3}], ("row 0: ", "partition 3", "0 to 2"), id="no such partition"),
        pytest.param([{"value": "a", "partition": True}], ("row 0: partition True ",), id="no partition"),
        pytest.param([{"value": "a", "partition": -1}], ("row 0: partition -1 ",), id="a negative partition"),
        pytest.param([{"value": "a", "headers": {"x": 1}}], ("row 0: header 'x' ", "type int"), id="a number as header"),
        pytest.param([{"value": "a", "headers": ["x"]}], ("row 0: headers",), id="headers without values"),
        pytest.param([{"value": b"x" * (65 << 20)}], ("row 0 ", "64 MB"), id="a large row"),
        pytest.param([], ("no rows",), id="nothing"),
    ],
)
def test_what_is_no_row(tmp_path: Path, raw: Any, names: tuple[str, ...]) -> None:
    """Which one, what is wrong, and what to write."""
    with raised(RowsError, *names):
        written(tmp_path, raw)


def test_fewer_rows_than_were_declared(tmp_path: Path) -> None:
    """The pipeline would have an easier life than the scenario says."""
    with raised(RowsError, "1 rows", "records: 2", "records: 1"):
        written(tmp_path, [("a", "b")], records=2)


def test_too_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A generator that does not end, where nobody says how many are sent."""
    monkeypatch.setattr(rows_file, "MOST_ROWS", 10)
    with pytest.raises(RowsError, match="there are more than 10 rows; declare how many"):
        written(tmp_path, (("a", "b") for _ in count()))


def test_integers_are_rows_too() -> None:
    """As they always were: id i as key and value, to partition i mod P."""
    assert list(integers(4, 3)) == [Row(n, n % 3, str(n).encode(), str(n).encode()) for n in range(4)]


@pytest.mark.parametrize(("data", "shown"), [(b"a", "a"), (b"\xff", "0xFF"), (b"0x41", "0x30783431"), (b"", ""), (None, None)])
def test_bytes_as_text(data: bytes | None, shown: str | None) -> None:
    """Bytes that are no text, or look like hex, are shown as hex."""
    assert text(data) == shown
