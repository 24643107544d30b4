"""Rows of a user's function: ``{python: "shop.testing:orders"}``."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Self

from chaos.grammar.base import Message
from chaos.loader.sources import Function
from chaos.scenario.functions import FOLDER_WITHOUT_PYTHON, FunctionName
from chaos.scenario.rows.function import FunctionRows
from chaos.scenario.texts import Written


class PythonRows(FunctionRows):
    """Rows of a user's function."""

    MISPLACED: ClassVar[Mapping[str, Message]] = {"folder": FOLDER_WITHOUT_PYTHON, **FunctionRows.MISPLACED}

    python: FunctionName
    """``module:function``, which gets a seed and yields rows."""
    folder: Written | None = None
    """the folder in which the module is looked for first; the path begins at the folder of the scenarios file, which is the
    default.
    """

    @property
    def function(self) -> Function:
        return Function(self.python, self.folder or "", self.arguments)

    def below(self, folder: Path) -> Self:
        return self.model_copy(update={"folder": str((folder / (self.folder or ".")).resolve())})
