"""The two logs of an audit: Parquet that somebody landed, or topics that are landed first; see `chaos.audit.audit`.

Both are ``source/`` and ``sink/`` in one folder, Parquet with the columns partition int, offset long, key string, value string,
and perhaps timestamp_ms long and isolation string (rows marked ``read_uncommitted`` are the uncommitted view).
"""

import json
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from chaos.cluster.kafka import list_offsets
from chaos.common.errors import ChaosError, InconclusiveError
from pipelines import kafka
from verifiers.base import Bounds

_COLUMNS = {"partition": "int", "offset": "bigint", "key": "string", "value": "string"}
_OPTIONAL = {"timestamp_ms": "bigint", "isolation": "string"}
ASK_S = 10.0
_END = 2**63 - 1
_EARLIEST: Any = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]

Ends = Mapping[int, Bounds]


class AuditUsageError(ChaosError):
    """What was asked for is not there, or cannot be asked; the message says what, and what to do."""


@dataclass(frozen=True, slots=True)
class Logs:
    """What is audited.

    Attributes:
        source: columns partition, offset, key, value.
        sink: the same and timestamp_ms (null where unknown); committed rows.
        uncommitted: the same, the uncommitted view; None when there is none.
        source_ends, sink_ends: how far they were read, by partition; of landed folders only that they were read to their ends.
        records: in both.
        positions: of the consumer group; None when none was named.
        moved: as in `Fixed`.
    """

    source: DataFrame
    sink: DataFrame
    uncommitted: DataFrame | None
    source_ends: Ends
    sink_ends: Ends
    records: int
    positions: Mapping[int, int] | None = None
    moved: bool = False


@dataclass(frozen=True, slots=True)
class Topics:
    """Where the topics are.

    Attributes:
        group: the consumer group that holds the pipeline's position; empty for none.
        header: the record header that is its identity; empty for the key.
    """

    bootstrap: str
    source: str
    sink: str
    group: str = ""
    header: str = ""


@dataclass(frozen=True, slots=True)
class Fixed:
    """What was fixed before anything was read.

    Attributes:
        positions: as they were before the ends.
        moved: whether they were others after the ends: the pipeline is at work.
    """

    source: Ends
    sink: Ends
    positions: Mapping[int, int] | None = None
    moved: bool = False


# Parquet -------------------------------------------------------------------------------------------------------------------


def landed(spark: SparkSession, folder: str, fixed: Fixed | None = None) -> Logs:
    """The logs in a folder, or at a URL.

    Args:
        fixed: how far the topics were read; found in the rows themselves where nobody knows.

    Raises:
        AuditUsageError: they are not there, or have other columns.
    """
    source, sink = (_read(spark, f"{folder.rstrip('/')}/{name}") for name in ("source", "sink"))
    committed, uncommitted = _views(sink)
    (source_count, source_ends), (sink_count, sink_ends) = _extent(source), _extent(committed)
    if fixed is None:
        fixed = Fixed(source_ends, sink_ends)
    records = source_count + sink_count
    return Logs(source, committed, uncommitted, fixed.source, fixed.sink, records, fixed.positions, fixed.moved)


def _read(spark: SparkSession, place: str) -> DataFrame:
    try:
        rows = spark.read.parquet(place)
    except (PySparkException, Py4JJavaError) as error:
        condition = re.search(r"\[([A-Z_.]+)\]", str(error))
        if condition is None and not isinstance(error, PySparkException):
            raise
        reason = condition[1] if condition else type(error).__name__
        raise AuditUsageError(
            f"{place} is no Parquet folder ({reason}): --landed names the folder of source/ and sink/"
        ) from None
    types = dict(rows.dtypes)
    wanted = _COLUMNS | {name: kind for name, kind in _OPTIONAL.items() if name in types}
    wrong = [f"{name} {kind} (found: {types.get(name, 'none')})" for name, kind in wanted.items() if types.get(name) != kind]
    if wrong:
        raise AuditUsageError(f"{place}: needed are {', '.join(wrong)}; select and cast them before landing")
    return rows


