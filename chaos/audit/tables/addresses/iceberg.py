"""``iceberg:CATALOG.DATABASE.TABLE@SNAPSHOT``: a table of Iceberg.

``--spark-conf spark.sql.catalog.CATALOG=…`` declares its catalog. The snapshot is its number, or the name of a branch or tag.
Without one, the current snapshot is read, and the report names it.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from chaos.audit.tables.addresses.base import Address, Reading
from chaos.audit.tables.connectors import Connector

_PLACE = re.compile(r"(?P<table>[^\s@/`]+\.[^\s@/`]+)(?:@(?P<snapshot>[^\s@'\"]+))?")
_MAIN = "main"  # the branch that is read where none is named


class IcebergAddress(Address):
    """A table of Iceberg, by its name in a catalog."""

    KIND = "iceberg"
    FORM: ClassVar[str] = "iceberg:CATALOG.DATABASE.TABLE[@SNAPSHOT]"
    ABSENT: ClassVar[tuple[str, ...]] = ("REQUIRES_SINGLE_PART_NAMESPACE",)  # a catalog that is not declared

    def __post_init__(self) -> None:
        super().__post_init__()
        if not _PLACE.fullmatch(self.place):
            catalog = "--spark-conf spark.sql.catalog.CATALOG=org.apache.iceberg.spark.SparkCatalog"
            raise self.wrong(f"write {self.FORM}; a table at a path is in the catalog of its warehouse ({catalog})")

    @property
    def table(self) -> str:
        """SQL: the name of the table."""
        return ".".join(f"`{part}`" for part in _PLACE.fullmatch(self.place)["table"].split("."))  # type: ignore[index] # `__post_init__`

    @property
    def snapshot(self) -> str:
        """The snapshot, branch or tag that it names; empty if it names none."""
        return _PLACE.fullmatch(self.place)["snapshot"] or ""  # type: ignore[index] # likewise

    @property
    def connector(self) -> Connector:
        return Connector("Iceberg", "iceberg", "org.apache.iceberg:iceberg-spark-runtime-{spark}_{scala}")

    def look(self, master: str) -> int | None:  # noqa: ARG002 - only Spark knows the catalog
        return None

    def open(self, spark: SparkSession, jars: Sequence[Path]) -> Reading:  # noqa: ARG002 - the session has them
        with self.refused():
            number = self._number(spark)
            frame = spark.sql(f"SELECT * FROM {self.table} VERSION AS OF {number}")  # noqa: S608 - of names and a number
            return Reading(frame, f"{self.KIND}:{self.table.replace('`', '')}@{number}", frame.count())

    def _number(self, spark: SparkSession) -> int:
        """Return the number of the snapshot; refs and snapshots are tables of Iceberg."""
        wanted = self.snapshot or _MAIN
        refs = {row["name"]: row["snapshot_id"] for row in spark.table(f"{self.table}.refs").collect()}
        if wanted in refs:
            return int(refs[wanted])
        there = spark.table(f"{self.table}.snapshots").orderBy(F.desc("committed_at")).collect()
        numbers = [str(row["snapshot_id"]) for row in there]
        if not numbers:
            raise self.wrong("it has no snapshot: nothing was written to it")
        if wanted not in numbers:
            raise self.wrong(
                f"there is no snapshot {wanted}; the newest is {numbers[0]}, and names are {', '.join(sorted(refs))}"
            )
        return int(wanted)

    def mend(self, kind: str) -> str:
        if kind == "absent":
            catalog = self.place.partition(".")[0]
            return f"does --spark-conf spark.sql.catalog.{catalog}=… declare the catalog, and is the table in it?"
        return super().mend(kind)
