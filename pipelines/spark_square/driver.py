"""The square pipeline: Structured Streaming reads a topic of numbers, squares them, and writes them partition by partition.

    spark-submit … driver.py --delivery exactly_once --batch-records 4000 --kafka … --source … --sink … --application …
                             --checkpoint …

``exactly_once`` writes through `pipelines.spark_square.sink` and keeps its position in a consumer group, committed with the
rows: the group has the application's name, and its deployment commits position 0 there. ``at_most_once`` writes through
`pipelines.spark_square.commit_first`, which commits that position before the rows. ``at_least_once`` is Spark's
stock Kafka sink (``KafkaStreamingWrite``: it has no commit coordinator, so any retry writes again).

With ``--whole-batches=true`` a batch waits until it has all of its records, and the stock sink sends a task's rows in one
request, up to 1 MB: then the numbers of rows in a batch and in a request are known.

Its log has, for people, a line of JSON for each batch and for each event of its query:

    {"event": "started", "app_id": …, "ui": "http://…"}
    {"event": "batch", "batch": 7, "rows": 3000, "ms": 412, "tasks": [{"part": 0, "attempt": 1, "skipped": 9, "sent": 0}, …]}
    {"event": "restarted", "error": …}                    the query died and was started again from its checkpoint

It runs until it is ended, and ends with 1 if its query died too often, or at once if the sink refuses a batch. It needs the
package `pipelines` on the path of Python, its executors too.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

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
from pipelines.spark_square.commit_first import CommitFirst
from pipelines.spark_square.sink import STATS, Batches, Plan, RefusedError, Sink

_OPTIONS = "batch-records kafka source sink application checkpoint"
_DELIVERIES = ("exactly_once", "at_least_once", "at_most_once")
_RESTARTS = 5
_SQUARE = "CAST(CAST(CAST(value AS STRING) AS DECIMAL(38, 0)) * CAST(CAST(value AS STRING) AS DECIMAL(38, 0)) AS STRING)"
_SETTINGS = {
    "spark.sql.shuffle.partitions": "3",
    "spark.sql.adaptive.enabled": "false",
    "spark.locality.wait": "0s",
    "spark.python.daemon.module": "pipelines.spark_square.python_daemon",
    "spark.sql.codegen.wholeStage": "false",  # small batches: compiling takes longer than running
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.streaming.stopTimeout": "5s",
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
Writer = Callable[[Batches], Batches]
Refuse = Callable[[str], object]
Start = Callable[[SparkSession, argparse.Namespace, Refuse], StreamingQuery]
_WHOLE = {"maxTriggerDelay": "36500d"}  # since 1970, Spark's time of the last trigger of a new query
_ONE_REQUEST = {"kafka.linger.ms": "10000", "kafka.batch.size": "1000000"}  # a task flushes after its last row
_STOCK_SINK = {"kafka.request.timeout.ms": "5000", "kafka.delivery.timeout.ms": "60000", "kafka.max.block.ms": "60000"}


def main() -> None:
    """Run the pipeline until it is ended."""
    arguments = parsed(sys.argv[1:])
    spark = _session(arguments.application)
    spark.sparkContext.setLogLevel("WARN")
    _run(spark, arguments)


def _run(spark: SparkSession, arguments: argparse.Namespace) -> None:
    """Run the query, and start it again from its checkpoint if it dies, like a supervisor.

    It may die a few times in a row; a finished batch resets the count. Return if somebody stops it.

    Raises:
        StreamingQueryException: it died more often than it is started again, and finished no batch meanwhile.
        RefusedError: the sink refused a batch, and would refuse it again.
    """
    refused: list[str] = []
    start: Start = _start_exactly_once
    if arguments.delivery == "at_most_once":
        start = _start_at_most_once
    if arguments.delivery == "at_least_once":
        start = _start_at_least_once
        spark.streams.addListener(_FinishedBatches())
    query = start(spark, arguments, refused.append)
    say("started", app_id=spark.sparkContext.applicationId, ui=spark.sparkContext.uiWebUrl)
    restarts = 0
    while True:
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            if refused:
                raise RefusedError(refused[0]) from None
            restarts = 1 if query.lastProgress else restarts + 1
            if restarts > _RESTARTS:
                raise
            say("restarted", error=str(error)[:500], restarts=restarts)
            query = start(spark, arguments, refused.append)
        else:
            return


def _start_exactly_once(spark: SparkSession, arguments: argparse.Namespace, refuse: Refuse) -> StreamingQuery:
    sink = Sink(arguments.kafka, arguments.application, arguments.sink, kafka.librdkafka_options())
    # The first batch requests the id: while no broker answers, the query dies and is restarted, but the driver must not die.
    source_id = cache(lambda: kafka.topic_id(arguments.kafka, arguments.source, kafka.librdkafka_options()))

    def write(batch: DataFrame, number: int) -> None:
        starts = _planned(Path(arguments.checkpoint) / "offsets" / str(number - 1), arguments.source)
        _write(sink.writer(Plan(starts, source_id())), batch, number, refuse)

    writer = _source(spark, arguments).writeStream.foreachBatch(write)
    return writer.option("checkpointLocation", arguments.checkpoint).trigger(processingTime=_TRIGGER).start()


def _start_at_most_once(spark: SparkSession, arguments: argparse.Namespace, refuse: Refuse) -> StreamingQuery:
    sink = CommitFirst(Sink(arguments.kafka, arguments.application, arguments.sink, kafka.librdkafka_options()))

    def write(batch: DataFrame, number: int) -> None:
        _write(sink.writer(), batch, number, refuse)

    writer = _source(spark, arguments).writeStream.foreachBatch(write)
    return writer.option("checkpointLocation", arguments.checkpoint).trigger(processingTime=_TRIGGER).start()


def _start_at_least_once(spark: SparkSession, arguments: argparse.Namespace, _refuse: Refuse) -> StreamingQuery:
    squared = _source(spark, arguments).selectExpr("partition", "key", f"{_SQUARE} AS value")
    writer = squared.writeStream.format("kafka").options(**_STOCK_SINK, **kafka.for_spark(kafka.java_options()))
    writer = writer.options(**_ONE_REQUEST) if arguments.whole_batches == "true" else writer
    writer = writer.option("kafka.bootstrap.servers", arguments.kafka).option("topic", arguments.sink)
    return writer.option("checkpointLocation", arguments.checkpoint).trigger(processingTime=_TRIGGER).start()


def _source(spark: SparkSession, arguments: argparse.Namespace) -> DataFrame:
    source = spark.readStream.format("kafka").options(**_SOURCE, **kafka.for_spark(kafka.java_options()))
    source = source.option("kafka.bootstrap.servers", arguments.kafka).option("groupIdPrefix", arguments.application)
    if arguments.whole_batches == "true":
        source = source.options(**_WHOLE, minOffsetsPerTrigger=arguments.batch_records)
    return source.option("subscribe", arguments.source).option("maxOffsetsPerTrigger", arguments.batch_records).load()


def _write(writer: Writer, batch: DataFrame, number: int, refuse: Refuse) -> None:
    """Write a batch as one job without a shuffle, in which nothing is evaluated twice: one task for each source partition.

    Raises:
        RefusedError: a task has a problem that another attempt would have too.
    """
    began_s = monotonic_s()
    rows = batch.selectExpr("topic", "partition", "offset", "key", f"CAST({_SQUARE} AS BINARY) AS value")
    tasks = [row.asDict() for row in rows.mapInArrow(writer, STATS).collect()]
    problem = next(filter(None, [task.pop("problem") for task in tasks]), "")
    if problem:
        refuse(problem)
        raise RefusedError(problem)
    took_ms = round(1000 * (monotonic_s() - began_s))
    say("batch", batch=number, rows=sum(task["skipped"] + task["sent"] for task in tasks), ms=took_ms, tasks=tasks)


def _planned(log: Path, topic: str) -> Mapping[int, int]:
    """Return partition -> end offset of a batch, exclusive; empty if its plan is absent or damaged, or of another topic."""
    try:
        sources = log.read_text(encoding="utf-8").splitlines()[2:]
        found = [json.loads(line) for line in sources if line.startswith("{")]
        ends = next(one[topic] for one in found if topic in one)
        return {int(partition): int(offset) for partition, offset in ends.items()}
    except (FileNotFoundError, StopIteration, json.JSONDecodeError, AttributeError, ValueError):
        return {}


class _FinishedBatches(StreamingQueryListener):
    """Reports the finished batches of Spark's stock sink, whose tasks report nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        progress = event.progress
        if progress.numInputRows:
            say("batch", batch=progress.batchId, rows=progress.numInputRows, ms=progress.batchDuration, tasks=[])

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Report nothing."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing to report."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Reported by `_run`."""


def _session(application: str) -> SparkSession:
    """Start a session; an administrator's settings (`kafka.spark_options`) override ours."""
    return SparkSession.builder.appName(application).config(map={**_SETTINGS, **kafka.spark_options()}).getOrCreate()


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments; end with an error message if they are wrong."""
    parser = argparse.ArgumentParser(description="topic -> square -> topic")
    parser.add_argument("--delivery", choices=_DELIVERIES, default=_DELIVERIES[0])
    parser.add_argument("--whole-batches", choices=("true", "false"), default="false")
    for name in _OPTIONS.split():
        parser.add_argument(f"--{name}", required=True)
    return parser.parse_args(words)


if __name__ == "__main__":
    main()
