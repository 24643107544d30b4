"""Measure the cost of at most, at least and exactly once: throughput, latency, and what read_committed adds to it.

    .venv/bin/python benchmarks/guarantee.py [--ways writer,application,latency,as_it_comes,spark] [--guarantees …]
                                             [--intervals 10,100,1000] [--sizes 100,1000] [--partitions 1,3,9,27]
                                             [--workers 1,3,9] [--batches 4000,100000] [--crossed]
                                             [--rounds 5] [--seconds 2.5] [--page docs/cost.md] [--page-of FILE]

It starts one system of three brokers and measures all cells of a round one after the other (`guarantee_ways.py`); every second
round goes through them backwards. Ratios are between two cells of one round, so that a machine that becomes slower does so for
both. The first round is preceded by one cell of each way that does not count.

    writer        a bare producer (kafka-producer-perf-test): records per second
    application   pipelines/transactional with a backlog: records per second
    latency       the same application with a steady, moderate rate: from due to readable, and what read_committed adds
    as_it_comes   a producer that writes each record as it comes, and commits at an interval: what read_committed adds
    spark         pipelines/spark_square with a backlog, stock sink and exactly-once sink: records per second

One factor at a time is moved away from the base: exactly once, 100 ms, 100 B, 3 partitions of the sink in each transaction, 3
workers (`guarantee_cells.design`). Other guarantees are measured wherever exactly once is, at most once at fewer places.
``--crossed`` measures all combinations of what is chosen. All JVMs compile fully, as in production and not as in chaos runs.

What was measured is written as JSON, too, from which ``--page-of`` makes the page again, with its tables and its picture beside
it. The picture is made with matplotlib, on which the project depends anyway.
"""

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import guarantee_page
import psutil
from guarantee_cells import (
    APPLICATION,
    AS_IT_COMES,
    AT_LEAST,
    BASE,
    GUARANTEES,
    LATENCY,
    SPARK,
    WAYS,
    WRITER,
    Cell,
    Chosen,
    Latency,
    design,
)
from guarantee_ways import NUMBERS, NUMBERS_PARTITIONS, REPOSITORY, SOURCE_PARTITIONS, Bench

from chaos.common.clock import monotonic_s, now_utc
from chaos.engine.environment import Environment
from chaos.scenario.system import SystemSpec

_JVMS = {"_JAVA_OPTIONS": "-XX:TieredStopAtLevel=4"}  # the last word, over the options that let a JVM start quickly
_BACKLOG_BYTES = 200_000_000  # of each source
_NUMBERS = 3_000_000
_PACED_PER_S = 500.0
_WARM_S = 1.0
_INTERVALS = 4  # more than the seconds that are measured, where these are long
_SPARK_WARM_S, _SPARK_TIMES = 6.0, 3.0
_WRITER_WARM_S, _TRIAL_BYTES = 1.5, 10_000_000
_TRIAL_RECORDS = 5000  # of a batch
_LOOK_S, _QUIET = 3.0, 15  # percent

Measured = dict[Cell, list[float | Latency]]


def main() -> None:
    """Measure, and make the page; or make it of what was measured before."""
    words = _parsed()
    if words.page_of:
        said = json.loads(Path(words.page_of).read_text(encoding="utf-8"))
        guarantee_page.write(_read(said["measured"]), said["facts"], Path(words.page))
        return
    os.environ |= _JVMS
    measured: Measured = {cell: [] for cell in design(words.chosen)}
    before = psutil.cpu_percent(_LOOK_S)
    with tempfile.TemporaryDirectory(prefix="guarantee-") as folder:
        environment = Environment(Path(folder), _echo)
        try:
            bench = Bench(environment.system(SystemSpec()), Path(folder))
            facts = _facts(bench, words.rounds) | {"busy": _busy(before)}
            turns = _Turns(bench, words.seconds)
            for first in {cell.way: cell for cell in measured}.values():
                turns.measure(first)
            for number in range(words.rounds):
                _round(turns, measured, number)
                facts |= {"rounds": number + 1, "renewed": bench.renewed}
                _write(measured, facts, Path(words.json))  # so that a run that breaks off later is not lost
        finally:
            environment.close()
    facts |= {"busy": _busy(before, psutil.cpu_percent(_LOOK_S))}
    _write(measured, facts, Path(words.json))
    guarantee_page.write(measured, facts, Path(words.page))
    _echo(f"{words.page} is made of {words.json}")


def _round(turns: "_Turns", measured: Measured, number: int) -> None:
    for cell in list(measured)[:: -1 if number % 2 else 1]:
        began_s = monotonic_s()
        found = turns.measure(cell)
        measured[cell].append(found)
        _echo(f"round {number + 1}  {cell}  {found}  ({monotonic_s() - began_s:.0f} s)")


def _busy(*percent: float) -> str:
    """A sentence about the processors' load while this benchmark paused."""
    said = f"Other programs used {', then '.join(f'{one:.0f} %' for one in percent)} of the processors before and after."
    return said if max(percent) < _QUIET else f"{said} **This machine was not quiet: the figures are not to be relied on.**"


