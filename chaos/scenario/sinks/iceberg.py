"""Iceberg: ``{iceberg: lake.shop.orders}``, or a path."""

from pathlib import Path
from typing import Any, ClassVar

from chaos.scenario.sinks.base import FileTable, Place, after_last


class IcebergTable(FileTable):
    """A table of Iceberg."""

    FORMAT: ClassVar[str] = "iceberg"

    iceberg: Place
    """the path of an Iceberg table, or its name in a catalog that ``configuration`` declares."""

    @property
    def tells_versions(self) -> bool:
        return "/" in self.place  # only the catalog knows the place of a table that has a name

    @property
    def spoken(self) -> str:
        return "an Iceberg table in a catalog"

    def counted(self, folder: Path) -> int:
        return max(0, after_last(folder / "metadata", "v*.metadata.json") - 1)

    def places_beside(self, pipeline: Any) -> tuple[str, ...]:
        return tuple(pipeline.configuration.values())
