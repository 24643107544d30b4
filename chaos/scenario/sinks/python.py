"""A function that reads a table of any other kind: ``{python: "shop.testing:read_orders"}``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, JsonValue

from chaos.grammar.base import Message
from chaos.scenario.functions import FOLDER_WITHOUT_PYTHON, FunctionName
from chaos.scenario.sinks.base import TableSink
from chaos.scenario.texts import Written


class PythonSink(TableSink):
    """Rows that a function reads."""

    MISPLACED: ClassVar[Mapping[str, Message]] = {
        "folder": FOLDER_WITHOUT_PYTHON,
        "with": Message("with-without-reader", "with has arguments for python or reader; leave `with` out"),
    }
    FORMAT: ClassVar[str] = "python"

    python: FunctionName
    """``module:function``. The function gets the job's Spark session and a mapping from placeholders to their values, and
    returns a DataFrame: the rows of a table of any other kind.
    """
    arguments: dict[str, Annotated[JsonValue, Field(title="value")]] = Field(alias="with", default_factory=dict)
    """further arguments, by name, of the function of ``python`` or of the reader."""
    folder: Written | None = None
    """the folder in which the module is looked for first; the path begins at the folder of the scenarios file, which is the
    default.
    """

    @property
    def options(self) -> Mapping[str, str]:
        return {"folder": self.folder or "."}

    @property
    def spec(self) -> dict[str, Any]:
        return super().spec | {"arguments": self.arguments}

    def below(self, folder: Path) -> Self:
        """Resolve the path."""
        return self.model_copy(update={"folder": str((folder / (self.folder or ".")).resolve())})
