"""The auditor's own Spark, outside the fault domain, and how it lands topics as Parquet.

Offsets are fixed before anything is read: low, last stable offset and high watermark of every partition. A read_committed
read "to latest" would stop at the LSO and silently hide what was committed above an open transaction.
"""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from chaos.cluster import protocol
from chaos.cluster.kafka import Offsets
from chaos.install import class_archives
from chaos.install.artifacts import Parts
from pipelines.options import for_spark
from verifiers import VERIFIERS, evidence
from verifiers.base import Bounds, Evidence

_COMPILED_FROM = 200_000
_OBSERVED = (
    "partition",
    "offset",
    "unix_millis(timestamp) AS timestamp_ms",
    "CAST(key AS STRING) AS key",
    "CAST(value AS STRING) AS value",
)


def start(parts: Parts, scratch: Path) -> SparkSession:
    """A session that has judged already; arguments as of `session`."""
    spark = session(parts, scratch)
    _warm_up(spark, scratch)
    return spark


def session(parts: Parts, scratch: Path) -> SparkSession:
    """A local session with the Kafka connector.

    Args:
        scratch: for its temporary files.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("auditor")
        .config("spark.driver.extraClassPath", class_archives.extra_class_path(parts.connector_jars))
        .config(
            "spark.driver.extraJavaOptions", " ".join((*class_archives.options(parts.spark_cds), f"-Djava.io.tmpdir={scratch}"))
        )
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.local.dir", str(scratch))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
    )
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    suit(spark, records=1)
    return spark


def suit(spark: SparkSession, records: int) -> None:
    """Have queries compiled, where there are enough records for that to take less time than it saves."""
    compiled = records >= _COMPILED_FROM
    spark.conf.set("spark.sql.codegen.wholeStage", str(compiled).lower())
    spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK" if compiled else "NO_CODEGEN")


def _warm_up(spark: SparkSession, scratch: Path) -> None:
    """Judge one record, so that the first scenario does not pay for what every session has to load."""
    expected = spark.range(1).selectExpr("id", "0 AS partition", "'0' AS value", "true AS required", "id AS position")
    observed = spark.range(1).selectExpr("0 AS partition", "id AS offset", "id AS timestamp_ms", "'0' AS key", "'0' AS value")
    evidence.write(scratch, Evidence("warm-up", expected, observed, {0: Bounds(0, 1, 1)}, {0: 1}))
    landed = evidence.load(spark, scratch, "warm-up")
    for verifier in VERIFIERS.values():
        verifier.check(landed)


def land(  # noqa: PLR0913 - one argument for each thing that is judged
    spark: SparkSession,
    bootstrap: str,
    topic: str,
    offsets: Mapping[int, Offsets],
    expected: DataFrame,
    subject: str,
    folder: Path,
    positions: Mapping[int, int] | None = None,
    verify: Collection[str] = (),
    ledger: Path | None = None,
    isolation: str = "read_committed",
    options: Mapping[str, str] | None = None,
) -> None:
    """Write one topic, up to its fixed offsets, and what it must hold; of the costly views those that a verifier needs.

    Args:
        verify: names of the verifiers that will judge it.
        ledger: the writer's, CSV ``id,outcome,partition,offset``; None when there is none.
        isolation: of the reader whose view is judged; a read_uncommitted one reads up to HW.
        options: of Kafka's Java clients, TLS and SASL for example.

    Raises:
        InconclusiveError: its record batches cannot be read.
    """
    bounds = {partition: Bounds(ends.low, ends.lso, ends.hw) for partition, ends in offsets.items()}
    up_to = {"read_committed": bounds, "read_uncommitted": _up_to_hw(bounds)}

    def read(level: str, *, fail_on_loss: bool = True) -> DataFrame:
        return _read(reader(spark, bootstrap, options), topic, up_to[level], isolation=level, fail_on_loss=fail_on_loss)

    makers: Mapping[str, Callable[[], DataFrame]] = {
        "uncommitted": lambda: read("read_uncommitted"),
        "again": lambda: read(isolation, fail_on_loss=False),
        "batches": lambda: _batches(spark, bootstrap, topic, bounds),
        "ledger": lambda: spark.read.csv(str(ledger), header=True, schema=_schema(evidence.LEDGER)),
    }
    wanted = needed(verify, subject) - ({"ledger"} if ledger is None else set())
    views = {name: makers[name]() for name in sorted(wanted)}
    evidence.write(folder, Evidence(subject, expected, read(isolation), bounds, positions or {}, **views))


def part(reading: DataFrameReader, topic: str, bounds: Mapping[int, Bounds], isolation: str) -> Evidence:
    """What lies from low to LSO of a topic that still grows; nothing is expected of it."""
    rows = _read(reading, topic, bounds, isolation=isolation, fail_on_loss=True)
    return Evidence("sink", rows.limit(0), rows, bounds, {})


def reader(spark: SparkSession, bootstrap: str, options: Mapping[str, str] | None) -> DataFrameReader:
    """Of a cluster; options are those of Kafka's Java clients."""
    return spark.read.format("kafka").options(**for_spark(options or {})).option("kafka.bootstrap.servers", bootstrap)


def needed(verify: Collection[str], subject: str) -> frozenset[str]:
    """The views that these verifiers need to judge a log; `progress` judges the history and needs none."""
    asked = (VERIFIERS[name] for name in verify if name in VERIFIERS)
    return frozenset(view for verifier in asked if subject in verifier.subjects for view in verifier.views)


def landed(spark: SparkSession, folder: Path, subject: str) -> DataFrame:
    """What was observed, as it was landed; its columns are those of the contract, so nobody has to look first."""
    return spark.read.schema(_schema(evidence.OBSERVED)).parquet(str(folder / subject / "observed"))


def _schema(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def _up_to_hw(bounds: Mapping[int, Bounds]) -> Mapping[int, Bounds]:
    """The same, so that reading ends at the high watermark."""
    return {partition: replace(ends, lso=ends.hw) for partition, ends in bounds.items()}


def _batches(spark: SparkSession, bootstrap: str, topic: str, bounds: Mapping[int, Bounds]) -> DataFrame:
    found = protocol.read_batches(bootstrap, topic, {partition: (ends.low, ends.hw) for partition, ends in bounds.items()})
    return spark.createDataFrame(list(found), _schema(evidence.BATCHES))


def _read(
    reader: DataFrameReader,
    topic: str,
    bounds: Mapping[int, Bounds],
    *,
    isolation: str,
    fail_on_loss: bool,
) -> DataFrame:
    """From low to LSO.

    Args:
        fail_on_loss: whether offsets that are not there (any more) end the read; else they are left out.
    """
    return (
        reader.option("subscribe", topic)
        .option("groupIdPrefix", f"{topic}-audit")
        .option("startingOffsets", json.dumps({topic: {str(partition): ends.low for partition, ends in bounds.items()}}))
        .option("endingOffsets", json.dumps({topic: {str(partition): ends.lso for partition, ends in bounds.items()}}))
        .option("kafka.isolation.level", isolation)
        .option("kafka.fetch.max.wait.ms", "50")  # a fetch at the end of a log waits this long for nothing
        .option("failOnDataLoss", str(fail_on_loss).lower())
        .option("kafkaConsumer.pollTimeoutMs", "10000")
        .load()
        .selectExpr(*_OBSERVED)
    )
