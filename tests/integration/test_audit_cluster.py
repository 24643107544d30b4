"""An audit on a standalone cluster of Spark: two workers on loopback, each with an executor of its own.

The findings are those of a local audit, even if executors are killed in the middle. A driver that is killed leaves nothing.
"""

import json
import os
import random
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
import requests
from pyarrow import parquet

from chaos.cluster.addresses import Addresses
from chaos.cluster.spark import Spark
from chaos.common import clock
from chaos.engine.runtimes import session_files
from chaos.install import artifacts
from chaos.runtime.local import LocalRuntime
from tests.integration.conftest import jvm_of

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]

CHAOS = str(Path(sys.executable).with_name("chaos"))
RECORDS = 30_000
# `chaos audit` that prints a line before it judges, and goes on when it reads one
STOPS = """
import sys
from chaos.audit import prepared
from chaos.audit import identity, topics
from chaos.cli import main
from verifiers.single_scan.groups import Limits

judge, limits = topics.judge, Limits(small_rows=10, driver_rows=0, chunk_bits=2)

def when_told(*asked):
    print("prepared", flush=True)
    sys.stdin.readline()
    return judge(*asked)

identity._DEFAULT = limits  # executors compare the logs, and hold the rows of doubtful keys
prepared.by_key.__kwdefaults__["limits"] = limits
topics.judge = when_told
main.main()
"""


@pytest.fixture(scope="module")
def cluster(net, tmp_path_factory):
    """A master and two workers."""
    runtime, addresses = LocalRuntime(session_files()), Addresses(net)
    runtime.check_free((addresses.master, addresses.master_page))
    try:
        spark = Spark(runtime, artifacts.ensure(print), addresses, tmp_path_factory.mktemp("cluster"), 2)
        spark.start()
        spark.wait_until_ready()
        yield spark
    finally:
        runtime.close()


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """Keys that recur, and a sink with records lost, there again, wrong and in each other's place."""
    folder, rng = tmp_path_factory.mktemp("logs"), random.Random(7)
    source = [(number % 3, f"k{number % 5000}", str(number)) for number in range(RECORDS)]
    sink = list(source)
    for at in sorted(rng.sample(range(100, RECORDS - 100), 60), reverse=True):
        match rng.randrange(4):
            case 0:
                del sink[at]
            case 1:
                sink.insert(at + 50, sink[at])
            case 2:
                sink[at] = (*sink[at][:2], "wrong")
            case 3:
                sink[at], sink[at + 3] = sink[at + 3], sink[at]
    for name, rows in (("source", source), ("sink", sink)):
        (folder / name).mkdir()
        for partition in range(3):
            own = [(offset + offset // 500, *row[1:]) for offset, row in enumerate(one for one in rows if one[0] == partition)]
            offsets, keys, values = zip(*own, strict=True)
            columns = {
                "partition": pa.array([partition] * len(own), pa.int32()),
                "offset": pa.array(offsets, pa.int64()),
                "key": pa.array(keys),
                "value": pa.array(values),
            }
            parquet.write_table(pa.table(columns), folder / name / f"{partition}.parquet", row_group_size=2000)
    return folder


def words(logs, master, *more):
    """Those of an audit whose report goes to standard output."""
    model = () if "--expected-sql" in more else ("--model", "identity")
    return ["audit", "topics", "--landed", str(logs), *model, "--json", "-", "--spark-master", master, *more]


def on_cluster(cluster):
    """The settings with which it runs there: executors for tasks of both workers, of their size."""
    return (
        cluster.master,
        *("--spark-conf", f"spark.driver.host={cluster.driver_host}"),
        *("--spark-conf", f"spark.driver.bindAddress={cluster.driver_host}"),
        *("--spark-conf", "spark.executor.memory=700m"),
    )


def audited(logs, *more):
    """Exit code and findings."""
    done = subprocess.run([CHAOS, *words(logs, *more)], capture_output=True, text=True, timeout=1500, check=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)["findings"]


@contextmanager
def prepared(logs, cluster, tmp_path, *more):
    """An audit that waits to be told to judge; its temporary files are in a folder of their own."""
    (tmp_path / "stops.py").write_text(STOPS, encoding="utf-8")
    argv = [sys.executable, str(tmp_path / "stops.py"), *words(logs, *on_cluster(cluster), *more)]
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    env = os.environ | {"TMPDIR": str(scratch)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(argv, text=True, env=env, **pipes) as process:
        try:
            assert process.stdout.readline() == "prepared\n", process.stderr.read()
            yield process, scratch
        finally:
            process.kill()


def nothing_runs(cluster):
    """No application, and no executor."""
    clock.wait_until(
        lambda: not cluster.applications() and not cluster.executors(),
        within_s=300,
        reason="the application to be gone",
        ignore=(requests.RequestException, psutil.NoSuchProcess),
    )


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(("--identity", "key"), id="keys"),
        pytest.param(("--identity", "key", "--routing", "any"), id="anywhere", marks=pytest.mark.nightly),
        pytest.param(
            ("--expected-sql", "SELECT key, value, partition, offset FROM source"), id="query", marks=pytest.mark.nightly
        ),
        pytest.param(
            ("--expected-sql", "SELECT key, max(value) AS value FROM source GROUP BY key", "--as-state"),
            id="state",
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_the_findings_are_those_of_a_local_audit(cluster, logs, more):
    """To the letter, whatever the cluster computes in which order."""
    there, local = audited(logs, *on_cluster(cluster), *more), audited(logs, "local[2]", *more)

    assert there == local
    assert there[0] == 1
    nothing_runs(cluster)


@pytest.mark.nightly
def test_executors_that_are_killed_change_nothing(cluster, logs, tmp_path):
    """What they held is computed again; they held the rows of doubtful keys."""
    _, expected = audited(logs, "local[2]", "--identity", "key")

    with prepared(logs, cluster, tmp_path, "--identity", "key") as (process, _):
        before = cluster.executors()
        for executor in before:
            executor.process.kill()
        out, _ = process.communicate("go on\n", timeout=1500)

    assert len(before) == 2
    assert (process.returncode, json.loads(out)["findings"]) == (1, expected)
    nothing_runs(cluster)


@pytest.mark.nightly
def test_a_driver_that_is_killed_leaves_nothing(cluster, logs, tmp_path):
    """One line, UNKNOWN; no application, no executor, and no file."""
    with prepared(logs, cluster, tmp_path, "--identity", "key") as (process, scratch):
        jvm_of(process, scratch).kill()
        out, err = process.communicate("go on\n", timeout=600)

    report = json.loads(out)
    assert (process.returncode, report["verdict"]) == (3, "UNKNOWN")
    assert "its JVM has ended" in report["problem"]
    assert err.splitlines() == [f"UNKNOWN: {report['problem']}"]
    assert list(scratch.iterdir()) == []
    nothing_runs(cluster)
