"""Measure `chaos audit topics` on a standalone cluster of Spark: one core of it against two, and the memory of the driver.

    .venv/bin/python benchmarks/cluster.py [--records 1e7] [--layouts identity,recurring] [--states clean,dirty]
                                           [--cores 1,2] [--bound] [--rounds 2] [--folder DIR]

A master and a worker with two cores run on this machine. The logs are those of `audit_planted.py`. An audit is the whole
command, with the start of its JVM, and takes as many cores of the cluster as it is given (``spark.cores.max``). With --bound,
the worker and what it starts have as many processors of this machine: a task and its Python process take turns then, while they
would use two. The numbers of cores take turns. Times are medians, ratios are medians of the ratios within a turn, beside the
first number of cores. Memory is the peak of the driver alone, its Python process and its JVM (VmHWM), without the executors.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from audit_planted import RECURRING, plant
from figures import peak_mb, ratio

from chaos.cluster import addresses
from chaos.cluster.spark import Spark
from chaos.common import clock
from chaos.engine.runtimes import session_files
from chaos.install import artifacts
from chaos.runtime.local import LocalRuntime

_LOOK_S = 0.2
_WITHIN_S = 7200.0


@dataclass(slots=True)
class Measured:
    """Audits with one number of cores."""

    seconds: list[float] = field(default_factory=list)
    python_mb: float = 0.0
    jvm_mb: float = 0.0
    exits: set[int] = field(default_factory=set)


def main() -> None:
    """Measure each size, layout and state, and print a table for each."""
    words = _parsed()
    with _cluster() as spark:
        for records in words.records.split(","):
            for layout in words.layouts.split(","):
                for state in words.states.split(","):
                    _one(words, spark, int(float(records)), layout, state)


def _one(words: argparse.Namespace, spark: Spark, records: int, layout: str, state: str) -> None:
    folder = Path(tempfile.mkdtemp(prefix="cluster-", dir=words.folder or None))
    cores = [int(number) for number in words.cores.split(",")]
    measured = {number: Measured() for number in cores}
    try:
        plant(folder, records, layout, dirty=state == "dirty")
        for turn in range(words.rounds):
            for number in cores[:: -1 if turn % 2 else 1]:
                _bind(spark, number if words.bound else os.cpu_count() or 1)
                _audit(folder, spark, number, measured[number], "key" if layout == RECURRING else "dense-key")
    finally:
        shutil.rmtree(folder)
    _print(f"{records:.0e} {layout} {state}", measured)


def _bind(spark: Spark, processors: int) -> None:
    """Give the worker the last processors of this machine; each executor inherits them from the thread that starts it."""
    usable = sorted(os.sched_getaffinity(0))[-processors:]
    for worker in spark.workers.values():
        for thread in psutil.Process(worker.pid).threads():
            os.sched_setaffinity(thread.id, usable)


def _audit(folder: Path, spark: Spark, cores: int, measured: Measured, identity: str) -> None:
    settings = {
        "spark.cores.max": str(cores),
        "spark.executor.memory": "3g",
        "spark.driver.host": spark.driver_host,
        "spark.driver.bindAddress": spark.driver_host,
    }
    argv = [str(Path(sys.executable).with_name("chaos")), "audit", "topics", "--landed", str(folder)]
    argv += ["--identity", identity, "--model", "audit_ways:squared", "--spark-master", spark.master]
    argv += [word for name, value in settings.items() for word in ("--spark-conf", f"{name}={value}")]
    path = os.pathsep.join((str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")))
    began_s = clock.monotonic_s()
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, env=os.environ | {"PYTHONPATH": path}) as process:
        while process.poll() is None:
            _look(psutil.Process(process.pid), measured)
            if clock.monotonic_s() - began_s > _WITHIN_S:
                process.kill()
                sys.exit(f"the audit with {cores} cores did not end within {_WITHIN_S:.0f} s")
            with suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK_S)
    measured.seconds.append(clock.monotonic_s() - began_s)
    measured.exits.add(process.returncode)


def _look(process: psutil.Process, measured: Measured) -> None:
    """Remember the peaks of a driver: the command itself and the JVM that it started."""
    with suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
        measured.python_mb = max(measured.python_mb, peak_mb(process.pid))
        jvms = [one.pid for one in process.children(recursive=True) if one.name() == "java"]
        measured.jvm_mb = max(measured.jvm_mb, *map(peak_mb, jvms), 0.0)


@contextmanager
def _cluster() -> Iterator[Spark]:
    runtime, plan = LocalRuntime(session_files()), addresses.from_environment()
    runtime.check_free((plan.master, plan.master_page))
    with tempfile.TemporaryDirectory(prefix="cluster-") as folder:
        try:
            spark = Spark(runtime, artifacts.ensure(lambda line: print(line, file=sys.stderr)), plan, Path(folder), 1, "4g")
            spark.start()
            spark.wait_until_ready()
            yield spark
        finally:
            runtime.close()


def _print(title: str, measured: Mapping[int, Measured]) -> None:
    first = next(iter(measured.values()))
    print(f"\n{title:24} median s    ratio   driver: Python MB   JVM MB   exit code")
    for cores, one in measured.items():
        times = (statistics.median(one.seconds), ratio(one.seconds, first.seconds))
        ends = ", ".join(map(str, sorted(one.exits)))
        print(f"cores {cores:<18} {times[0]:8.1f} {times[1]:8.2f} {one.python_mb:20.0f} {one.jvm_mb:8.0f}   {ends}", flush=True)


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", default="1e7", help="of the source, several apart by commas")
    parser.add_argument("--layouts", default=f"identity,{RECURRING}")
    parser.add_argument("--states", default="clean,dirty")
    parser.add_argument("--cores", default="1,2")
    parser.add_argument("--bound", action="store_true", help="give the worker no more processors than cores")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--folder", default="", help="where logs are planted")
    return parser.parse_args()


if __name__ == "__main__":
    main()
