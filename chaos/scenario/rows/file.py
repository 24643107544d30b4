"""Rows of a file: ``{file: orders.jsonl}``."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from chaos.grammar.base import Message, Problem, shown
from chaos.loader import sources
from chaos.loader.rows_file import RowsError
from chaos.scenario.rows.base import Making, RowsBase
from chaos.scenario.texts import ProjectPath, Written


class FileRows(RowsBase):
    """Rows of a file."""

    file: Annotated[Written, ProjectPath()]
    """Parquet or JSON lines; the path begins at the folder of the scenarios file."""

    def problems(self, folder: Path) -> Iterator[Problem]:
        if wrong := sources.problem((folder / self.file).resolve()):
            begins = f"a path begins at the folder of this file, {folder.resolve()}"
            yield ("file",), Message("unusable-file", f"{shown(self.file)} {wrong}; {begins}")

    def count(self) -> int | None:
        return None if sources.problem(Path(self.file)) else sources.count(Path(self.file))

    def make(self, making: Making) -> int:
        if wrong := sources.problem(Path(self.file)):
            raise RowsError(f"{self.file} {wrong}")
        return making.write(sources.of_file(Path(self.file)), f" of {self.file}")