def _views(rows: DataFrame) -> tuple[DataFrame, DataFrame | None]:
    """The committed rows, and the uncommitted view if there is one."""
    timed = rows if "timestamp_ms" in rows.columns else rows.selectExpr("*", "CAST(NULL AS BIGINT) AS timestamp_ms")
    columns = ("partition", "offset", "timestamp_ms", "key", "value")
    if "isolation" not in rows.columns:
        return timed.select(*columns), None
    uncommitted = timed.where("isolation <=> 'read_uncommitted'").select(*columns)
    return timed.where("NOT isolation <=> 'read_uncommitted'").select(*columns), uncommitted


def _extent(rows: DataFrame) -> tuple[int, Ends]:
    """How many records, and their partitions; whoever landed them has read each to its end, wherever that is."""
    records, last = rows.agg(F.count("*"), F.max("partition")).collect()[0]
    return records, {number: Bounds(0, _END, _END) for number in range(0 if last is None else last + 1)}


# topics --------------------------------------------------------------------------------------------------------------------


def fix(topics: Topics) -> Fixed:
    """Low, LSO and HW of every partition, and the group's position; asked before anything is read.

    The pipeline may be at work meanwhile, hence the order: what the positions are past was written before the sink ends, and
    what is in the sink was demanded before the source ends.

    Raises:
        AuditUsageError: there is no such topic, or the group never committed.
        InconclusiveError: no broker answers in time, or the group's coordinator cannot tell a position.
    """
    admin = AdminClient({"bootstrap.servers": topics.bootstrap, "log_level": 0, "socket.timeout.ms": int(ASK_S * 1000)})
    try:
        known = admin.list_topics(timeout=ASK_S).topics
        for topic in (topics.source, topics.sink):
            if topic not in known:
                there = ", ".join(sorted(name for name in known if not name.startswith("__"))) or "none"
                raise AuditUsageError(f"there is no topic {topic!r} at {topics.bootstrap}; there are: {there}")
        positions = _committed(topics, known[topics.source].partitions)
        sink, source = (_bounds(admin, topic, known[topic].partitions) for topic in (topics.sink, topics.source))
        moved = positions != _committed(topics, known[topics.source].partitions)
    except KafkaException as error:
        reason = error.args[0].str()
        raise InconclusiveError(
            f"{topics.bootstrap} does not answer within {ASK_S:g} s ({reason}): is it up, and reachable?"
        ) from error
    return Fixed(source, sink, positions, moved)


def land(spark: SparkSession, topics: Topics, fixed: Fixed, folder: str) -> None:
    """Write both topics, up to the fixed offsets, read once each; both, or neither unless Spark is killed meanwhile.

    Raises:
        AuditUsageError: something is in the folder already.
        InconclusiveError: records were removed meanwhile, or a leader does not answer.
    """
    places = [f"{folder.rstrip('/')}/{name}" for name in ("source", "sink")]
    for place in places:
        try:
            there = _exists(spark, place)
        except Py4JJavaError as error:
            reason = error.java_exception.getMessage()
            raise AuditUsageError(f"--landing {folder}: {reason}: is it a folder or URL that Spark can write to?") from error
        if there:
            raise AuditUsageError(f"{place} is there already: name another --landing, or audit it with --landed")

    def one(topic: str, ends: Ends, place: str) -> None:
        try:
            read(spark, topics, topic, ends).write.parquet(place)
        except (PySparkException, Py4JJavaError) as error:
            raise InconclusiveError(_why(error, topics, topic, ends)) from error

    with ExitStack() as undo:
        undo.callback(_remove, spark, places)
        with ThreadPoolExecutor(2) as pool:  # three partitions of one topic keep two cores busy for three quarters of the time
            asked = zip((topics.source, topics.sink), (fixed.source, fixed.sink), places, strict=True)
            ended, broken_off = wait([pool.submit(one, *words) for words in asked], return_when=FIRST_EXCEPTION)
            if broken_off:
                _cancel(spark)
        for future in (*ended, *broken_off):  # the first reason is the one
            future.result()
        undo.pop_all()


