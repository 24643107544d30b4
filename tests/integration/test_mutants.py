"""The sink broken on purpose: the scenario that aims at its window must turn INVALID."""

import shutil
from pathlib import Path

import pytest

import pipelines
from chaos.scenario.load import load
from pipelines.spark_square.pipeline import SparkSquare
from verifiers.base import Verdict

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

SCENARIO = "executors-crashed-after-commit"
FROM_COMMITTED = "chain([first], rows), committed.offset)"


@pytest.fixture
def mutant(tmp_path):
    """Make the pipeline with one line of its sink replaced, in a copy of the package."""

    def make(line, replacement):
        home = tmp_path / "mutant"
        shutil.copytree(Path(pipelines.__file__).parent, home / "pipelines")
        sink = home / "pipelines" / "spark_square" / "sink.py"
        text = sink.read_text(encoding="utf-8")
        assert text.count(line) == 1, "the sink has changed: choose another line to break"
        sink.write_text(text.replace(line, replacement), encoding="utf-8")
        return lambda delivery, batch_records: SparkSquare(delivery, batch_records, home)

    return make


def test_a_sink_that_does_not_ask_what_was_committed_is_caught(chaos_session, mutant):
    """Algorithm A without its third step: executors die after the commit, and the rows are written again."""
    file = load(ROOT / "scenarios.yaml")
    square = mutant(FROM_COMMITTED, "chain([first], rows), 0)")

    report = chaos_session.run(file.scenario(SCENARIO), file.system, "", lambda _event: None, square).report

    assert report.problems == ()
    assert report.verdict is Verdict.INVALID
    assert report.judged["duplicates"] is Verdict.INVALID
    assert report.judged["gaps"] is Verdict.VALID
