"""A table that a Spark job writes in place of a topic: where it is, how far it is, and the process that reads it.

It is read once, when the job has ended, by the job's own Spark with the job's packages and settings: another version of Spark
often cannot read it. What that process does is in `chaos.subject.read_table`; it knows nothing else of this framework.

Tables of kinds that are not known here are read by functions of other packages (docs/plugins.md). The entry point of the group
``chaos.sinks`` names a function, and its name stands in scenarios files. It is given the session of that Spark, a mapping from
placeholders to their values, and further arguments by ``with``; it returns a DataFrame.
"""

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from chaos.common.plugins import UnfitError, installed
from chaos.subject.placeholders import substituted

Format = Literal["parquet", "delta", "iceberg", "jdbc", "python", "reader"]
PLACEHOLDERS = ("folder", "checkpoint", "source", "prefix", "suffix", "project")
OF_A_RUN = ("folder", "checkpoint", "suffix")
"""Placeholders that are of one run only: without one of them, all runs would write one table."""
READER = Path(__file__).with_name("read_table.py")
SPEC, ABOUT, ROWS = "spec.json", "about.json", "rows"
"""In the folder of a reading: what is to be read; what was read, or why it cannot be; and its rows."""
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Table:
    """Where a job writes.

    Attributes:
        place: a path or a name, with placeholders; of ``python``, ``module:function``; of ``reader``, its name.
        options: of Spark's reader, with placeholders; of ``python``, ``folder``, where its module is looked for first.
        password_in: the variable of the environment that has the password of a database; "" for none.
        arguments: of ``python`` and ``reader``, what the function is given by name.
    """

    format: Format
    place: str
    options: Mapping[str, str] = field(default_factory=dict)
    password_in: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def of_run(self, known: Mapping[str, str]) -> "Table":
        """The same with the names and places of a run."""
        options = {name: substituted(text, known) for name, text in self.options.items()}
        return replace(self, place=substituted(self.place, known), options=options)

    @property
    def spec(self) -> dict[str, Any]:
        """What `chaos.subject.read_table` is told of it; that knows no package, and imports a function by its place."""
        options, format_, place = dict(self.options), self.format, self.place
        if self.format == "reader":
            reader = READERS.things[self.place]
            format_, place, options = "python", reader.place, {"folder": reader.folder}
        return {
            "format": format_,
            "place": place,
            "options": options,
            "password_in": self.password_in,
            "arguments": dict(self.arguments),
        }

    @property
    def tells_versions(self) -> bool:
        """Whether it can be seen in files, and so at once, that rows were added."""
        return self.format in {"parquet", "delta"} or (self.format == "iceberg" and "/" in self.place)

    def versions(self) -> int:
        """How many times rows were added so far; 0 where there is no table yet, and where that is not told by files."""
        count = _VERSIONS.get(self.format)
        return count(Path(self.place.removeprefix("file:"))) if count and self.tells_versions else 0


def _of_parquet(folder: Path) -> int:
    """Of a file sink the batches of its log; of plain writes the files that are there."""
    log = folder / "_spark_metadata"
    if log.is_dir():
        return _after_last(log, "*")
    return sum(1 for file in folder.rglob("part-*") if "_temporary" not in file.parts)


def _after_last(folder: Path, pattern: str) -> int:
    numbers = (_NUMBER.match(file.name.removeprefix("v")) for file in folder.glob(pattern) if not file.name.startswith("."))
    return 1 + max((int(number[0]) for number in numbers if number), default=-1)


_VERSIONS: Mapping[str, Callable[[Path], int]] = {
    "parquet": _of_parquet,
    "delta": lambda folder: _after_last(folder / "_delta_log", "*.json"),
    "iceberg": lambda folder: max(0, _after_last(folder / "metadata", "v*.metadata.json") - 1),
}


# functions of other packages -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reader:
    """A function that another package has added.

    Attributes:
        place: ``module:function``, by which the job's Spark imports it.
        folder: where that module is found: the package is installed beside this one, and perhaps not beside that Spark.
    """

    function: Callable[..., Any]
    place: str
    folder: str


def _made(name: str, thing: Any) -> Reader:  # noqa: ARG001 - a function need not be called as its entry point is
    """The function that an entry point names.

    Raises:
        UnfitError: it is none, cannot be imported by its name, or cannot be given a session and places.
    """
    if not inspect.isfunction(thing) or not thing.__qualname__.isidentifier():
        raise UnfitError("this is not a function of a module; name one like def read(spark, places): …")
    try:
        inspect.signature(thing).bind_partial(None, {})
    except TypeError:
        raise UnfitError(
            "it cannot be given a session and places; let its first arguments be these: def read(spark, places): …"
        ) from None
    top = sys.modules[thing.__module__.partition(".")[0]]
    inside = Path(next(iter(top.__path__))) if hasattr(top, "__path__") else Path(str(top.__file__))
    return Reader(thing, f"{thing.__module__}:{thing.__qualname__}", str(inside.resolve().parent))


READERS = installed("chaos.sinks", (), _made)
