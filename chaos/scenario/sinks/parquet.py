"""Files of Parquet: ``{parquet: "{folder}/orders"}``."""

from pathlib import Path
from typing import ClassVar

from chaos.scenario.sinks.base import FileTable, Place, after_last


class ParquetTable(FileTable):
    """Files of Parquet."""

    FORMAT: ClassVar[str] = "parquet"

    parquet: Place
    """the folder of Parquet files, written by a file sink of Spark's or by anything else."""

    def counted(self, folder: Path) -> int:
        """Of a file sink the batches of its log; of plain writes the files that are there."""
        log = folder / "_spark_metadata"
        if log.is_dir():
            return after_last(log, "*")
        return sum(1 for file in folder.rglob("part-*") if "_temporary" not in file.parts)
