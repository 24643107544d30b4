"""The sink broken on purpose: the scenario that aims at its window must turn INVALID."""

import shutil
from pathlib import Path

import pytest

from chaos.scenario.load import load
from verifiers.base import Verdict

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.integration, pytest.mark.nightly, pytest.mark.timeout(900)]

SCENARIO = "executors-crashed-after-commit"
FROM_COMMITTED = "chain([first], rows), committed.offset)"


@pytest.fixture
def mutant(tmp_path):
    """Make a copy of the project's scenarios and pipelines, with one line of the sink replaced."""

    def make(line, replacement):
        home = tmp_path / "mutant"
        for folder in ("pipelines", "examples"):
            shutil.copytree(ROOT / folder, home / folder)
        shutil.copy(ROOT / "scenarios.yaml", home)
        sink = home / "pipelines" / "spark_square" / "sink.py"
        text = sink.read_text(encoding="utf-8")
        assert text.count(line) == 1, "the sink has changed: choose another line to break"
        sink.write_text(text.replace(line, replacement), encoding="utf-8")
        return load(home / "scenarios.yaml")

    return make


def test_a_sink_that_does_not_ask_what_was_committed_is_caught(chaos_session, mutant):
    """Algorithm A without its third step: executors die after the commit, and the rows are written again."""
    file = mutant(FROM_COMMITTED, "chain([first], rows), 0)")

    report = chaos_session.run(file.scenario(SCENARIO), file.system, "", lambda _event: None).report

    assert report.problems == ()
    assert report.verdict is Verdict.INVALID
    assert report.judged["duplicates"] is Verdict.INVALID
    assert report.judged["gaps"] is Verdict.VALID
