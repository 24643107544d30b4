"""The driver of the square pipeline, a process of its own, which reports what it does in JSON lines.

    {"event": "started", "app_id": …, "ui": "http://…"}
    {"event": "batch", "batch": 7, "rows": 3000, "ms": 412, "tasks": [{"part": 0, "attempt": 1, "skipped": 9, "sent": 0}, …]}
    {"event": "restarted", "error": …}                    the query died and was started again from its checkpoint
    {"event": "stopped"}

It runs until SIGTERM, and then ends with 0. It ends with 1 if its query died too often, or at once if the sink refuses a batch.
"""

import argparse
import json
import os
import signal
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from pyspark import SparkContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

from pipelines import kafka
from pipelines.messages import monotonic_s, say
from pipelines.spark_square.sink import STATS, Plan, RefusedError, Sink

_OPTIONS = "delivery batch-records master kafka source sink application checkpoint host jars home java-options"
_RESTARTS = 5
_TURN_S = 0.25
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
    "spark.python.daemon.module": "pipelines.spark_square.python_daemon",
    "spark.sql.codegen.wholeStage": "false",  # small batches: compiling takes longer than running
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.streaming.stopTimeout": "5s",
}
_SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "3",
    "spark.speculation.quantile": "0.3",  # one of three tasks has ended
    "spark.speculation.minTaskRuntime": "1s",
}
_SOURCE = {
    "startingOffsets": "earliest",
    "kafka.isolation.level": "read_committed",
    "kafka.fetch.max.wait.ms": "50",  # a fetch at the end of the log waits this long, in every batch
    "kafka.request.timeout.ms": "5000",
    "kafka.default.api.timeout.ms": "15000",
    "fetchOffset.numRetries": "20",
    "kafkaConsumer.pollTimeoutMs": "8000",
}
_TRIGGER = "200 milliseconds"
Refuse = Callable[[str], object]
Start = Callable[[SparkSession, argparse.Namespace, Refuse], StreamingQuery]
_STOCK_SINK = {"kafka.request.timeout.ms": "5000", "kafka.delivery.timeout.ms": "60000", "kafka.max.block.ms": "60000"}


def main() -> None:
    """Run the pipeline until it is told to stop."""
    signals: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: signals.append(number))
    arguments = _parsed()
    spark = _session(arguments)
    spark.sparkContext.setLogLevel("WARN")
    _run(spark, arguments, lambda: bool(signals))
    say("stopped")
    os._exit(0)  # the JVM would take seconds to end; the cluster notices by itself


def _run(spark: SparkSession, arguments: argparse.Namespace, told_to_stop: Callable[[], bool]) -> None:
    """Run the query, and start it again from its checkpoint if it dies, as a supervisor would.

    It may die a few times in a row; a batch that it has finished since begins the count anew.

    It waits in short turns: a signal handler that raised would leave this thread's one connection to the JVM waiting for
    ever (py4j `ClientServer`), and `stop` would wait behind it.

    Raises:
        StreamingQueryException: it died more often than it is started again, and finished no batch meanwhile.
        RefusedError: the sink refused a batch, and would again.
    """
    refused: list[str] = []
    start: Start = _start_exactly_once
    if arguments.delivery == "at_least_once":
        start = _start_at_least_once
        spark.streams.addListener(_FinishedBatches())
    query = start(spark, arguments, refused.append)
    say("started", app_id=spark.sparkContext.applicationId, ui=spark.sparkContext.uiWebUrl)
    restarts = 0
    while not told_to_stop():
        try:
            query.awaitTermination(_TURN_S)  # type: ignore[arg-type]  # it takes fractions, its annotation says int
        except StreamingQueryException as error:
            if refused:
                raise RefusedError(refused[0]) from None
            restarts = 1 if query.lastProgress else restarts + 1
            if restarts > _RESTARTS:
                raise
            say("restarted", error=str(error)[:500], restarts=restarts)
            query = start(spark, arguments, refused.append)
    query.stop()


def _start_exactly_once(spark: SparkSession, arguments: argparse.Namespace, refuse: Refuse) -> StreamingQuery:
    sink = Sink(arguments.kafka, arguments.application, arguments.sink, kafka.librdkafka_options())
    # Asked by the first batch: while no broker answers, the query dies and is started again, and the driver must not.
    source_id = cache(lambda: kafka.topic_id(arguments.kafka, arguments.source, kafka.librdkafka_options()))

    def write(batch: DataFrame, number: int) -> None:
        starts = _planned(Path(arguments.checkpoint) / "offsets" / str(number - 1), arguments.source)
        _write(sink, Plan(starts, source_id()), batch, number, refuse)

    writer = _source(spark, arguments).writeStream.foreachBatch(write)
    return writer.option("checkpointLocation", arguments.checkpoint).trigger(processingTime=_TRIGGER).start()


