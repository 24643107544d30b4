"""A user's loader: ``{command: [node, load.js]}``. It writes to the topic itself, so it has no rows beforehand."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field

from chaos.grammar.base import Message, Problem
from chaos.grammar.units import text_of_setting
from chaos.loader.declaration import PLACEHOLDERS, UserLoader
from chaos.scenario.rows.base import RowsBase
from chaos.scenario.texts import ProjectPath, Template, Written, not_a_folder


class CommandRows(RowsBase):
    """A user's loader."""

    MISPLACED: ClassVar[Mapping[str, Message]] = {
        key: Message("key-without-command", f"{key} is for command; leave {key} out")
        for key in ("environment", "working_directory")
    }
    SENDS_ITSELF: ClassVar[bool] = True

    command: Annotated[tuple[Annotated[Written, Template(PLACEHOLDERS)], ...], Field(min_length=1)]
    """a loader of your own, word by word. It writes ``records`` records to the topic itself, and reports their outcomes
    (docs/adapters.md).
    """
    environment: dict[str, Annotated[str, BeforeValidator(text_of_setting), Template(PLACEHOLDERS)]] = Field(
        default_factory=dict
    )
    """environment variables of that loader."""
    working_directory: Annotated[Written, ProjectPath()] | None = None
    """the working directory of that loader; the path begins at the folder of the scenarios file. The default is the folder of
    the run.
    """

    def problems(self, folder: Path) -> Iterator[Problem]:
        if self.working_directory is not None and not os.path.isdir(folder / self.working_directory):  # noqa: PTH112 - it takes any path
            yield ("working_directory",), not_a_folder(self.working_directory, folder)

    def loader(self, records: int, rate_per_s: float, seed: int, programs: Mapping[str, str], ledger: str) -> UserLoader:
        runs_in = self.working_directory or ""
        return UserLoader(self.command, records, rate_per_s, seed, programs, self.environment, runs_in, ledger)
