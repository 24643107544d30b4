"""The user's own rows in a workload: `rows: {sql: …}`, `{file: …}`, `{python: …}`, `{generator: …}` or `{command: […]}`.

Without them, the loader sends integers. A kind of rows is one class in one file here: its keys, its checks, and how it writes
the file of rows before a run, or the loader that sends them itself. A new kind is a new file, and a line below.
"""

from typing import TYPE_CHECKING, Annotated, Union

from chaos.scenario.one_of import OneOf
from chaos.scenario.rows.base import RowsBase
from chaos.scenario.rows.command import CommandRows
from chaos.scenario.rows.file import FileRows
from chaos.scenario.rows.generator import GeneratorRows
from chaos.scenario.rows.python import PythonRows
from chaos.scenario.rows.sql import SqlRows

KINDS: tuple[type[RowsBase], ...] = (SqlRows, FileRows, PythonRows, GeneratorRows, CommandRows)
OF_LOADERS = OneOf(
    KINDS, "Rows", "The origin of the rows that the loader writes", ("rows-not-one-kind", "rows come from one of")
)

if TYPE_CHECKING:
    Rows = RowsBase
else:
    Rows = Annotated[Union[KINDS], OF_LOADERS]  # noqa: UP007 - each kind is named once
"""Rows of any kind."""

__all__ = ["KINDS", "OF_LOADERS", "Rows", "RowsBase"]