def _start_at_least_once(spark: SparkSession, arguments: argparse.Namespace, _refuse: Refuse) -> StreamingQuery:
    squared = _source(spark, arguments).selectExpr("partition", "key", f"{_SQUARE} AS value")
    writer = squared.writeStream.format("kafka").options(**_STOCK_SINK, **kafka.for_spark(kafka.java_options()))
    writer = writer.option("kafka.bootstrap.servers", arguments.kafka).option("topic", arguments.sink)
    return writer.option("checkpointLocation", arguments.checkpoint).trigger(processingTime=_TRIGGER).start()


def _source(spark: SparkSession, arguments: argparse.Namespace) -> DataFrame:
    source = spark.readStream.format("kafka").options(**_SOURCE, **kafka.for_spark(kafka.java_options()))
    source = source.option("kafka.bootstrap.servers", arguments.kafka).option("groupIdPrefix", arguments.application)
    return source.option("subscribe", arguments.source).option("maxOffsetsPerTrigger", arguments.batch_records).load()


def _write(sink: Sink, plan: Plan, batch: DataFrame, number: int, refuse: Refuse) -> None:
    """One job without a shuffle, in which nothing is evaluated twice: one task for each source partition.

    Raises:
        RefusedError: a task has a problem that another attempt would have too.
    """
    began_s = monotonic_s()
    rows = batch.selectExpr("topic", "partition", "offset", "key", f"CAST({_SQUARE} AS BINARY) AS value")
    tasks = [row.asDict() for row in rows.mapInArrow(sink.writer(plan), STATS).collect()]
    problem = next(filter(None, [task.pop("problem") for task in tasks]), "")
    if problem:
        refuse(problem)
        raise RefusedError(problem)
    took_ms = round(1000 * (monotonic_s() - began_s))
    say("batch", batch=number, rows=sum(task["skipped"] + task["sent"] for task in tasks), ms=took_ms, tasks=tasks)


def _planned(log: Path, topic: str) -> Mapping[int, int]:
    """Partition -> end offset of a batch, exclusive; empty if its plan is absent or damaged, or not of this topic."""
    try:
        sources = log.read_text(encoding="utf-8").splitlines()[2:]
        found = [json.loads(line) for line in sources if line.startswith("{")]
        ends = next(one[topic] for one in found if topic in one)
        return {int(partition): int(offset) for partition, offset in ends.items()}
    except (FileNotFoundError, StopIteration, json.JSONDecodeError, AttributeError, ValueError):
        return {}


class _FinishedBatches(StreamingQueryListener):
    """Reports the batches that Spark's stock sink has finished; its tasks report nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        progress = event.progress
        if progress.numInputRows:
            say("batch", batch=progress.batchId, rows=progress.numInputRows, ms=progress.batchDuration, tasks=[])

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Nothing to report."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing to report."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Reported by `_run`."""


def _session(arguments: argparse.Namespace) -> SparkSession:
    settings = _SETTINGS | (_SPECULATION if arguments.speculation else {})
    settings |= {
        "spark.master": arguments.master,
        "spark.app.name": arguments.application,
        "spark.driver.extraClassPath": arguments.jars,
        "spark.executor.extraClassPath": arguments.jars,
        "spark.driver.host": arguments.host,
        "spark.driver.bindAddress": arguments.host,
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": arguments.java_options,
        "spark.executor.extraJavaOptions": arguments.java_options,
        "spark.executorEnv.PYTHONPATH": arguments.home,
    }
    settings |= kafka.spark_options()
    with _submitted(settings):
        SparkContext.getOrCreate()
    return SparkSession.builder.config(map={**settings}).getOrCreate()  # spark-submit takes names in spark.* only


@contextmanager
def _submitted(settings: Mapping[str, str]) -> Iterator[None]:
    """Hand settings to the JVM that is started in this block; they may be secret.

    `SparkSession.builder.config` would put each on the command line of spark-submit and of its JVM, which every user can read.
    They are in a file in memory instead: only this user can open it, and nothing is left of it if this process is killed.
    """
    given = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
    file = os.memfd_create("spark-settings")
    try:
        os.fchmod(file, 0o600)
        os.write(file, _properties(settings).encode("ascii"))
        path = f"/proc/{os.getpid()}/fd/{file}"
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"--properties-file {path} --load-spark-defaults {given}"
        yield
    finally:
        os.environ["PYSPARK_SUBMIT_ARGS"] = given
        os.close(file)


def _properties(settings: Mapping[str, str]) -> str:
    """As `java.util.Properties` reads it; all but letters and digits is escaped, because half of it means something there."""
    return "".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in settings.items())


def _escaped(text: str) -> str:
    codes = (code for (code,) in struct.iter_unpack(">H", text.encode("utf-16-be")))
    return "".join(chr(code) if chr(code).isascii() and chr(code).isalnum() else f"\\u{code:04x}" for code in codes)


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="datasource -> square -> datasink")
    for name in _OPTIONS.split():
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--speculation", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
