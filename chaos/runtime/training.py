"""A short life of Spark that loads what later lives need, run with ``-XX:ArchiveClassesAtExit`` (`chaos.runtime.archives`).

First local, with Parquet, SQL, a stream and a Python worker; then a small cluster, for the classes of master, worker and RPC.
"""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

_WITHIN_S = 120


def main() -> None:
    """Live, and end the JVM in good order: only then it writes the archive."""
    archive = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        _live(_session("local[2]", archive), Path(folder))
        cluster = _session("local-cluster[1,1,512]", archive)
        cluster.range(100, numPartitions=2).selectExpr("sum(id)").collect()
        cluster.stop()
    gateway = SparkContext._gateway  # noqa: SLF001 - there is no public way to wait for the JVM's end
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(_WITHIN_S)


def _session(master: str, archive: str) -> SparkSession:
    settings = {
        "spark.driver.extraJavaOptions": f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit={archive}",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.ui.port": "0",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",
    }
    builder = SparkSession.builder.master(master).appName("training")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _live(spark: SparkSession, folder: Path) -> None:
    rows = spark.range(1000, numPartitions=2).selectExpr("id", "CAST(id AS STRING) AS key", "CAST(id % 3 AS INT) AS partition")
    rows.write.parquet(str(folder / "rows"))
    landed = spark.read.parquet(str(folder / "rows"))
    landed.join(rows.select("id"), "id", "left").groupBy("partition").count().orderBy("partition").collect()
    landed.selectExpr("lag(id) OVER (PARTITION BY partition ORDER BY id) AS before", "id").where("before > id").collect()
    stream = (
        spark.readStream.format("rate").option("rowsPerSecond", 100).load().selectExpr("value", "CAST(value AS STRING) AS key")
    )
    query = stream.writeStream.foreachBatch(_through_python).option("checkpointLocation", str(folder / "checkpoint")).start()
    query.awaitTermination(6)
    query.stop()
    spark.stop()


def _through_python(batch: DataFrame, _number: int) -> None:
    batch.mapInArrow(_same, batch.schema).collect()


def _same(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches


if __name__ == "__main__":
    main()
