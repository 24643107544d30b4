"""Landing: Spark reads topics up to fixed offsets, and writes them as Parquet to be judged.

Offsets are fixed before anything is read: low, last stable offset and high watermark of every partition. A read_committed
read "to latest" would stop at the LSO and silently hide rows that were committed above an open transaction.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession

from chaos.common import clock
from chaos.common.errors import DeadlineError
from chaos.contract.clients import for_spark
from chaos.matching import row_ids
from chaos.matching.row_ids import Numbering
from chaos.scenario.verifiers import OF_LOGS, role_of
from verifiers import arrow, evidence
from verifiers.base import Bounds, Evidence

ANSWERS_WITHIN_S = 10.0
_GONE_WITHIN_S = 30.0
_GONE_TIMES = 10
_ROWS_AT_ONCE = 100_000
_ARROW = {"string": pa.string(), "bigint": pa.int64(), "int": pa.int32()}
# For topics of millions of records: with the consumer's defaults the same read takes longer (docs/findings/audit-cost.md).
LARGE_FETCHES = {
    "kafka.max.partition.fetch.bytes": str(16 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.max.poll.records": "50000",
}


# reading -------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic, and how it is read.

    Attributes:
        options: of Spark's Kafka source.
        isolation: of the reader; a read_uncommitted one reads up to HW.
        identity: SQL over key, value (strings) and headers; its result replaces the key.
        exact: whether keys and values may be any bytes (`row_ids.text`); else they are text.
        headers: whether the value includes the headers (`row_ids.with_headers`); only for exact ones.
    """

    bootstrap: str
    name: str
    options: Mapping[str, str]
    isolation: str = "read_committed"
    identity: str = "key"
    exact: bool = False
    headers: bool = False

    @property
    def columns(self) -> tuple[str, str]:
        """SQL of key and value."""
        if not self.exact:
            return ("CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value")
        value = row_ids.with_headers("value", "headers") if self.headers else row_ids.text("value")
        return (f"{row_ids.text('key')} AS key", f"{value} AS value")


def topic_of_run(
    bootstrap: str,
    name: str,
    isolation: str = "read_committed",
    client: Mapping[str, str] | None = None,
    *,
    exact: bool = False,
    headers: bool = False,
) -> Topic:
    """Describe how to read a topic of some thousand records, perhaps on a cluster that others use.

    Args:
        client: options of Kafka's Java clients, TLS and SASL for example.
    """
    options = {
        "groupIdPrefix": f"{name}-audit",  # like the topic's name: such a cluster allows only groups of our own prefix
        "kafka.fetch.max.wait.ms": "50",  # a fetch at the end of a log waits this long for nothing
    }
    return Topic(bootstrap, name, for_spark(client or {}) | options, isolation, exact=exact, headers=headers)


def read(spark: SparkSession, topic: Topic, bounds: Mapping[int, Bounds], *, fail_on_loss: bool = True) -> DataFrame:
    """Read a topic's rows, with the columns `evidence.OBSERVED`; also ``own``, the key, if `identity` replaces it.

    Args:
        bounds: where reading begins and ends.
        fail_on_loss: whether missing offsets end the read; else they are left out.
    """
    ends = {number: one.hw if topic.isolation == "read_uncommitted" else one.lso for number, one in bounds.items()}
    by_headers = "headers" in topic.identity
    own = [] if topic.identity == "key" else ["key AS own"]
    return (
        spark.read.format("kafka")
        .options(**topic.options)
        .option("kafka.bootstrap.servers", topic.bootstrap)
        .option("subscribe", topic.name)
        .option("startingOffsets", json.dumps({topic.name: {str(number): one.low for number, one in bounds.items()}}))
        .option("endingOffsets", json.dumps({topic.name: {str(number): end for number, end in ends.items()}}))
        .option("kafka.isolation.level", topic.isolation)
        .option("includeHeaders", str(by_headers or topic.headers).lower())
        .option("failOnDataLoss", str(fail_on_loss).lower())
        .option("kafkaConsumer.pollTimeoutMs", str(int(ANSWERS_WITHIN_S * 1000)))
        .load()
        .selectExpr(
            "partition",
            "offset",
            "unix_millis(timestamp) AS timestamp_ms",
            *topic.columns,
            *(["headers"] if by_headers else []),
        )
        .selectExpr("partition", "offset", "timestamp_ms", f"CAST({topic.identity} AS STRING) AS key", "value", *own)
    )


