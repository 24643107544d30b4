"""The conftest.py of this repository loads the plugin where the package is not installed, or says in a line what is missing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.wording import keep

ROOT = Path(__file__).parents[3]
SCENARIO = "pipeline: {kind: command, run: [app], group: g, reads: [datasource], sink: {topic: datasink}}"
FILE = f"""\
version: 2
topics: {{datasource: {{}}, datasink: {{}}}}
scenarios:
  - {{name: first, title: First, {SCENARIO}}}
"""
NOT_INSTALLED = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""No entry point is read, as where there is none."""


@pytest.fixture
def clone(tmp_path):
    """A clone of this repository with one scenario; runs pytest there."""
    shutil.copy(ROOT / "conftest.py", tmp_path)
    for package in ("chaos", "verifiers"):
        (tmp_path / package).symlink_to(ROOT / package)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n", encoding="utf-8")
    (tmp_path / "scenarios.yaml").write_text(FILE, encoding="utf-8")

    def run(*arguments, path="", **environment):
        of_process = {**os.environ, "CHAOS_CACHE": str(tmp_path / "cache"), "PYTHONPATH": path, **environment}
        command = (sys.executable, "-m", "pytest", "-q", "--collect-only", *arguments)
        return subprocess.run(command, cwd=tmp_path, env=of_process, capture_output=True, text=True, timeout=600, check=False)

    return run


def test_scenarios_are_found_in_a_clone_that_is_not_installed(clone):
    """With the options and the marks, and still only where `-m chaos` is typed."""
    asked = clone("-m", "chaos", "--chaos-repeat", "2", **NOT_INSTALLED)
    plain = clone(**NOT_INSTALLED)

    assert "scenarios.yaml::test_scenario[first#2]" in asked.stdout, asked.stdout + asked.stderr
    assert asked.returncode == 0
    assert (plain.returncode, "test_scenario" in plain.stdout) == (5, False)


def test_an_installed_plugin_is_not_loaded_twice(clone):
    """It has loaded itself by then."""
    answer = clone("-m", "chaos")

    assert "scenarios.yaml::test_scenario[first]" in answer.stdout, answer.stdout + answer.stderr


@pytest.mark.parametrize("missing", ["pydantic", "confluent_kafka"])
def test_what_is_missing_is_said_in_one_line(clone, tmp_path, missing):
    """With the reason and the mend, and without a stack trace."""
    (tmp_path / "lacking").mkdir()
    error = f"No module named {missing!r}"
    (tmp_path / "lacking" / f"{missing}.py").write_text(f"raise ImportError({error!r})", encoding="utf-8")

    answer = clone("-m", "chaos", path=str(tmp_path / "lacking"), **NOT_INSTALLED)
    said = answer.stdout + answer.stderr

    (told,) = {line for line in said.splitlines() if f"(No module named {missing!r})" in line}
    assert "pip install -e ." in keep(told)
    assert "Traceback" not in said
    assert answer.returncode not in (0, 1)


def test_the_plugin_can_be_switched_off(clone):
    """As any other plugin."""
    answer = clone("-p", "no:chaos", "-m", "chaos", **NOT_INSTALLED)

    assert (answer.returncode, "test_scenario" in answer.stdout) == (5, False)
