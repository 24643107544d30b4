"""Keys that programs have in common, whatever their kind, and those of programs that run on this machine."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from chaos.grammar.base import Problem, WrongValueError, shown, within
from chaos.scenario.expected import Expected, HowManyRows
from chaos.scenario.pipelines.base import Kind, Word
from chaos.scenario.texts import ProjectPath, Written, not_a_folder
from chaos.scenario.topics import Reads


def _package(coordinates: str) -> str:
    if len([part for part in coordinates.split(":") if part]) != len(("group", "artifact", "version")) or " " in coordinates:
        example = "group:artifact:version, e.g. org.apache.spark:spark-avro_2.13:4.2.0"
        raise WrongValueError("not-a-package", f"{shown(coordinates)} does not name a package; write {example}")
    return coordinates


Package = Annotated[str, AfterValidator(_package)]
Restarts = Annotated[int, Field(strict=True, ge=0, le=100)]


class Program(Kind):
    """A program that reads topics, and what it promises of its rows."""

    kind: str
    """which kind of pipeline it is."""
    reads: Reads
    """topics; of several, the workload fills one or more, and the others stay empty."""
    delivery: Literal["exactly_once", "at_least_once", "at_most_once"] = "exactly_once"
    """what it promises: ``exactly_once``, ``at_least_once`` or ``at_most_once``. A pipeline that promises at most once may
    commit a position before its rows are there (`precedence`).
    """
    expected: Expected | None = None
    """what the sink must hold: ``source`` (a copy), which is the default; or by a query or a function; or ``transactions``,
    where that is not said.
    """
    rows_per_record: HowManyRows | None = None
    """how many rows of the sink one record makes, at least and at most, or always; with it, transactions are asked too, also
    where it is said which rows there must be.
    """
    timers: Annotated[bool, Field(strict=True)] = False
    """true if it writes rows that no record causes, by a timer or when a window closes by the clock; then transactions may
    write rows without moving a position, and more rows than their records make.
    """
    identity: Written | None = None
    """SQL over ``key`` and ``value``, beside the key: a row with both of a row that is expected, and not its value, is a wrong
    value. The default is the key alone.
    """
    keeps_headers: Annotated[bool, Field(strict=True)] = True
    """false if it does not promise to copy the headers of a record; then they are not compared."""
    transactions: Annotated[bool, Field(strict=True)] = True
    """false if it uses none; then no fault may wait for their requests."""
    restarts: Restarts = 3

    def missing(self, folder: Path) -> Iterator[Problem]:
        # `Path.is_dir` raises OSError for a path that is too long.
        if self.runs_in and not os.path.isdir(folder / self.runs_in):  # noqa: PTH112
            yield ("working_directory",), not_a_folder(self.runs_in, folder)
        yield from within(("expected",), self.way.missing(folder))


class OnThisMachine(Program):
    """A program that is started here."""

    packages: tuple[Package, ...] = ()
    working_directory: Annotated[Word, ProjectPath()] | None = None
    """where it runs; the path begins at the folder of the scenarios file. The default is the folder of the run."""

    @property
    def required_packages(self) -> tuple[str, ...]:
        return self.packages

    @property
    def runs_in(self) -> str:
        return self.working_directory or ""
