"""Keys that all programs have in common, and keys of programs that run on this machine."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from chaos.grammar.base import Problem, within
from chaos.scenario.expected import Expected, HowManyRows
from chaos.scenario.pipelines.base import Kind, Word
from chaos.scenario.texts import ProjectPath, Written, not_a_folder
from chaos.scenario.topics import Reads

Restarts = Annotated[int, Field(strict=True, ge=0, le=100)]


class Program(Kind):
    """A program that reads topics, and its promises about its rows."""

    kind: str
    """the kind of pipeline."""
    reads: Reads
    """the topics that it reads; the workload fills one or more of them, and the others stay empty."""
    delivery: Literal["exactly_once", "at_least_once", "at_most_once"] = "exactly_once"
    """its promise: ``exactly_once``, ``at_least_once`` or ``at_most_once``. A pipeline that promises at most once may
    commit a position before its rows are there (`precedence`).
    """
    expected: Expected | None = None
    """the rows that the sink must hold: ``source`` (a copy), which is the default; a mapping that defines them; or
    ``transactions``, which defines none.
    """
    rows_per_record: HowManyRows | None = None
    """the number of sink rows that one record makes, at least and at most, or always; with it, transactions are judged, too,
    even if ``expected`` defines the rows.
    """
    timers: Annotated[bool, Field(strict=True)] = False
    """true if it writes rows that no record causes, on a timer or when a window closes by the clock; then transactions may
    write rows without moving a position, and more rows than their records make.
    """
    identity: Written | None = None
    """SQL over ``key`` and ``value`` that identifies a row together with its key. A row with the key and the identity of an
    expected row, but another value, is a wrong value. The default is the key alone.
    """
    keeps_headers: Annotated[bool, Field(strict=True)] = True
    """false if it does not promise to copy the headers of records; then they are not compared."""
    transactions: Annotated[bool, Field(strict=True)] = True
    """false if it uses no transactions; then no fault may wait for their requests."""
    restarts: Restarts = 3

    def missing(self, folder: Path) -> Iterator[Problem]:
        # `Path.is_dir` raises OSError for a path that is too long.
        if self.runs_in and not os.path.isdir(folder / self.runs_in):  # noqa: PTH112
            yield ("working_directory",), not_a_folder(self.runs_in, folder)
        yield from within(("expected",), self.way.missing(folder))


class OnThisMachine(Program):
    """A program that is started on this machine."""

    working_directory: Annotated[Word, ProjectPath()] | None = None
    """its working directory; the path begins at the folder of the scenarios file. The default is the folder of the run."""

    @property
    def runs_in(self) -> str:
        return self.working_directory or ""
