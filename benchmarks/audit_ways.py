"""The ways that `audit.py` compares, each in a process of its own: it does its work once for each line it is sent.

    ours      `chaos audit topics`: duplicates, gaps, ordering and values
    keys      the same by any keys, `--identity key`; the only one besides scan for keys that are texts
    sql       the same by a query, `--expected-sql`, which gives each row a place
    state     the same by a query for the last value of each key, `--as-state`
    scan      Spark reads every column of both logs and adds them up: what no audit that reads them can beat
    bare      the same, as one would write it: Spark's and the consumer's defaults, not those of `ours`; from Kafka only
    shuffle   Spark as one would write it: groupBy for duplicates, anti-join for gaps, join for values, window and lag for order
    sets      a plain consumer and Python sets, as ducktape's `verify` does: duplicates and gaps only
    floor     Kafka's own ConsumerPerformance, which decodes nothing; from Kafka only
    transactions  `chaos audit transactions --rows-per-record 1`, without a model; from Kafka only, of a clean log
    except, datacompy, duckdb, pandas, library: `audit_others.py` describes them; duckdb and pandas read files only

Where there is a broker, Spark and the consumer read the topics; ours lands them as Parquet first, in its own time.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import audit_others
import pyarrow.parquet as pq
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from chaos.audit import dense_keys, identity, prepared, query, transactions
from chaos.audit import logs as audit_logs
from chaos.audit.judge import judge
from chaos.audit.logs import Topics
from chaos.common import clock
from chaos.install import artifacts
from chaos.judging import spark_session
from verifiers.base import Verdict
from verifiers.transactions.verifier import Transactions

SOURCE, SINK, GROUP = "bench-source", "bench-sink", "bench"
Counts = Mapping[str, int]
_COLUMNS = ("sum(partition)", "sum(offset)", "sum(octet_length(key))", "sum(octet_length(value))")
_AT_ONCE = 100_000
_SQUARE = "CAST(CAST(value AS BIGINT) * CAST(value AS BIGINT) AS STRING) AS value"
_SQUARES = f"SELECT key, {_SQUARE}, partition, offset FROM source"  # noqa: S608 - no input is in it
_LAST_SQUARES = f"SELECT key, {_SQUARE} FROM (SELECT key, max_by(value, offset) AS value FROM source GROUP BY key)"  # noqa: S608


def work(way: str, folder: Path, bootstrap: str) -> None:
    """Answer each line on standard input with seconds and counts; the first time is for warming up."""
    topics = Topics(bootstrap, (SOURCE,), (SINK,)) if bootstrap else None
    if way in _SPARKLESS:
        _answer(_sets_of_topics(bootstrap) if bootstrap and way == "sets" else _SPARKLESS[way](folder, bootstrap))
        return
    parts = artifacts.ensure(_say) if topics else None
    with spark_session.of_audit("local[2]", parts) as spark:
        _answer(_SPARK[way](spark, topics, folder))


def _say(line: str) -> None:
    sys.stderr.write(line)


def _answer(job: Callable[[], Counts]) -> None:
    for _ in sys.stdin:
        began_s = clock.monotonic_s()
        counts = job()
        sys.stdout.write(json.dumps({"seconds": clock.monotonic_s() - began_s, "counts": dict(counts)}) + "\n")
        sys.stdout.flush()


def _logs(spark: SparkSession, topics: Topics | None, folder: Path) -> tuple[DataFrame, DataFrame]:
    if topics is None:
        return spark.read.parquet(f"{folder}/source"), spark.read.parquet(f"{folder}/sink")
    fixed = audit_logs.fix(topics)
    return audit_logs.read(spark, topics, SOURCE, fixed.source), audit_logs.read(spark, topics, SINK, fixed.sink)


def squared(value: Column) -> Column:
    """The values of the sinks of `audit_planted`; computed as a long where it is one, which is quicker."""
    exact = value.cast("decimal(38, 0)")
    short = value.try_cast("bigint") if hasattr(Column, "try_cast") else F.when(F.abs(exact) < 1 << 31, exact.cast("bigint"))
    return F.coalesce(F.try_multiply(short, short).cast("string"), (exact * exact).cast("string"))


def _ours(
    spark: SparkSession,
    topics: Topics | None,
    folder: Path,
    asked: Callable[..., prepared.Prepared] = dense_keys.dense,
    but: str = "",
) -> Callable[[], Counts]:
    """Args: but: a verifier whose count is not that of the log, since it is asked about a part of it only."""

    def job() -> Counts:
        place, fixed = str(folder), None
        if topics is not None:
            place, fixed = tempfile.mkdtemp(prefix="bench-"), audit_logs.fix(topics)
            audit_logs.land(spark, topics, fixed, place)
        logs = audit_logs.landed(spark, place, fixed)
        findings = judge(logs, asked(logs, squared))
        if topics is not None:
            shutil.rmtree(place)
        return {finding.verifier: finding.count for finding in findings if finding.verifier != but}

    return job


def _scan(spark: SparkSession, topics: Topics | None, folder: Path) -> Callable[[], Counts]:
    def job() -> Counts:
        for log in _logs(spark, topics, folder):
            log.selectExpr(*_COLUMNS).collect()
        return {}

    return job


def _bare(spark: SparkSession, topics: Topics | None, _folder: Path) -> Callable[[], Counts]:
    if topics is None:
        sys.exit("bare: from Kafka only")
    spark.conf.set("spark.sql.sources.useV1SourceList", "avro,csv,json,kafka,orc,parquet,text")  # Spark's default
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", topics.bootstrap)
    reader = reader.option("kafka.isolation.level", "read_committed")

    def job() -> Counts:
        for topic in (SOURCE, SINK):
            texts = ("partition", "offset", "CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value")
            reader.option("subscribe", topic).load().selectExpr(*texts).selectExpr(*_COLUMNS).collect()
        return {}

    return job


def _shuffle(spark: SparkSession, topics: Topics | None, folder: Path) -> Callable[[], Counts]:
    def job() -> Counts:
        source, sink = _logs(spark, topics, folder)
        wanted = source.select(source["key"].cast("long").alias("id"), squared(source["value"]).alias("wanted"))
        there = sink.selectExpr("partition", "offset", "CAST(key AS BIGINT) AS id", "value")
        twice = there.groupBy("id").count().selectExpr("coalesce(sum(count - 1), 0)").collect()[0][0]
        missing = wanted.join(there, "id", "left_anti").count()
        wrong = there.join(wanted, "id", "left").where("NOT value <=> wanted").count()
        before = "lag(id) OVER (PARTITION BY partition, id % 3 ORDER BY offset) AS before"
        late = there.selectExpr("id", before).where("id < before").count()
        return {"duplicates": twice, "gaps": missing, "values": wrong, "lagging": late}

    return job


def _sets(folder: Path, _bootstrap: str) -> Callable[[], Counts]:
    def ids(log: str) -> Iterator[list[int]]:
        for path in sorted((folder / log).glob("*.parquet")):
            for batch in pq.ParquetFile(path).iter_batches(_AT_ONCE, columns=["key"]):
                yield [int(key) for key in batch.column(0).to_pylist()]

    return lambda: _compared(ids("source"), ids("sink"))


def _sets_of_topics(bootstrap: str) -> Callable[[], Counts]:
    def ids(topic: str) -> Iterator[list[int]]:
        settings = {"bootstrap.servers": bootstrap, "group.id": "bench", "isolation.level": "read_committed"}
        tuned = {"queued.max.messages.kbytes": 200_000, "fetch.message.max.bytes": 16 << 20, "enable.partition.eof": True}
        with closing(Consumer(settings | tuned)) as consumer:
            partitions = list(consumer.list_topics(topic, timeout=10).topics[topic].partitions)
            consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
            ended = 0
            while ended < len(partitions):
                found: list[Any] = consumer.consume(10_000, 1.0)
                ended += sum(message.error() is not None for message in found)
                yield [int(message.key()) for message in found if message.error() is None]

    return lambda: _compared(ids(SOURCE), ids(SINK))


def _compared(source: Iterator[list[int]], sink: Iterator[list[int]]) -> Counts:
    wanted = {id_ for ids in source for id_ in ids}
    got = [id_ for ids in sink for id_ in ids]
    there = set(got)
    return {"duplicates": len(got) - len(there), "gaps": len(wanted - there)}


def _floor(_folder: Path, bootstrap: str) -> Callable[[], Counts]:
    parts = artifacts.ensure(_say)

    def read(topic: str) -> int:
        with closing(Consumer({"bootstrap.servers": bootstrap, "group.id": "bench"})) as consumer:
            partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
            records = sum(consumer.get_watermark_offsets(TopicPartition(topic, number))[1] for number in partitions)
        java = (str(parts.java), "-cp", parts.tools_class_path, "org.apache.kafka.tools.ConsumerPerformance")
        words = ("--bootstrap-server", bootstrap, "--topic", topic, "--messages", str(records), "--timeout", "20000")
        done = subprocess.run((*java, *words), capture_output=True, text=True, timeout=600, check=True)
        return done.returncode

    return lambda: {"exit": read(SOURCE) + read(SINK)}


def _transactions(_folder: Path, bootstrap: str) -> Callable[[], Counts]:
    asked = Topics(bootstrap, (SOURCE,), (SINK,), GROUP)
    verifier = Transactions(transactions.rows_per_record("1"), frozenset({SINK}))

    def job() -> Counts:
        finding, records = transactions.audit(asked, verifier, "", "")
        if finding.verdict is not Verdict.VALID:
            sys.exit(f"{finding.verdict.name}: {finding.note}")
        return {"records": records, "checked": finding.checked, "anomalies": finding.count}

    return job


def _of_frames(
    ask: Callable[[DataFrame, DataFrame, audit_others.Model], Counts], spark: SparkSession, topics: Topics | None, folder: Path
) -> Callable[[], Counts]:
    return lambda: ask(*_logs(spark, topics, folder), squared)


def _by_query(logs: audit_logs.Logs, _model: identity.Model, sql: str, *, state: bool) -> prepared.Prepared:
    return query.by_model(logs, query.model(sql, state=state), anywhere=False)


_SPARK: Mapping[str, Callable[..., Callable[[], Counts]]] = {
    "ours": _ours,
    "keys": partial(_ours, asked=prepared.by_key),
    "sql": partial(_ours, asked=partial(_by_query, sql=_SQUARES, state=False)),
    "state": partial(_ours, asked=partial(_by_query, sql=_LAST_SQUARES, state=True), but="duplicates"),
    "scan": _scan,
    "bare": _bare,
    "shuffle": _shuffle,
    **{way: partial(_of_frames, ask) for way, ask in audit_others.OF_FRAMES.items()},
}
_SPARKLESS = {"sets": _sets, "floor": _floor, "transactions": _transactions, **audit_others.OF_FILES}