def _exists(spark: SparkSession, place: str) -> bool:
    files, path = _files(spark, place)
    return bool(files.exists(path))


def _remove(spark: SparkSession, places: Iterable[str]) -> None:
    with suppress(Py4JError, ConnectionError):  # it may have been killed
        for place in places:
            files, path = _files(spark, place)
            files.delete(path, True)  # noqa: FBT003 - recursive; Java knows no names


def _cancel(spark: SparkSession) -> None:
    with suppress(Py4JError, ConnectionError):
        spark.sparkContext.cancelAllJobs()


def _files(spark: SparkSession, place: str) -> tuple[Any, Any]:
    """Hadoop's file system of a folder or URL, and its path there."""
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - PySpark has no other way to it
    path = jvm.org.apache.hadoop.fs.Path(place)
    return path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()), path  # noqa: SLF001


def _why(error: Exception, topics: Topics, topic: str, ends: Ends) -> str:
    """Retention that moved, if that is it."""
    now = fix(topics)
    moved = [
        f"partition {number} began at {ends[number].low} and begins at {there.low} now"
        for number, there in (now.source if topic == topics.source else now.sink).items()
        if number in ends and there.low > ends[number].low
    ]
    if moved:
        return f"records of {topic} were removed while it was read ({'; '.join(moved)}): raise retention.ms and audit again"
    return f"{topic} could not be read: {str(error).splitlines()[0]}"


def read(spark: SparkSession, topics: Topics, topic: str, ends: Ends) -> DataFrame:
    """Its rows, low to LSO, read_committed."""
    key = "CAST(key AS STRING)"
    if topics.header:
        name = topics.header.replace("\\", "\\\\").replace("'", "\\'")
        key = f"CAST(element_at(filter(headers, header -> header.key = '{name}'), 1).value AS STRING)"
    return (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", topics.bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", json.dumps({topic: {str(number): one.low for number, one in ends.items()}}))
        .option("endingOffsets", json.dumps({topic: {str(number): one.lso for number, one in ends.items()}}))
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.max.partition.fetch.bytes", str(16 << 20))
        .option("kafka.fetch.max.bytes", str(64 << 20))
        .option("kafka.max.poll.records", "50000")
        .option("includeHeaders", str(bool(topics.header)).lower())
        .option("failOnDataLoss", "true")
        .option("kafkaConsumer.pollTimeoutMs", str(int(ASK_S * 1000)))
        .load()
        .selectExpr(
            "partition",
            "offset",
            "unix_millis(timestamp) AS timestamp_ms",
            f"{key} AS key",
            "CAST(value AS STRING) AS value",
        )
    )


def _bounds(admin: AdminClient, topic: str, partitions: Iterable[int]) -> Ends:
    """In this order, so that LSO <= HW always."""
    low = list_offsets(admin, topic, partitions, _EARLIEST, IsolationLevel.READ_UNCOMMITTED, ASK_S)
    lso = list_offsets(admin, topic, partitions, _LATEST, IsolationLevel.READ_COMMITTED, ASK_S)
    hw = list_offsets(admin, topic, partitions, _LATEST, IsolationLevel.READ_UNCOMMITTED, ASK_S)
    return {number: Bounds(low[number], lso[number], hw[number]) for number in partitions}


def _committed(topics: Topics, partitions: Iterable[int]) -> Mapping[int, int] | None:
    """None where no group is named."""
    if not topics.group:
        return None
    settings = {"bootstrap.servers": topics.bootstrap, "group.id": topics.group, "isolation.level": "read_committed"}
    with closing(Consumer(settings | {"enable.auto.commit": False, "log_level": 0})) as asker:
        asked = [TopicPartition(topics.source, number) for number in partitions]
        found = kafka.known(asker.committed(asked, timeout=ASK_S))
    if not found:
        raise AuditUsageError(f"the group {topics.group!r} never committed a position in {topics.source!r}: is that its name?")
    return found
