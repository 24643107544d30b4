"""A table that a Spark job writes in place of a topic: where it is, how far it is, and the process that reads it.

It is read once, when the job has ended, by the job's own Spark with the job's packages and settings: another version of Spark
often cannot read it. What that process does is in `chaos.subject.read_table`; it knows nothing else of this framework.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from chaos.subject.placeholders import substituted

Format = Literal["parquet", "delta", "iceberg", "jdbc", "python"]
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
        place: a path or a name, with placeholders; of ``python``, ``module:function``.
        options: of Spark's reader, with placeholders; of ``python``, ``folder``, where its module is looked for first.
        password_in: the variable of the environment that has the password of a database; "" for none.
    """

    format: Format
    place: str
    options: Mapping[str, str] = field(default_factory=dict)
    password_in: str = ""

    def of_run(self, known: Mapping[str, str]) -> "Table":
        """The same with the names and places of a run."""
        options = {name: substituted(text, known) for name, text in self.options.items()}
        return Table(self.format, substituted(self.place, known), options, self.password_in)

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