# the evidence of a run -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunLog:
    """A log of a run, and the rows that it must hold.

    Attributes:
        expected: the expected rows; for the user's own rows, a function that finds them from the observed ones.
        verify: names of the verifiers that will judge it.
        ledger: the writer's, CSV ``id,outcome,partition,offset``; None if there is none.
        of_programs: views of `evidence.OF_PROGRAMS` that this run has -> function that makes their rows.
        positions, anywhere, source_partitions: as in the evidence.
    """

    subject: str
    bounds: Mapping[int, Bounds]
    expected: DataFrame | Numbering
    verify: Collection[str]
    ledger: Path | None = None
    of_programs: Mapping[str, Callable[[], Iterable[tuple[Any, ...]]]] = field(default_factory=dict)
    positions: Mapping[int, int] = field(default_factory=dict)
    anywhere: bool = False
    source_partitions: int = 0


def land(spark: SparkSession, topic: Topic, log: RunLog, folder: Path) -> None:
    """Write one topic and its expected rows, with the views that its verifiers need; each view may cost another read.

    Args:
        topic: where the log is; if its expected rows are integers, keys and values are read as text, without headers.

    Raises:
        InconclusiveError: its record batches, its open transactions or a group's positions cannot be read, or a program's
            statement cannot be understood.
    """
    exact = not isinstance(log.expected, DataFrame)
    place = (topic.bootstrap, topic.name, log.bounds)

    def rows(isolation: str = topic.isolation, *, fail_on_loss: bool = True) -> DataFrame:
        where = replace(topic, isolation=isolation, exact=exact, headers=topic.headers and exact)
        return read(spark, where, log.bounds, fail_on_loss=fail_on_loss)

    makers: Mapping[str, Callable[[], DataFrame]] = {
        "uncommitted": lambda: rows("read_uncommitted"),
        "again": lambda: rows(fail_on_loss=False),
        "batches": lambda: _batches(spark, *place),
        "open_transactions": lambda: _open_transactions(spark, *place),
        "ledger": lambda: spark.read.csv(str(log.ledger), header=True, schema=_schema(evidence.LEDGER)),
    }
    absent = (evidence.OF_PROGRAMS.keys() - log.of_programs.keys()) | ({"ledger"} if log.ledger is None else set())
    wanted = needed(log.verify, log.subject) - absent
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder, prefix="said-") as scratch:

        def of_program(name: str) -> DataFrame:
            return _of_rows(spark, log.of_programs[name](), evidence.OF_PROGRAMS[name], Path(scratch, name))

        views: dict[str, Any] = {  # by their names in the evidence
            name: of_program(name) if name in log.of_programs else makers[name]() for name in sorted(wanted)
        }
        anywhere, dealt = log.anywhere, log.source_partitions
        if isinstance(log.expected, DataFrame):
            one = Evidence(
                log.subject, log.expected, rows(), log.bounds, log.positions, anywhere=anywhere, source_partitions=dealt
            )
        else:
            observed = rows().localCheckpoint()  # several queries use it, and the topic is read once
            found = log.expected(observed)
            views |= {name: view for name, view in found.views.items() if name != "ledger" or name in wanted}
            one = Evidence(
                log.subject,
                found.expected,
                observed,
                log.bounds,
                log.positions,
                anywhere=anywhere or found.anywhere,
                source_partitions=dealt,
                unordered=found.unordered,
                unsaid=found.unsaid,
                state=found.state,
            )
        evidence.write(folder, replace(one, **views))


def needed(verify: Collection[str], subject: str) -> frozenset[str]:
    """Return the views that these verifiers need to judge a log; `progress` judges the history and needs none."""
    asked, role = (verifier for name, verifier in OF_LOGS.items() if name in verify), role_of(subject)
    return frozenset(view for verifier in asked if role in verifier.subjects for view in verifier.views)


def landed(spark: SparkSession, folder: Path, subject: str) -> DataFrame:
    """Load the observed rows; the schema is given, or Spark would read a file to find it."""
    return spark.read.schema(_schema(evidence.OBSERVED)).parquet(str(folder / subject / "observed"))


