"""Delta Lake: ``{delta: "{folder}/orders"}``."""

from pathlib import Path
from typing import ClassVar

from chaos.scenario.sinks.base import FileTable, Place, after_last


class DeltaTable(FileTable):
    """A table of Delta Lake."""

    FORMAT: ClassVar[str] = "delta"

    delta: Place
    """the path of a Delta table."""

    def counted(self, folder: Path) -> int:
        return after_last(folder / "_delta_log", "*.json")
