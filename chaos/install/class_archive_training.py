"""A short run of Spark that loads the classes which later runs need (``-XX:ArchiveClassesAtExit``; `class_archives`).

It starts a local session with Parquet, SQL, streams and a Python worker, and then a small cluster, for the classes of master,
worker and RPC.
"""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

_WITHIN_S = 300


def main() -> None:
    """Run both sessions, and end the JVM in good order: only then it writes the archive."""
    archive, extra, kafka = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        spark = _session("local[2]", archive, extra)
        _batch(spark, Path(folder), kafka)
        _streams(spark, Path(folder), kafka)
        spark.stop()
        cluster = _session("local-cluster[1,1,512]", archive, extra)
        cluster.range(100, numPartitions=2).selectExpr("sum(id)").collect()
        cluster.stop()
    gateway = SparkContext._gateway  # noqa: SLF001 - there is no public way to wait for the JVM's end
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(_WITHIN_S)


def _session(master: str, archive: str, extra: str) -> SparkSession:
    settings = {
        "spark.driver.extraClassPath": extra,
        "spark.executor.extraClassPath": extra,
        "spark.driver.extraJavaOptions": f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit={archive}",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.ui.port": "0",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    builder = SparkSession.builder.master(master).appName("training")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _batch(spark: SparkSession, folder: Path, kafka: str) -> None:
    """Do the work of the judge: read a topic, land it as Parquet, join, window, aggregate."""
    rows = spark.range(1000, numPartitions=2).selectExpr("id", "CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value")
    rows.write.format("kafka").option("kafka.bootstrap.servers", kafka).option("topic", "training").save()
    topic = spark.read.format("kafka").option("kafka.bootstrap.servers", kafka).option("subscribe", "training").load()
    topic.selectExpr("partition", "offset", "CAST(key AS STRING) AS key").write.parquet(str(folder / "rows"))
    landed = spark.read.parquet(str(folder / "rows")).selectExpr("*", "CAST(key AS BIGINT) AS id")
    landed.join(rows.select("id"), "id", "left").groupBy("partition").count().orderBy("partition").collect()
    landed.selectExpr("lag(id) OVER (PARTITION BY partition ORDER BY offset) AS before", "id").where("before > id").collect()


def _streams(spark: SparkSession, folder: Path, kafka: str) -> None:
    """Do the work of the pipelines, with either sink."""
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", kafka).option("startingOffsets", "earliest")
    rows = source.option("subscribe", "training").load()
    through = rows.writeStream.foreachBatch(_through_python).option("checkpointLocation", str(folder / "python"))
    stock = rows.select("key", "value").writeStream.format("kafka").option("kafka.bootstrap.servers", kafka)
    stock = stock.option("topic", "trained").option("checkpointLocation", str(folder / "stock"))
    for writer in (through, stock):
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination(_WITHIN_S)
        query.stop()


def _through_python(batch: DataFrame, _number: int) -> None:
    rows = batch.select("partition", "offset", "key")
    rows.mapInArrow(_as_they_are, rows.schema).collect()


def _as_they_are(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches


if __name__ == "__main__":
    main()
