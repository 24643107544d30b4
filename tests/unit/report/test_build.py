"""The report is put together from the history, the findings and the verdict."""

from pathlib import Path

import pytest

from chaos.common.events import read
from chaos.common.history import Event
from chaos.report.model import build
from chaos.scenario.model import Scenario
from chaos.scenario.plan import plan
from tests.unit.wording import keep
from verifiers.base import Finding, Verdict

FAULT = "kill_broker-1"
FINDINGS = [
    Finding("gaps", "source", Verdict.VALID, 0, 100),
    Finding("gaps", "sink", Verdict.INVALID, 2, 100, {"lost": 2}),
    Finding("gaps", "sink", Verdict.VALID, 0, 100),
]


def nemesis(type_, f, **value):
    return "nemesis", type_, f, {"fault": FAULT, **value}


def sample(committed):
    return "sampler", "info", "progress", {"written": 100, "committed": committed, "total": 100, "end": committed}


GOOD = (
    ("runner", "invoke", "phase", {"phase": "inject"}),
    nemesis("ok", "trigger", seen={}),
    nemesis("ok", "inject", target="broker-2 (any)", hold_s=3.0),
    nemesis("ok", "prove", effective=True, proof={"refused": ["broker-2"]}),
    sample(10),
    sample(10),
    sample(11),
    sample(12),
    nemesis("ok", "heal", target="broker-2 (any)", restarted=1),
    ("runner", "ok", "phase", {"phase": "inject"}),
)


def report(lines=GOOD):
    """The report of a run with this history, one event each second."""
    scenario = Scenario.model_validate(
        {
            "name": "one",
            "title": "One",
            "pipeline": {
                "kind": "command",
                "reads": ["datasource"],
                "sink": {"topic": "datasink"},
                "run": ["app"],
                "group": "g",
            },
            "faults": [{"kind": "kill_broker", "target": "any", "when": {"progress": "40%"}}],
            "leave_out": {"ordering": "it is not judged here"},
            "expect": {"gaps": {"lost": 2}},
            "matrix": {"request": "EndTxn"},
        }
    )
    events = [Event(index, 1000 * index, float(index), read(*line)) for index, line in enumerate(lines)]
    return build(scenario, plan(scenario, 7), events, FINDINGS, Path("runs/x"), "pytest …")


def test_a_fault_is_told_from_its_trigger_to_its_heal():
    """With its proof, and what its heal reported."""
    (fault,) = report().faults

    assert (fault.name, fault.kind, fault.target) == (FAULT, "kill_broker", "broker-2 (any)")
    assert (fault.triggered_ms, fault.injected_ms, fault.proved_ms, fault.healed_ms) == (1000, 2000, 3000, 8000)
    assert (fault.effective, fault.proof, fault.problem) == (True, {"refused": ["broker-2"]}, "")
    assert fault.aftermath == {"restarted": 1}


@pytest.mark.parametrize(
    "moment",
    ["while the response to EndTxn 17 was on the wire", ""],
)
def test_the_request_at_which_a_fault_struck_is_told(moment):
    """Other moments name nothing that can be found in a log; one that never came struck at nothing."""
    waited = nemesis("invoke", "trigger", when="…", moment=moment)
    (struck,) = report((GOOD[0], waited, *GOOD[1:])).faults
    (missed,) = report((GOOD[0], waited, nemesis("fail", "trigger", error="waited"), GOOD[-1])).faults

    assert (struck.moment, missed.moment) == (moment, "")


def test_a_fault_whose_heal_showed_no_effect_had_none():
    """Its proof is shown beside the reason."""
    heal = nemesis("ok", "heal", effective=False, problem="nobody answered")
    (fault,) = report((*GOOD[:-2], heal, GOOD[-1])).faults

    assert (fault.effective, fault.problem) == (False, "it had no effect: nobody answered")
    assert (fault.proof, fault.aftermath) == ({"refused": ["broker-2"]}, {"problem": "nobody answered"})


def test_a_fault_that_never_came_is_told_too():
    """With the reason, and without times."""
    (fault,) = report((GOOD[0], nemesis("fail", "trigger", error="waited"), GOOD[-1])).faults

    assert (fault.triggered_ms, fault.injected_ms, fault.effective) == (None, None, False)
    assert fault.problem == "its trigger never came: waited"


@pytest.mark.parametrize(
    ("end", "duration_s", "error"),
    [
        (("runner", "ok", "phase", {"phase": "drain"}), 1.0, ""),
        (("runner", "fail", "phase", {"phase": "drain", "error": "late"}), 1.0, "late"),
    ],
)
def test_a_phase_has_its_time_and_its_error(end, duration_s, error):
    """As its end tells them."""
    inject, drain = report((*GOOD, ("runner", "invoke", "phase", {"phase": "drain"}), end)).phases

    assert (inject.name, inject.start_ms, inject.duration_s, inject.error) == ("inject", 0, 9.0, "")
    assert (drain.name, drain.start_ms, drain.duration_s, drain.error) == ("drain", 10_000, duration_s, error)


def test_a_phase_in_which_the_run_was_ended_says_so():
    """It has no time of its own."""
    _, drain = report((*GOOD, ("runner", "invoke", "phase", {"phase": "drain"}), sample(12))).phases

    assert (drain.name, drain.start_ms, drain.duration_s) == ("drain", 10_000, 0.0)
    assert keep(drain.error)


def test_what_verifiers_said_is_kept_beside_the_verdict():
    """The worst of what each said, before `expect`; and what the scenario says of its findings and its place in a matrix."""
    outcome = report()

    assert outcome.judged == {"gaps": Verdict.INVALID}
    assert (outcome.expect["gaps"], outcome.exactly) == (Verdict.INVALID, {"gaps": {"lost": 2}})
    assert {verdict for name, verdict in outcome.expect.items() if name != "gaps"} == {Verdict.VALID}
    assert outcome.left_out == {"ordering": "it is not judged here"}
    assert outcome.matrix == {"request": "EndTxn"}


def test_recovery_is_counted_from_the_injection_to_the_end_of_the_longest_standstill():
    """Injected at second 2; the output grew at second 6 for the first time, and a second later again."""
    assert report().recovery_s == 4.0


def test_random_faults_that_were_skipped_are_counted():
    """They are not part of the run, and whoever reads its verdict must know how many there were."""
    skipped = [("nemesis", "info", "spared", {"fault": name}) for name in ("round-8-kill_broker", "round-9-kill_broker")]

    assert (report().spared, report((*GOOD, *skipped)).spared) == (0, 2)
