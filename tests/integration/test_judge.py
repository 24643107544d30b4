"""`chaos judge RUN`: a run that is over is judged again, alike, from its files; and what is wrong with them is said."""

import json
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree

import pyarrow.parquet as pq
import pytest

from chaos.common import clock
from chaos.scenario.system import SystemSpec
from tests.integration.conftest import jvm_of, with_our_pipelines
from verifiers.base import Verdict

ROOT = Path(__file__).parents[2]
CHAOS = str(Path(sys.executable).with_name("chaos"))
pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

QUIET = "{name: judged-again, title: Nothing is broken, pipeline: application, workload: {records: 2000, rate: 2000/s}}"


@pytest.fixture(scope="module")
def over(chaos_session):
    """The directory of a run that was VALID."""
    report = chaos_session.run(with_our_pipelines(QUIET), SystemSpec(), "pytest, that way", lambda _event: None).report
    report.write()
    assert report.verdict is Verdict.VALID
    return report.run_dir


@pytest.fixture
def run(over, tmp_path):
    """A copy, to be damaged."""
    return copytree(over, tmp_path / "run")


def command(run):
    """A shell's line."""
    return CHAOS, "judge", str(run)


def judged(run):
    """Its end: exit code, and what is said."""
    done = subprocess.run(command(run), capture_output=True, text=True, timeout=600, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def files(run):
    """All of them but those that Spark wrote, with their contents."""
    return {one.name: one.read_bytes() for one in run.iterdir() if one.is_file()}


def observed(run):
    """The files with what a reader of the sink saw."""
    return sorted((run / "evidence" / "sink" / "observed").glob("*.parquet"))


def test_it_comes_to_the_same(over):
    """Nothing that was found or said the first time is lost."""
    before, names = files(over), sorted(one.name for one in over.iterdir())

    code, told, _ = judged(over)

    assert code == 0, told
    assert "VALID: " in [line[:7] for line in told.splitlines()]  # the first, unless another process was fetching parts
    assert "Replay: pytest, that way" in told
    assert files(over) == before
    assert sorted(one.name for one in over.iterdir()) == names


def test_it_is_judged_from_what_was_landed(run):
    """A record less, in evidence of an earlier version that did not count its files: it is named."""
    bounds = run / "evidence" / "sink" / "bounds.json"
    bounds.write_text(json.dumps(json.loads(bounds.read_text(encoding="utf-8")) | {"files": None}), encoding="utf-8")
    file = observed(run)[0]
    rows = pq.read_table(file)
    pq.write_table(rows.slice(1), file)

    code, told, _ = judged(run)

    assert (code, f"id {rows['key'][0]}" in told) == (1, True)
    report = json.loads((run / "report.json").read_text(encoding="utf-8"))
    assert (report["verdict"], report["judged"]["gaps"], report["judged"]["duplicates"]) == ("INVALID", "INVALID", "VALID")


def test_a_file_that_was_lost_is_no_lost_record(run):
    """UNKNOWN; what was found before stays."""
    before, lost = files(run), observed(run)[0]
    lost.unlink()

    code, _, why = judged(run)

    assert (code, why.splitlines()[-1].split(" is not there, but was ")[0]) == (3, f"chaos: {lost}")
    assert files(run) == before
    assert list(run.glob("judge-*")) == []


@pytest.mark.parametrize("report", ["", pytest.param('{"replay": ', marks=pytest.mark.nightly)])
def test_a_report_that_was_lost_is_made_anew(run, report):
    """Only the line that repeats the run was nowhere else."""
    before = json.loads((run / "report.json").read_text(encoding="utf-8"))
    (run / "report.json").write_text(report, encoding="utf-8")

    code, told, _ = judged(run)

    assert (code, "Replay: unknown: " in told, "cannot be read" in told) == (0, True, True)
    after = json.loads((run / "report.json").read_text(encoding="utf-8"))
    assert {name for name in before if before[name] != after[name]} == {"replay", "run_dir"}


def test_a_folder_that_cannot_be_written(run):
    """It is said, and no exit code says INVALID."""
    (run / "findings.json").unlink()
    (run / "findings.json").mkdir()

    code, _, why = judged(run)

    assert (code, f"chaos: {run} cannot be written (Is a directory)" in why) == (3, True)


@contextmanager
def at_work(run):
    """A command whose JVM is at work, and that JVM."""
    with subprocess.Popen(command(run), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        clock.wait_until(lambda: list(run.glob("judge-*/blockmgr-*")), within_s=300, reason="Spark's files")
        yield process, jvm_of(process, run)


@pytest.mark.usefixtures("hears_ctrl_c")
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)])
def test_one_that_is_interrupted(run, number):
    """No exit code that is a verdict, no stack trace, nothing left, and what was found before stays."""
    before = files(run)
    with at_work(run) as (process, jvm):
        process.send_signal(number)
        _, why = process.communicate(timeout=300)
        jvm.wait(300)

    assert (process.returncode, "Traceback" in why) == (130, False)
    assert files(run) == before
    assert list(run.glob("judge-*")) == []


def test_spark_that_is_killed(run):
    """UNKNOWN, whatever it was doing, and none of its files is left."""
    with at_work(run) as (process, jvm):
        jvm.kill()
        _, why = process.communicate(timeout=300)

    assert (process.returncode, "Traceback" in why) == (3, False)
    assert list(run.glob("judge-*")) == []


@pytest.mark.usefixtures("over")
def test_its_python_workers_are_of_this_environment(chaos_session):
    """Not those of whatever python3 is on the path: PySpark refuses another version."""
    rows = chaos_session.spark().sparkContext.parallelize([0], 1)

    assert rows.map(lambda _: sys.prefix).collect() == [sys.prefix]
