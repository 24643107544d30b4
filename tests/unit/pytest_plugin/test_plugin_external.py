"""`--chaos-runtime external`: what is missing, wrong or impossible is reported before anything is started."""

import os
import subprocess
import sys

import pytest

from tests.unit.wording import named

SCENARIOS = """\
version: 2
scenarios:
  - name: possible
    title: Possible
    tags: [smoke]
    pipeline: {kind: command, run: [app], group: "{prefix}g", reads: [datasource], sink: {topic: datasink}}
  - name: impossible
    title: Impossible
    pipeline: {kind: spark_submit, application: job.py, arguments: ["{checkpoint}"], ROUTE}
    faults:
      - {kind: crash_master, when: {after: 1s}}
topics: {datasource: {partitions: 3}, datasink: {partitions: 3}}
""".replace("ROUTE", "reads: [datasource], sink: {topic: datasink}")
EXTERNAL = "version: 1\nbootstrap: [127.0.0.1:9]\nprefix: chaos-a-\n"


@pytest.fixture
def run_pytest(tmp_path):
    """Runs pytest in a user's repository."""

    def run(external, *arguments):
        (tmp_path / "scenarios.yaml").write_text(SCENARIOS, encoding="utf-8")
        (tmp_path / "job.py").touch()
        (tmp_path / "external.yaml").write_text(external, encoding="utf-8")
        (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n", encoding="utf-8")
        command = (sys.executable, "-m", "pytest", "--chaos-runtime", "external", *arguments)
        environment = {**os.environ, "CHAOS_CACHE": str(tmp_path / "cache")}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=280, check=False)

    return run


def test_a_system_must_be_declared(run_pytest):
    """The runtime alone does not say where the system is."""
    answer = run_pytest(EXTERNAL, "-m", "chaos")

    assert answer.returncode == 4
    named(answer.stderr.strip(), "--chaos-runtime external", "--chaos-external FILE")


def test_a_wrong_declaration_is_told_with_its_place(run_pytest):
    """The message has file, line and column, as for a wrong scenarios file."""
    answer = run_pytest(EXTERNAL.replace("prefix", "prefx"), "-m", "chaos", "--chaos-external", "external.yaml")

    assert answer.returncode == 4
    assert "external.yaml:3:1: 'prefx' is not known here (did you mean prefix?)" in answer.stderr


def test_what_was_selected_and_cannot_be_done_is_refused(run_pytest):
    """It is never skipped: nothing runs, and the message has the reason and the place."""
    answer = run_pytest(EXTERNAL, "-m", "chaos", "--chaos-external", "external.yaml")

    assert answer.returncode == 4
    assert "scenarios.yaml:11:16: impossible: crash_master needs the processes of Spark's master" in answer.stderr
    assert "passed" not in answer.stdout


def test_what_was_not_selected_does_not_matter(run_pytest):
    """One scenarios file serves every runtime."""
    answer = run_pytest(EXTERNAL, "-m", "chaos and smoke", "--chaos-external", "external.yaml", "--collect-only", "-q")

    assert answer.returncode == 0
    assert answer.stdout.split()[0] == "scenarios.yaml::test_scenario[possible]"
