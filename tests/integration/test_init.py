"""`chaos init` in a repository that has nothing but a pipeline: what it writes runs as it is, and breaks what it says."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.external import ROOT, environment

pytestmark = [pytest.mark.integration, pytest.mark.nightly, pytest.mark.timeout(1800)]

WITHIN_S = 1500
TOPICS = ("{bootstrap}", "{source}", "{sink}")
JOB = ("--kind", "spark-submit", "--application", "copy_topic.py", "--", *TOPICS, "{checkpoint}")
PROGRAM = ("--kind", "command", "--group", "copy-{suffix}", "--", sys.executable, "copy_topic.py", *TOPICS, "copy-{suffix}")


@pytest.fixture
def run(tmp_path, net):
    """Runs a program in that repository, as a user does; its system is none of this session."""
    shell = {name: value for name, value in environment(net).items() if not name.startswith(("PYTHON", "PYTEST"))}

    def ran(*command):
        argv = (str(Path(sys.executable).with_name(command[0])), *command[1:])
        done = subprocess.run(argv, capture_output=True, text=True, timeout=WITHIN_S, check=False, cwd=tmp_path, env=shell)
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr
        return done.stdout

    return ran


@pytest.mark.parametrize(
    ("example", "flags"),
    [
        pytest.param("spark_job", JOB, id="spark-submit"),
        pytest.param("command", PROGRAM, id="command"),
    ],
)
def test_what_it_writes_runs_as_it_is(run, tmp_path, example, flags):
    """The baseline, and the broker fault, which every producer that is not careless survives."""
    shutil.copy(ROOT / "examples" / example / "copy_topic.py", tmp_path)

    said = run("chaos", "init", *flags)
    assert "pytest -m chaos scenarios.yaml" in said
    assert "kill_broker leader(output, 0)" in run("chaos", "plan")
    run("pytest", "-m", "chaos", "scenarios.yaml", "-k", "baseline or sink-leader-killed", "-p", "no:cacheprovider")

    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(tmp_path.glob("runs/*/report.json"))]
    assert {(report["scenario"], report["verdict"]) for report in found} == {
        ("baseline", "VALID"),
        ("sink-leader-killed", "VALID"),
    }
