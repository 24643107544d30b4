"""What the demo says is true of what it runs."""

from pathlib import Path

import pytest

from chaos.common import events
from chaos.common.history import Event
from chaos.demo import folder
from chaos.demo.acts import ACTS, INTRODUCTION, Act
from chaos.faults.pipeline_process import CrashPipeline
from chaos.grammar.triggers import OnRequest
from chaos.report.formatting import number
from chaos.scenario.load import load
from chaos.scenario.pipelines import CommandPipeline
from verifiers.base import Example, Finding, Verdict

FILES = Path(folder.__file__).with_name("files")
FILE = load(FILES / folder.SCENARIOS)
PHASES = ("set_up", "steady", "inject", "heal", "drain", "observe", "judge")
each_act = pytest.mark.parametrize("act", ACTS, ids=lambda act: act.scenario)


def event(who: str, type_: str, f: str, **value: object) -> Event:
    return Event(0, 0, 1.0, events.read(who, type_, f, value))


def of_fault(step: str, **value: object) -> Event:
    return event("nemesis", "ok", step, fault="crash_pipeline-1", **value)


def test_the_acts_are_the_scenarios_of_the_file() -> None:
    assert [act.scenario for act in ACTS] == [scenario.name for scenario in FILE.scenarios]


@each_act
def test_what_is_said_of_a_scenario_is_declared_there(act: Act) -> None:
    """Its program, its load, the request at which the fault strikes, and how often it must have come."""
    scenario = FILE.scenario(act.scenario)
    (fault,) = scenario.faults
    assert isinstance(fault, CrashPipeline)
    assert isinstance(fault.when, OnRequest)
    assert isinstance(scenario.pipeline, CommandPipeline)
    program = act.setting["program"].partition(":")[0]
    first = ACTS[0].steps["steady"]

    assert any(program in word for word in scenario.pipeline.run)
    assert (FILES / program).is_file()
    assert f"{number(scenario.workload.records)} records".replace("\u00a0", " ") in first
    assert f"{scenario.workload.rate_per_s:g} a second" in first
    assert fault.when.nth == 5
    assert fault.when.at == "response"
    assert f"the answer to the fifth {fault.when.request} is on the wire" in act.setting["fault"]
    assert f"waits for the fifth {fault.when.request}" in act.steps["inject"]
    assert fault.restart_after_s == 1  # "a second later"


def test_a_batch_is_what_it_is_said_to_be() -> None:
    """The counts rest on it: a batch is read in one piece, and what is written twice is one batch."""
    (twice,) = {act.found["duplicates"] for act in ACTS if act.found}

    assert f"{twice} records at a time" in INTRODUCTION
    assert all(f"BATCH = {twice}\n" in (FILES / name).read_text(encoding="utf-8") for name in folder.texts() if "copy" in name)
    assert all(FILE.scenario(act.scenario).workload.records % twice == 0 for act in ACTS)


@each_act
def test_each_step_is_said(act: Act) -> None:
    """In the order in which they come; what a step waits for is not said twice."""
    phases = [act.told(event("runner", "invoke", "phase", phase=name)) for name in PHASES]
    steps = [act.told(of_fault(step)) for step in ("trigger", "inject", "heal")]

    assert all(phases)
    assert all(steps)
    assert "pids 4711" in act.told(of_fault("prove", effective=True, proof={"pids": 4711}))
    assert act.told(event("nemesis", "invoke", "trigger", fault="crash_pipeline-1", when="…", moment="…")) == ""


@each_act
@pytest.mark.parametrize(
    "bad",
    [
        event("runner", "fail", "phase", phase="drain", error="DeadlineError: waited"),
        event("nemesis", "fail", "inject", fault="crash_pipeline-1", error="InjectionError: no"),
        of_fault("prove", effective=False, proof={}),
        of_fault("heal", effective=False),
    ],
    ids=["phase", "inject", "proof", "heal"],
)
def test_what_goes_wrong_is_said_as_in_every_run(act: Act, bad: Event) -> None:
    told = act.told(bad)

    assert told
    assert told not in act.steps.values()


def test_an_act_expects_its_verdict_with_its_counts(report) -> None:
    """Another number of duplicates is a surprise, though it is INVALID, too."""
    valid, invalid = ACTS

    assert valid.is_as_expected(report())
    assert invalid.is_as_expected(report(duplicates=100, ordering=99))
    assert not valid.is_as_expected(report(duplicates=100, ordering=99))
    assert not invalid.is_as_expected(report())
    assert not invalid.is_as_expected(report(duplicates=200, ordering=198))
    assert not valid.is_as_expected(report(verdict=Verdict.UNKNOWN))


def test_what_is_found_in_the_source_is_not_of_the_output(report) -> None:
    of_source = Finding("duplicates", "source", Verdict.INVALID, count=3, checked=3000)

    assert not ACTS[0].is_as_expected(report(of_source, verdict=Verdict.INVALID))
    assert ACTS[1].is_as_expected(report(of_source, duplicates=100, ordering=99))


@each_act
def test_a_label_fits_beside_its_text(act: Act, report) -> None:
    labels = [*act.setting, *(label for label, _ in act.lesson(report(**act.found)))]

    assert [label for label in labels if len(label) > 8] == []


def test_a_lesson_quotes_the_run(report) -> None:
    """So many rows were aborted, and this record was written twice."""
    aborted = Finding("atomicity", "sink", Verdict.VALID, count=0, checked=3100, counts={"aborted": 317})
    twice = Example("duplicate", 0, 700, 600, 1, "also at offset 600")
    duplicates = Finding("duplicates", "sink", Verdict.INVALID, count=100, checked=3100, examples=(twice,))

    assert "317 rows" in dict(ACTS[0].lesson(report(aborted)))["why"]
    assert "id 600" in dict(ACTS[1].lesson(report(duplicates, ordering=99)))["record"]
