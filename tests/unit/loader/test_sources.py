"""Rows of files and functions, and what is said of those that give none."""

import subprocess
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from chaos.loader import rows_file, sources
from chaos.loader.rows_file import RowsError
from chaos.loader.sources import Function
from tests.unit.wording import keep, named

MODULE = """
from random import Random

def orders(seed):
    rng = Random(seed)
    while True:
        yield {"key": f"customer-{rng.randrange(5)}", "value": "x"}

def few(seed):
    return [("a", "b")]

def raises(seed):
    yield ("a", "b")
    raise LookupError("no such\\nprice")

def number(seed):
    return 7

def numbers(seed):
    yield 7

nothing = 3
"""


def parquet_file(path: Path, **columns: pa.Array) -> Path:
    """A file with these columns."""
    parquet.write_table(pa.table(columns), path)
    return path


def test_rows_of_parquet(tmp_path: Path) -> None:
    """Bytes are bytes, and headers are structs."""
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers = pa.array([[{"key": "h", "value": b"1"}], None], kind)
    file = parquet_file(tmp_path / "a.parquet", key=pa.array(["a", None]), value=pa.array([b"\xff", None]), headers=headers)

    assert (sources.problem(file), sources.count(file)) == ("", 2)
    rows_file.write(tmp_path / rows_file.FILE, sources.of_file(file), 3, None, name=str)
    assert [(row.key, row.value, row.headers) for row in rows_file.read(tmp_path / rows_file.FILE)] == [
        (b"a", b"\xff", (("h", b"1"),)),
        (None, None, ()),
    ]


def test_rows_of_json_lines(tmp_path: Path) -> None:
    """Blank lines are none."""
    file = tmp_path / "a.jsonl"
    file.write_text('{"key": "a", "value": "1", "headers": {"h": "x"}}\n\n{"value": null, "partition": 1}\n', encoding="utf-8")

    assert (sources.problem(file), sources.count(file)) == ("", 2)
    assert list(sources.of_file(file))[1] == {"value": None, "partition": 1}


def test_a_line_that_is_not_json(tmp_path: Path) -> None:
    """It is named by its number."""
    file = tmp_path / "a.jsonl"
    file.write_text('{"value": "1"}\n{"value"\n', encoding="utf-8")

    with pytest.raises(RowsError, match=r"a\.jsonl:2: is not JSON"):
        list(sources.of_file(file))


def test_files_that_give_no_rows(tmp_path: Path) -> None:
    """Told before anything runs."""
    (tmp_path / "torn.parquet").write_bytes(b"PAR1")
    (tmp_path / "a.csv").touch()
    number, text = pa.array([1]), pa.array(["a"])

    assert sources.problem(tmp_path / "none.parquet") == "does not exist"
    assert sources.problem(tmp_path) == "is not a file"
    assert sources.problem(tmp_path / "torn.parquet").startswith("is not Parquet (")
    named(sources.problem(tmp_path / "a.csv"), ".parquet", ".jsonl", ".ndjson", ".json")
    assert keep(sources.problem(parquet_file(tmp_path / "1.parquet", key=text))).endswith(" key")
    assert sources.problem(parquet_file(tmp_path / "2.parquet", value=number)).startswith("has a value of type int64; cast it")
    assert sources.problem(parquet_file(tmp_path / "3.parquet", value=text, amount=number)).startswith(
        "has an unknown column amount"
    )


def made(folder: Path, function: str, seed: int = 1, records: int | None = None) -> subprocess.CompletedProcess[str]:
    """Run the process that writes the rows of a function of `MODULE`."""
    (folder / "stock.py").write_text(MODULE, encoding="utf-8")
    command = sources.command(Function(function, str(folder), {}), seed, records, 3, folder / rows_file.FILE)
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def test_a_function_is_given_the_seed(tmp_path: Path) -> None:
    """A seed repeats its rows, another seed gives others; a function that does not end is cut off."""
    found = []
    for seed in (1, 1, 2):
        assert made(tmp_path, "stock:orders", seed, records=50).returncode == 0
        found.append([row.key for row in rows_file.read(tmp_path / rows_file.FILE)])

    assert len(found[0]) == 50
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize(
    ("function", "names"),
    [
        pytest.param("stock:raises", ("stock:raises ", "LookupError: no such price (", "stock.py:"), id="raises"),
        pytest.param("stock:number", ("stock:number ", "type int"), id="returns a number"),
        pytest.param("stock:numbers", ("row 0 of stock:numbers ", "type int"), id="returns numbers"),
        pytest.param("stock:nothing", ("nothing in stock",), id="is not there"),
        pytest.param("stock:few", ("1 rows", "records: 5"), id="returns too few"),
        pytest.param("shop.stock:few", ("shop.stock:few ", "'shop'"), id="in no module"),
    ],
)
def test_functions_that_give_no_rows(tmp_path: Path, function: str, names: tuple[str, ...]) -> None:
    """The last line says why, with the place in the user's code; the stack is above it."""
    ended = made(tmp_path, function, records=5)

    last = ended.stderr.strip().splitlines()[-1]
    assert ended.returncode == 1
    named(last, *names)
    assert "Traceback" in ended.stderr
