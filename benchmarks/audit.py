"""Measure the cost of an audit beside a bare scan, the audit that one would write first, and Python sets.

    .venv/bin/python benchmarks/audit.py [--records 1e6] [--rounds 4] [--layouts identity,scattered,recurring]
                                         [--states clean,dirty] [--kafka] [--folder DIR]
                                         [--ways ours,keys,sql,state,scan,bare,shuffle,sets,floor,transactions,
                                                 library,except,datacompy,duckdb,pandas]

The ways (`audit_ways.py`) take turns within one run, so that a machine that becomes slower does so for all of them. Each is a
process of its own, so that its peak memory (VmHWM of it and of its JVM) can be told. The first turn of each warms it up and
does not count. Times are medians, ratios are medians of the ratios within a turn; processor time is what a busy machine
disturbs least. Records are those of both logs. ``!!`` marks counts that are not what was planted (`audit_planted.py`).
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
from audit_planted import LAYOUTS, PARTITIONS, RECURRING, plant
from audit_ways import GROUP, SINK, SOURCE, work
from confluent_kafka import Consumer, Producer, TopicPartition
from figures import peak_mb, ratio
from pyspark.sql import SparkSession

from chaos.engine.environment import Environment
from chaos.engine.session import Session
from chaos.judging import spark_session
from chaos.scenario.system import SystemSpec

_WAYS = "ours,scan,shuffle,sets"
_FROM_KAFKA = "ours,scan,bare,sets,floor"
_OF_TEXTS = "keys,scan"
_COPIED = 5000  # records of one transaction


@dataclass(slots=True)
class Measured:
    """One way on one pair of logs."""

    seconds: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    peak_mb: float = 0.0


def main() -> None:
    """Measure each size, layout and state, and print a table for each."""
    words = _parsed()
    if words.worker:
        work(words.worker, Path(words.folder), words.bootstrap)
        return
    with ExitStack() as stack:
        session = stack.enter_context(_system()) if words.kafka else None
        bootstrap = session.system(SystemSpec()).kafka.bootstrap if session else ""
        for records in words.records.split(","):
            for layout in words.layouts.split(","):
                for state in words.states.split(","):
                    _one(words, int(float(records)), layout, state, bootstrap, session)


def _one(words: argparse.Namespace, records: int, layout: str, state: str, bootstrap: str, session: Session | None) -> None:
    folder = Path(tempfile.mkdtemp(prefix="audit-", dir=words.folder or None))
    try:
        truth = plant(folder, records, layout, dirty=state == "dirty")
        ways = (words.ways or (_OF_TEXTS if layout == RECURRING else _FROM_KAFKA if bootstrap else _WAYS)).split(",")
        if session is not None:
            _fill(session, folder, bootstrap, transactional="transactions" in ways)
        _print(f"{records:.0e} {layout} {state}", _measure(ways, folder, bootstrap, words.rounds), truth, 2 * records)
    finally:
        shutil.rmtree(folder)


def _measure(ways: Sequence[str], folder: Path, bootstrap: str, rounds: int) -> dict[str, Measured]:
    """Every second turn goes through the ways backwards."""
    measured = {way: Measured() for way in ways}
    with ExitStack() as stack:
        workers = {way: stack.enter_context(_worker(way, folder, bootstrap)) for way in ways}
        for turn in range(rounds + 1):
            for way in ways[:: -1 if turn % 2 else 1]:
                before = _cpu_s(workers[way].pid)
                said = _turn(workers[way])
                measured[way].cpu_s.append(_cpu_s(workers[way].pid) - before)
                measured[way].seconds.append(said["seconds"])
                measured[way].counts = said["counts"]
        for way, worker in workers.items():
            measured[way].peak_mb = _peak_mb(worker.pid)
    for one in measured.values():
        del one.seconds[: 1 if rounds else 0], one.cpu_s[: 1 if rounds else 0]
    return measured


@contextmanager
def _worker(way: str, folder: Path, bootstrap: str) -> Iterator[subprocess.Popen[str]]:
    argv = (sys.executable, __file__, "--worker", way, "--folder", str(folder), "--bootstrap", bootstrap)
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.communicate()


def _turn(worker: subprocess.Popen[str]) -> dict[str, Any]:
    if worker.stdin is None or worker.stdout is None:
        sys.exit("a worker without pipes")
    worker.stdin.write("go\n")
    worker.stdin.flush()
    line = worker.stdout.readline()
    if not line:
        sys.exit(f"a worker ended:\n{worker.stderr.read()[-3000:] if worker.stderr else ''}")
    said: dict[str, Any] = json.loads(line)
    return said


def _cpu_s(pid: int) -> float:
    """Processor seconds of a process and its children; floor's JVM is among them only once it has ended."""
    process = psutil.Process(pid)
    times = [one.cpu_times() for one in (process, *process.children(recursive=True))]
    return sum(one.user + one.system for one in times) + times[0].children_user + times[0].children_system


