"""A fault's line tells how much the pipeline had to do then, and a finding's line only what is wrong."""

import pytest

from chaos.common.events import FaultInjected, FaultProved, PipelineSampled
from chaos.common.history import Event
from chaos.report.failure_text import explain
from chaos.report.model import build
from chaos.scenario.model import Scenario
from chaos.scenario.plan import plan
from tests.unit.report.conftest import Fabricated
from verifiers.base import Finding, Verdict

APP = {"kind": "command", "reads": ["datasource"], "sink": {"topic": "datasink"}, "run": ["app"], "group": "g"}
CRASH = {"kind": "crash_pipeline", "when": {"after": "1s"}}
SCENARIO = Scenario.model_validate({"name": "one", "title": "One", "pipeline": APP, "faults": [CRASH]})


def sampled(lag):
    """Where the pipeline is."""
    return PipelineSampled(positions={0: 1}, lag=lag)


@pytest.mark.parametrize(("before", "lag"), [((), None), ((7,), 7), ((7, 0), 0)])
def test_the_lag_at_the_injection_is_told(tmp_path, before, lag):
    """By the last sample before it, and by none after it."""
    values = [
        *map(sampled, before),
        FaultInjected(fault="crash_pipeline-1"),
        FaultProved(fault="crash_pipeline-1", effective=True),
    ]
    events = [Event(number, number, number / 10, value) for number, value in enumerate([*values, sampled(99)])]

    report = build(SCENARIO, plan(SCENARIO, 1), events, (), tmp_path, "pytest")

    assert report.faults[0].lag == lag
    assert (f" with {lag} records to read, " in explain(report)) == (lag is not None)


def test_what_a_verifier_counts_besides_is_not_broken(run: Fabricated):
    """Aborted rows are nothing wrong."""
    counts = {"in part": 2, "aborted read": 0, "aborted": 1}
    finding = Finding("atomicity", "sink", Verdict.INVALID, 2, 100, counts)
    (broken,) = [line for line in explain(run.report(findings=(finding,))).splitlines() if line.startswith("Broken: ")]

    assert "in part 2" in broken or "atomicity in sink, 2 of" in broken
    assert "aborted 1" not in broken
