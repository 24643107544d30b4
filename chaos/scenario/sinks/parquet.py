"""Files of Parquet: ``{parquet: "{folder}/orders"}``."""

from pathlib import Path
from typing import ClassVar

from chaos.scenario.sinks.base import FileTable, Place, after_last


class ParquetTable(FileTable):
    """Files of Parquet."""

    FORMAT: ClassVar[str] = "parquet"

    parquet: Place
    """the folder of Parquet files, written by Spark's file sink or by any other program."""

    def counted(self, folder: Path) -> int:
        """Count the batches in the log of a file sink, or the files of plain writes."""
        log = folder / "_spark_metadata"
        if log.is_dir():
            return after_last(log, "*")
        return sum(1 for file in folder.rglob("part-*") if "_temporary" not in file.parts)