def _peak_mb(pid: int) -> float:
    """Memory of a process and its children, each at its own peak."""
    process = psutil.Process(pid)
    return sum(peak_mb(one.pid) for one in (process, *process.children(recursive=True)))


@contextmanager
def _system() -> Iterator[Session]:
    with tempfile.TemporaryDirectory() as runs:
        session = Session(Environment(Path(runs), lambda line: print(line, file=sys.stderr)), 0)
        try:
            yield session
        finally:
            session.close()


def _fill(session: Session, folder: Path, bootstrap: str, *, transactional: bool) -> None:
    """Both topics anew, each record in its partition, in the order of its offsets.

    Args:
        transactional: whether the sink is written in transactions, with the positions of a group.
    """
    kafka = session.system(SystemSpec()).kafka
    kafka.delete([SOURCE, SINK])
    kafka.create([SOURCE, SINK], PARTITIONS)
    spark = session.spark()
    spark_session.suit(spark, records=10**7)
    _produce(spark, folder / "source", SOURCE, bootstrap)
    if transactional:
        _copy(folder / "sink", bootstrap)
    else:
        _produce(spark, folder / "sink", SINK, bootstrap)


def _copy(log: Path, bootstrap: str) -> None:
    """A clean sink, as an application writes it that reads, answers and commits some thousand records at a time."""
    settings = {"bootstrap.servers": bootstrap}
    producer = Producer({**settings, "transactional.id": GROUP, "linger.ms": 5, "queue.buffering.max.messages": 10 * _COPIED})
    member = Consumer({**settings, "group.id": GROUP}).consumer_group_metadata()
    producer.init_transactions(60)
    for part in range(PARTITIONS):
        position = 0
        for path in sorted(log.glob(f"{part}-*.parquet")):
            for batch in pq.ParquetFile(path).iter_batches(_COPIED, columns=["key", "value"]):
                producer.begin_transaction()
                for key, value in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    producer.produce(SINK, value, key, part)
                producer.flush()
                position += len(batch)
                producer.send_offsets_to_transaction([TopicPartition(SOURCE, part, position)], member, 60)
                producer.commit_transaction(60)


def _produce(spark: SparkSession, log: Path, topic: str, bootstrap: str) -> None:
    for part in range(PARTITIONS):
        rows = spark.read.parquet(str(log)).where(f"partition = {part}").coalesce(1).sortWithinPartitions("offset")
        writer = rows.select("partition", "key", "value").write.format("kafka").option("kafka.enable.idempotence", "true")
        writer.option("kafka.bootstrap.servers", bootstrap).option("topic", topic).mode("append").save()


def _print(title: str, measured: dict[str, Measured], truth: Counter[str], records: int) -> None:
    beside = next((way for way in ("bare", "scan") if way in measured), next(iter(measured)))
    scan, of = measured[beside], f"of {beside}"
    print(f"\n{title:24} median s   best s  records/s {of:>8}    CPU s {of:>8}  peak MB  found")
    for way, one in measured.items():
        times = (statistics.median(one.seconds), min(one.seconds), records / statistics.median(one.seconds))
        ratios = (ratio(one.seconds, scan.seconds), statistics.median(one.cpu_s), ratio(one.cpu_s, scan.cpu_s))
        wrong = any(one.counts.get(name, truth[name]) != truth[name] for name in ("duplicates", "gaps", "values"))
        found = " ".join(f"{name} {count}" for name, count in one.counts.items()) + (" !!" if wrong else "")
        figures = f"{times[0]:8.2f} {times[1]:8.2f} {times[2]:10.0f} {ratios[0]:8.2f} {ratios[1]:8.2f} {ratios[2]:8.2f}"
        print(f"{way:24} {figures} {one.peak_mb:8.0f}  {found}", flush=True)


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", default="1e6", help="of the source, several apart by commas")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--layouts", default=",".join(LAYOUTS))
    parser.add_argument("--states", default="clean,dirty")
    parser.add_argument("--ways", default="", help=f"{_WAYS}; or, with --kafka, {_FROM_KAFKA}")
    parser.add_argument("--kafka", action="store_true", help="boot a system, fill topics, and read those")
    parser.add_argument("--folder", default="", help="where logs are planted")
    parser.add_argument("--worker", default="", help=argparse.SUPPRESS)
    parser.add_argument("--bootstrap", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
