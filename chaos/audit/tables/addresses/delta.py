"""``delta:PATH@VERSION``: a table of Delta Lake. Delta's own ``PATH@v12`` is understood, too.

Without a version, the newest one is read, and the report names it.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from pyspark.sql import SparkSession

from chaos.audit import folders
from chaos.audit.tables.addresses.base import Address, Reading
from chaos.audit.tables.connectors import Connector
from chaos.judging import sizes

_VERSIONED = re.compile(r"(?P<path>.+)@[vV]?(?P<version>\d{1,18})")


class DeltaAddress(Address):
    """A table of Delta Lake."""

    KIND = "delta"
    FORM: ClassVar[str] = "delta:PATH[@VERSION]"
    ABSENT: ClassVar[tuple[str, ...]] = ("Cannot time travel Delta table", "DELTA_VERSIONS_NOT_CONTIGUOUS")

    @property
    def path(self) -> str:
        """Its folder or URL."""
        found = _VERSIONED.fullmatch(self.place)
        return found["path"] if found else self.place

    @property
    def version(self) -> int | None:
        """The version that it names."""
        found = _VERSIONED.fullmatch(self.place)
        return int(found["version"]) if found else None

    @property
    def connector(self) -> Connector:
        return Connector("Delta Lake", "delta", "io.delta:delta-spark_{spark}_{scala}")

    def settings(self, master: str) -> Mapping[str, str]:
        cores = sizes.local_cores(master)
        return {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            # of the table's log; the default of 50 is for clusters
            **({} if cores is None else {"spark.databricks.delta.snapshotPartitions": str(2 * cores)}),
        }

    def look(self, master: str) -> int | None:
        if folders.is_local(self.path, master) and not Path(self.path, "_delta_log").is_dir():
            there = "is no Delta table: it has no _delta_log" if Path(self.path).exists() else "does not exist"
            raise self.wrong(f"{self.path} {there}")
        return None

    def open(self, spark: SparkSession, jars: Sequence[Path]) -> Reading:  # noqa: ARG002 - the session has them
        with self.refused():
            version = self.version
            if version is None:
                quoted = _qualified(spark, self.path).replace("`", "``")  # in SQL a relative path would be a table's name
                version = spark.sql(f"DESCRIBE HISTORY delta.`{quoted}` LIMIT 1").first()["version"]  # type: ignore[index] # a table has a version
            frame = spark.read.format("delta").option("versionAsOf", version).load(self.path)
            return Reading(frame, f"{self.KIND}:{self.path}@{version}", frame.count())


def _qualified(spark: SparkSession, path: str) -> str:
    """Return a path with its filesystem, as Spark would complete it."""
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - PySpark has no other way to it
    given = jvm.org.apache.hadoop.fs.Path(path)
    system = given.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001 - see above
    return str(given.makeQualified(system.getUri(), system.getWorkingDirectory()).toString())
