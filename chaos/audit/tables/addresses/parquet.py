"""``parquet:PATH``: Parquet files, in a folder or at a URL.

Files have no versions. Those that are there when the audit begins are read; a file that is removed meanwhile ends it with
UNKNOWN. Spark heeds the log of a file sink, ``_spark_metadata``, so files of killed tasks are not in the table.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from pyspark.sql import SparkSession

from chaos.audit import folders
from chaos.audit.logs import counted_in
from chaos.audit.tables.addresses.base import Address, Reading
from chaos.judging import landing

_DELTA = "a Delta table, whose folder also has files that are no longer in it; write delta:"


class ParquetAddress(Address):
    """Parquet files. Schemas are merged: otherwise one file would decide about the columns of all."""

    KIND = "parquet"
    FORM: ClassVar[str] = "parquet:PATH"

    def look(self, master: str) -> int | None:
        folders.check_name(self.option, str(self))
        if not folders.is_local(self.place, master):
            return None
        place = Path(self.place)
        if not place.exists():
            raise self.wrong("there is nothing at this path")
        if (place / "_delta_log").is_dir():
            raise self.wrong(f"this is {_DELTA}{self.place}")
        if place.is_dir() and not any(file.is_file() and not _is_hidden(file) for file in place.rglob("*")):
            raise self.wrong("there is no file in this folder")
        return counted_in(place) if not (place / "_spark_metadata").exists() else None

    def open(self, spark: SparkSession, jars: Sequence[Path]) -> Reading:  # noqa: ARG002 - Spark reads Parquet itself
        with self.refused():
            if landing.exists(spark, f"{self.place.rstrip('/')}/_delta_log"):
                raise self.wrong(f"this is {_DELTA}{self.place}")
            frame = spark.read.option("mergeSchema", "true").parquet(self.place)
            return Reading(frame, str(self), frame.count())

    def mend(self, kind: str) -> str:
        return "it must be a folder of Parquet files, with the same types in all" if kind == "failed" else super().mend(kind)


def _is_hidden(file: Path) -> bool:
    return file.name.startswith(("_", "."))
