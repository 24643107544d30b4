"""Sources of the user's own rows: a file of Parquet or JSON lines, or a Python function, possibly of another package.

Rows are read or made a part at a time. A function runs in a separate process, because it may do anything. It need not end if
the number of rows is declared. Its argument is a number, the seed of its random choices::

    def orders(seed):
        for number in range(20_000):
            yield {"key": f"customer-{number % 97}", "value": json.dumps({"order": number})}

A function of another package has a name (`chaos.loader.generators`).
"""

import argparse
import importlib
import json
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import parquet

from chaos.common.signals import die_with_parent
from chaos.loader import rows_file
from chaos.loader.rows_file import COLUMNS, RowsError

LINES = (".jsonl", ".ndjson", ".json")
PARQUET = ".parquet"
_AT_ONCE = 5_000
_KEPT = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.null())


# files -------------------------------------------------------------------------------------------------------------------


def problem(file: Path) -> str:
    """Say why a file cannot give rows, by its name, footer and columns alone; "" if it can."""
    if not file.exists():
        return "does not exist"
    if not file.is_file():
        return "is not a file"
    if file.suffix == PARQUET:
        try:
            return wrong_columns(parquet.read_schema(file))
        except (OSError, pa.ArrowException) as error:
            return f"is not Parquet ({str(error).splitlines()[0]})"
    return "" if file.suffix in LINES else f"must end with {PARQUET}, or, for JSON lines, with {' or '.join(LINES)}"


def wrong_columns(schema: pa.Schema) -> str:
    """Say why these columns cannot be rows; "" if they can."""
    there = ", ".join(schema.names) or "none"
    if "value" not in schema.names:
        return f"has no column value; its columns are {there}"
    unknown = next((name for name in schema.names if name not in COLUMNS), None)
    if unknown is not None:
        return f"has an unknown column {unknown}; a row has {', '.join(COLUMNS)}"
    for name in ("key", "value"):
        if name in schema.names and schema.field(name).type not in _KEPT:
            return f"has a {name} of type {schema.field(name).type}; cast it to text, or to bytes"
    return ""


def count(file: Path) -> int:
    """Count the rows of a file without `problem`."""
    if file.suffix == PARQUET:
        return int(parquet.read_metadata(file).num_rows)
    with file.open("rb") as lines:
        return sum(1 for line in lines if line.strip())


def of_file(file: Path) -> Iterator[Any]:
    """Read the rows of a file.

    Raises:
        RowsError: a line is not JSON, or a Parquet file is damaged.
    """
    return _of_parquet(file) if file.suffix == PARQUET else _of_lines(file)


def _of_parquet(file: Path) -> Iterator[Any]:
    try:
        with parquet.ParquetFile(file) as found:
            for batch in found.iter_batches(_AT_ONCE):
                yield from batch.to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise RowsError(f"{file} cannot be read: {str(error).splitlines()[0]}") from error


def _of_lines(file: Path) -> Iterator[Any]:
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    yield json.loads(line)
                except ValueError as error:
                    raise RowsError(f"{file}:{number}: is not JSON: {error}") from error


# functions ----------------------------------------------------------------------------------------------------------------


class Function(NamedTuple):
    """The function that yields the rows.

    Attributes:
        name: ``module:function``, or the name of a generator.
        folder: the folder where the module is looked up first; "" for a generator.
        arguments: further arguments after the seed, by name.
    """

    name: str
    folder: str
    arguments: Mapping[str, Any]


def command(function: Function, seed: int, records: int | None, partitions: int, path: Path) -> tuple[str, ...]:
    """Return the command that writes a function's rows; it exits with 0, or prints the error as its last line."""
    given = {"--function": function.name, "--folder": function.folder, "--arguments": json.dumps(function.arguments)}
    given |= {"--seed": str(seed), "--partitions": str(partitions), "--path": str(path)}
    words = [word for pair in given.items() for word in pair]
    return (sys.executable, "-m", __name__, *words, *(() if records is None else ("--records", str(records))))


def main() -> None:
    """Write the rows; the process dies with the one that started it."""
    die_with_parent()
    parser = argparse.ArgumentParser(description="write the rows that a function yields")
    for name, kind in (("function", str), ("folder", str), ("seed", int), ("partitions", int), ("path", Path)):
        parser.add_argument(f"--{name}", type=kind, required=True)
    parser.add_argument("--arguments", type=json.loads, required=True)
    parser.add_argument("--records", type=int)
    asked = parser.parse_args()
    sys.excepthook = partial(_last_word, asked.function)
    try:
        _write(asked)
    except SystemExit as end:  # with 0 the rows would seem to be complete
        raise RowsError(f"{asked.function} called exit({end.code!r}); it must return when it has yielded all rows") from end


def _write(asked: argparse.Namespace) -> None:
    found, name = _found(asked.function, asked.folder)
    sys.excepthook = partial(_last_word, name)
    yielded = found(asked.seed, **asked.arguments)
    if not isinstance(yielded, Iterable) or isinstance(yielded, str | bytes):
        raise RowsError(f"{name} returned a value of type {type(yielded).__name__}, not rows; yield one row after the other")
    rows_file.write(asked.path, yielded, asked.partitions, asked.records, name=lambda number: f"row {number} of {name}")


def _found(function: str, folder: str) -> tuple[Callable[..., Any], str]:
    """Find the function, and its name for messages."""
    module, is_function, name = function.partition(":")
    if not is_function:
        from chaos.loader import generators  # noqa: PLC0415 - it imports other packages, which a plain function does not need

        if function not in generators.PLUGINS.things:
            raise RowsError(
                f"there is no generator {function} in the environment of {sys.executable}; install its package there"
            )
        return generators.PLUGINS.things[function], generators.spoken(function)
    sys.path.insert(0, folder)
    found = getattr(importlib.import_module(module), name, None)
    if not callable(found):
        raise RowsError(f"there is no function {name} in {module}")
    return found, function


def _last_word(function: str, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the traceback, and then the error in one line, with the place in the user's code."""
    traceback.print_exception(kind, error, trace)
    if isinstance(error, RowsError):
        said = str(error)
    elif isinstance(error, ImportError):
        said = f"{function} cannot be imported: {error}"
    else:
        last = traceback.extract_tb(trace)[-1]
        said = f"{function} raised {kind.__name__}: {error} ({last.filename}:{last.lineno})"
    sys.stderr.write(" ".join(said.split()) + "\n")


if __name__ == "__main__":
    main()