def _schema(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def _batches(spark: SparkSession, bootstrap: str, topic: str, bounds: Mapping[int, Bounds]) -> DataFrame:
    from chaos.cluster import protocol  # noqa: PLC0415 - Kafka's codec takes a tenth of a second, and an audit does without

    found = protocol.read_batches(bootstrap, topic, {partition: (ends.low, ends.hw) for partition, ends in bounds.items()})
    return arrow.made(spark, [one[: len(evidence.BATCHES)] for one in found], evidence.BATCHES)


def _open_transactions(spark: SparkSession, bootstrap: str, topic: str, bounds: Mapping[int, Bounds]) -> DataFrame:
    """Ask the brokers for open transactions, only of partitions that were not read to their ends."""
    from chaos.cluster import protocol  # noqa: PLC0415 - likewise

    return arrow.made(spark, list(protocol.open_below(bootstrap, topic, bounds)), evidence.OPEN_TRANSACTIONS)


def arrow_schema(columns: Mapping[str, str]) -> pa.Schema:
    """Return the Arrow schema of columns with SQL types."""
    return pa.schema([(name, _ARROW[kind]) for name, kind in columns.items()])


def _of_rows(spark: SparkSession, rows: Iterable[tuple[Any, ...]], columns: Mapping[str, str], place: Path) -> DataFrame:
    """Make a frame of rows by way of a file, so that a million of them need not be in memory at once."""
    schema = arrow_schema(columns)
    left = iter(rows)
    with parquet.ParquetWriter(place, schema) as writer:
        while some := list(islice(left, _ROWS_AT_ONCE)):
            arrays = [pa.array(column, field.type) for column, field in zip(zip(*some, strict=True), schema, strict=True)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
    return spark.read.schema(_schema(columns)).parquet(str(place))


# any folder or URL ---------------------------------------------------------------------------------------------------------


def exists(spark: SparkSession, place: str) -> bool:
    """Whether a folder or URL exists; Py4JJavaError if Hadoop has no file system for it."""
    files, path = _hadoop(spark, place)
    return bool(files.exists(path))


def is_local(spark: SparkSession, place: str) -> bool:
    """Whether a folder or URL is on this machine; Spark's configuration decides about one without a scheme."""
    files, _ = _hadoop(spark, place)
    return str(files.getUri().getScheme()) == "file"


def land_together(spark: SparkSession, writers: Mapping[str, Callable[[str], None]]) -> None:
    """Write folders or URLs at the same time, each by its writer: all of them, or none unless Spark is killed meanwhile.

    Two at once, because the three partitions of one topic keep two cores busy for only three quarters of the time.

    Raises:
        Exception: the first that a writer raised; the jobs of the others are cancelled.
    """
    with ExitStack() as undo:
        undo.callback(_remove, spark, writers)
        with ThreadPoolExecutor(len(writers)) as pool:
            futures = [pool.submit(write, place) for place, write in writers.items()]
            ended, broken_off = wait(futures, return_when=FIRST_EXCEPTION)
            if broken_off:
                _cancel(spark)
        for future in (*ended, *broken_off):  # the error of one that ended by itself is the reason for the others
            future.result()
        undo.pop_all()


def _remove(spark: SparkSession, places: Iterable[str]) -> None:
    """Delete folders until they stay away: a task of a failed job may go on for a moment, and make its folder again."""
    seen_gone = 0

    def stay_away() -> bool:
        nonlocal seen_gone
        there = [place for place in places if exists(spark, place)]
        for place in there:
            files, path = _hadoop(spark, place)
            files.delete(path, True)  # noqa: FBT003 - recursive; Java has no keyword arguments
        seen_gone = 0 if there else seen_gone + 1
        return seen_gone >= _GONE_TIMES

    with suppress(Py4JError, ConnectionError, DeadlineError):  # Spark may have been killed
        clock.wait_until(stay_away, within_s=_GONE_WITHIN_S, every_s=0.1, reason="the landed folders to stay away")


def _cancel(spark: SparkSession) -> None:
    with suppress(Py4JError, ConnectionError):
        spark.sparkContext.cancelAllJobs()


def _hadoop(spark: SparkSession, place: str) -> tuple[Any, Any]:
    """Return Hadoop's file system of a folder or URL, and its path there."""
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - PySpark has no other way to it
    path = jvm.org.apache.hadoop.fs.Path(place)
    return path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()), path  # noqa: SLF001