class _Turns:
    """Measures one cell after the other; what they read is written when it is first needed."""

    def __init__(self, bench: Bench, seconds: float) -> None:
        self._bench = bench
        self._seconds = seconds
        self._sources: set[str] = set()
        self._speeds: dict[tuple[str, int], float] = {}  # of a way, by the size of its records
        self._ways: dict[str, Callable[[Cell], float | Latency]] = {
            WRITER: self._writer,
            APPLICATION: self._application,
            LATENCY: lambda cell: bench.latency(cell, _PACED_PER_S, _WARM_S, seconds),
            AS_IT_COMES: lambda cell: bench.write_paced(cell, _PACED_PER_S, _WARM_S, seconds),
            SPARK: self._spark,
        }

    def measure(self, cell: Cell) -> float | Latency:
        return self._ways[cell.way](cell)

    def _writer(self, cell: Cell) -> float:
        """As many records as at least once writes in the time that is measured, after those of the time that warms it up."""
        if (WRITER, cell.size) not in self._speeds:
            usual = Cell(WRITER, AT_LEAST, size=cell.size)
            self._speeds[WRITER, cell.size] = self._written(usual, _TRIAL_BYTES // cell.size, _TRIAL_BYTES // cell.size)
        per_s = self._speeds[WRITER, cell.size]
        return self._written(cell, int(per_s * _WRITER_WARM_S), int(per_s * self._seconds))

    def _written(self, cell: Cell, warm_up: int, records: int) -> float:
        with self._bench.topic("written", cell.partitions) as topic:
            return self._bench.write(cell, topic, warm_up + records, warm_up)

    def _application(self, cell: Cell) -> float:
        """With batches of as many records as at least once delivers in an interval: reading is quicker than that."""
        source = self._source(f"source-{cell.size}", cell.size, _BACKLOG_BYTES // cell.size)
        seconds = self._seconds + _INTERVALS * cell.interval_ms / 1000
        if (APPLICATION, cell.size) not in self._speeds:
            usual = replace(BASE, guarantee=AT_LEAST, size=cell.size)
            per_s = self._bench.throughput(usual, source, _TRIAL_RECORDS, _WARM_S, self._seconds)
            self._speeds[APPLICATION, cell.size] = per_s
        batch_records = round(self._speeds[APPLICATION, cell.size] * cell.interval_ms / 1000 / cell.workers)
        return self._bench.throughput(cell, source, batch_records, _WARM_S, seconds)

    def _spark(self, cell: Cell) -> float:
        self._source(NUMBERS, 0, _NUMBERS, NUMBERS_PARTITIONS)
        return self._bench.spark(cell, _SPARK_WARM_S, _SPARK_TIMES * self._seconds)

    def _source(self, topic: str, size: int, records: int, partitions: int = SOURCE_PARTITIONS) -> str:
        """The topic, filled when it is first asked for."""
        if topic not in self._sources:
            self._sources.add(topic)
            self._bench.system.kafka.create([topic], partitions)
            per_s = self._bench.write(Cell(WRITER, AT_LEAST, size=size), topic, records)
            _echo(f"{topic} is filled, {per_s:,.0f} records/s")
        return topic


def _facts(bench: Bench, rounds: int) -> dict[str, Any]:
    """The facts of the page beside its figures."""
    cores, memory_gb = os.cpu_count(), psutil.virtual_memory().total / 1e9
    models = [
        line.partition(": ")[2] for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")
    ]
    versions = bench.system.versions()
    machine = f"{cores} cores ({', '.join(sorted(set(models)))}), {memory_gb:.0f} GB, Kafka {versions['kafka']}"
    chosen = re.sub(r" --(page|json)[ =]\S+", "", " ".join(("benchmarks/guarantee.py", *sys.argv[1:])))
    return {
        "command": chosen,
        "day": f"{now_utc():%Y-%m-%d}",
        "machine": machine,
        "cores": cores,
        "rounds": rounds,
        "paced": f"{_PACED_PER_S:.0f}",
    }


def _write(measured: Measured, facts: dict[str, Any], file: Path) -> None:
    said = {"facts": facts, "measured": [{"cell": asdict(cell), "values": values} for cell, values in measured.items()]}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(said, indent=1), encoding="utf-8")


def _read(said: list[dict[str, Any]]) -> Measured:
    def value(found: Any) -> float | Latency:
        return Latency(*found) if isinstance(found, list) else found

    return {Cell(**one["cell"]): [value(found) for found in one["values"]] for one in said}


def _echo(line: str) -> None:
    print(f"{now_utc():%H:%M:%S}  {line}", file=sys.stderr, flush=True)


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    whole, none = Chosen(), "several apart by commas"
    for name, known in (("ways", WAYS), ("guarantees", GUARANTEES)):
        parser.add_argument(f"--{name}", default=",".join(known), help=none)
    for name in ("intervals", "sizes", "partitions", "workers", "batches"):
        parser.add_argument(f"--{name}", default=",".join(map(str, getattr(whole, name))), help=none)
    parser.add_argument("--crossed", action="store_true", help="all combinations")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.5, help="that a cell is measured; Spark's three times as long")
    parser.add_argument("--page", default=str(REPOSITORY / "docs" / "cost.md"))
    parser.add_argument("--json", default=str(REPOSITORY / "runs" / f"{now_utc():%Y%m%dT%H%M%SZ}-guarantee.json"))
    parser.add_argument("--page-of", default="", help="what was measured before")
    words = parser.parse_args()
    texts = {name: tuple(getattr(words, name).split(",")) for name in ("ways", "guarantees")}
    numbers: dict[str, Any] = {
        name: tuple(int(one) for one in getattr(words, name).split(","))
        for name in ("intervals", "sizes", "partitions", "workers", "batches")
    }
    for name, known in (("ways", WAYS), ("guarantees", GUARANTEES)):
        if unknown := set(texts[name]) - set(known):
            parser.error(f"--{name}: {', '.join(sorted(unknown))}; known are {', '.join(known)}")
    words.chosen = replace(whole, **texts, **numbers, crossed=words.crossed)
    return words


if __name__ == "__main__":
    main()
