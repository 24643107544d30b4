"""The driver of the square pipeline, a process of its own: runs until SIGTERM, and says what it does in JSON lines.

    {"event": "started", "app_id": …, "ui": "http://…"}
    {"event": "batch", "batch": 7, "rows": 3000, "ms": 412, "tasks": [{"part": 0, "attempt": 1, "skipped": 1000, "sent": 0}, …]}
    {"event": "restarted", "error": …}                    the query died and was started again from its checkpoint
    {"event": "stopped"}
"""

import argparse
import os
import signal
import sys
import time
from types import FrameType

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from pipelines.messages import say
from pipelines.sink import STATS, Sink

_RESTARTS = 5
_SQUARE = "CAST(CAST(CAST(value AS STRING) AS DECIMAL(38, 0)) * CAST(CAST(value AS STRING) AS DECIMAL(38, 0)) AS STRING)"
_SETTINGS = {
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "3",
    "spark.sql.adaptive.enabled": "false",
    "spark.task.maxFailures": "100",  # an executor that is killed counts as a failure of its tasks
    "spark.locality.wait": "0s",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "2",
    "spark.executor.heartbeatInterval": "1s",
    "spark.network.timeout": "8s",
    "spark.network.timeoutInterval": "2s",
    "spark.storage.blockManagerHeartbeatTimeoutMs": "8000",
    "spark.python.worker.reuse": "true",
}
_SOURCE = {
    "startingOffsets": "earliest",
    "kafka.isolation.level": "read_committed",
    "kafka.request.timeout.ms": "5000",
    "kafka.default.api.timeout.ms": "15000",
    "fetchOffset.numRetries": "20",
    "kafkaConsumer.pollTimeoutMs": "8000",
}
_STOCK_SINK = {"kafka.request.timeout.ms": "5000", "kafka.delivery.timeout.ms": "60000", "kafka.max.block.ms": "60000"}


def main() -> None:
    """Run the pipeline until it is told to stop."""
    signal.signal(signal.SIGTERM, _stop)
    arguments = _parsed()
    spark = _session(arguments)
    spark.sparkContext.setLogLevel("WARN")
    query = _start(spark, arguments)
    say("started", app_id=spark.sparkContext.applicationId, ui=spark.sparkContext.uiWebUrl)
    try:
        _run(spark, arguments, query)
    finally:
        say("stopped")
        sys.stdout.flush()
        os._exit(0)  # the JVM would take seconds to say goodbye; the cluster notices by itself


def _run(spark: SparkSession, arguments: argparse.Namespace, query: StreamingQuery) -> None:
    """A query that dies is started again, a few times, from its checkpoint, as a supervisor would."""
    restarts = 0
    told = -1
    while True:
        try:
            query.awaitTermination(0.25)
        except StreamingQueryException as error:
            restarts += 1
            say("restarted", error=str(error)[:500], restarts=restarts)
            if restarts > _RESTARTS:
                raise
            query = _start(spark, arguments)
        if arguments.delivery == "at_least_once":
            told = _tell(query, told)


def _start(spark: SparkSession, arguments: argparse.Namespace) -> StreamingQuery:
    source = spark.readStream.format("kafka").options(**_SOURCE).option("kafka.bootstrap.servers", arguments.kafka)
    rows = source.option("subscribe", arguments.source).option("maxOffsetsPerTrigger", arguments.batch_records).load()
    writer = rows.writeStream.option("checkpointLocation", arguments.checkpoint).trigger(processingTime="200 milliseconds")
    if arguments.delivery == "exactly_once":
        sink = Sink(arguments.kafka, arguments.application, arguments.sink)
        return writer.foreachBatch(lambda batch, number: _write(sink, batch, number)).start()
    squared = rows.selectExpr("partition", "key", f"{_SQUARE} AS value")
    stock = squared.writeStream.format("kafka").options(**_STOCK_SINK).option("kafka.bootstrap.servers", arguments.kafka)
    return stock.option("topic", arguments.sink).option("checkpointLocation", arguments.checkpoint).trigger(processingTime="200 milliseconds").start()


def _write(sink: Sink, batch: DataFrame, number: int) -> None:
    """One job, no shuffle, nothing evaluated twice: one task for each source partition."""
    began_s = time.monotonic()  # noqa: TID251 - pipelines know nothing of chaos.clock
    rows = batch.selectExpr("topic", "partition", "offset", "key", f"CAST({_SQUARE} AS BINARY) AS value")
    tasks = [row.asDict() for row in rows.mapInArrow(sink.writer(), STATS).collect()]  # type: ignore[arg-type]
    took_ms = round(1000 * (time.monotonic() - began_s))  # noqa: TID251
    say("batch", batch=number, rows=sum(task["skipped"] + task["sent"] for task in tasks), ms=took_ms, tasks=tasks)


def _tell(query: StreamingQuery, told: int) -> int:
    """Say what the stock sink has finished since the last time."""
    for progress in query.recentProgress:
        if progress["batchId"] > told and progress["numInputRows"]:
            say("batch", batch=progress["batchId"], rows=progress["numInputRows"], ms=progress["batchDuration"], tasks=[])
            told = progress["batchId"]
    return told


def _session(arguments: argparse.Namespace) -> SparkSession:
    builder = SparkSession.builder.master(arguments.master).appName(arguments.application)
    settings = _SETTINGS | {
        "spark.jars": arguments.jars,
        "spark.driver.host": arguments.host,
        "spark.driver.bindAddress": arguments.host,
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": arguments.java_options,
        "spark.executor.extraJavaOptions": arguments.java_options,
        "spark.executorEnv.PYTHONPATH": arguments.home,
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="datasource -> square -> datasink")
    for name in ("delivery", "master", "kafka", "source", "sink", "application", "checkpoint", "host", "jars", "home", "java-options"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--batch-records", required=True)
    return parser.parse_args()


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


if __name__ == "__main__":
    main()
