"""The verdict: what verifiers said, after `expect`; and at least UNKNOWN when the run proved nothing."""

import pytest

from chaos.common.events import read
from chaos.common.history import Event
from chaos.judging.verdict import decide
from chaos.scenario.model import Scenario
from chaos.scenario.plan import plan
from tests.unit.wording import keep
from verifiers.base import Finding, Verdict

APPLICATION = {"kind": "command", "reads": ["datasource"], "sink": {"topic": "datasink"}, "run": ["app"], "group": "g"}
LOADER = {"kind": "none"}
SCENARIO = {
    "name": "one",
    "title": "One",
    "pipeline": APPLICATION,
    "faults": [{"kind": "kill_broker", "target": "any", "when": {"progress": "40%"}}],
}
FAULT = "kill_broker-1"


def events(*lines):
    """Events, one second apart, from (process, type, f, value)."""
    return [Event(index, 1000 * index, float(index), read(*line)) for index, line in enumerate(lines)]


def nemesis(type_, f, **value):
    """An event of the one fault."""
    return "nemesis", type_, f, {"fault": FAULT, **value}


def sample(committed, total=100, end=None):
    """How far the run is."""
    return "sampler", "info", "progress", {"written": total, "committed": committed, "total": total, "end": end or committed}


GOOD = (
    ("runner", "invoke", "phase", {"phase": "inject"}),
    nemesis("ok", "trigger", seen={}),
    nemesis("ok", "inject", target="broker-2 (any)", hold_s=3.0),
    nemesis("ok", "prove", effective=True, proof={"refused": ["broker-2"]}),
    sample(10),
    sample(10),
    sample(11),
    sample(12),
    nemesis("ok", "heal", target="broker-2 (any)"),
    ("runner", "ok", "phase", {"phase": "inject"}),
)


def findings(**verdicts):
    """Findings on source and sink; ``sink_duplicates=Verdict.INVALID``; all others VALID."""
    return [
        Finding(name, subject, verdicts.get(f"{subject}_{name}", Verdict.VALID), 0, 100)
        for subject in ("source", "sink")
        for name in ("duplicates", "gaps")
    ]


def judged(lines=GOOD, found=None, **changes):
    """The judgement of a run with this history and these findings."""
    scenario = Scenario.model_validate(SCENARIO | changes)
    return decide(scenario, plan(scenario, 7), events(*lines), findings() if found is None else found)


def test_all_valid_and_proved_is_valid():
    """This is the only way to be VALID."""
    outcome = judged()

    assert outcome.verdict is Verdict.VALID
    assert outcome.problems == ()
    assert outcome.fault_problems == {FAULT: ""}


@pytest.mark.parametrize("subject", ["source", "sink"])
def test_any_violation_is_invalid(subject):
    """A duplicate in the source is as much a broken guarantee as one in the sink."""
    assert judged(found=findings(**{f"{subject}_duplicates": Verdict.INVALID})).verdict is Verdict.INVALID


@pytest.mark.parametrize(("name", "verdict"), [("commits", Verdict.VALID), ("duplicates", Verdict.INVALID)])
def test_an_expectation_is_about_the_output_and_what_was_done_with_its_input(name, verdict):
    """Positions in the source are those of the pipeline; its records are the loader's."""
    broken = Finding(name, "source", Verdict.INVALID, 3, 100, {"set back": 3})
    sound = [finding for finding in findings() if finding.verifier != name]

    assert judged(found=[broken, *sound], expect={name: "invalid"}).verdict is verdict


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        (Verdict.INVALID, Verdict.VALID, Verdict.VALID),
        (Verdict.INVALID, Verdict.INVALID, Verdict.INVALID),
        (Verdict.VALID, Verdict.INVALID, Verdict.INVALID),
    ],
)
def test_of_several_topics_an_expectation_is_about_the_first(first, second, verdict):
    """A commit that was set back in the second one is not expected, whatever is expected of the first."""
    counts = {Verdict.INVALID: {"set back": 3}, Verdict.VALID: {}}
    both = [
        Finding("commits", subject, found, len(counts[found]) * 3, 100, counts[found])
        for subject, found in (("source", first), ("source-customers", second))
    ]

    assert judged(found=[*both, *findings()], expect={"commits": "invalid"}).verdict is verdict


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        (GOOD[:1], ""),
        ((*GOOD[:1], nemesis("fail", "trigger", error="DeadlineError: waited")), "DeadlineError: waited"),
        ((*GOOD[:2], nemesis("fail", "inject", error="no such link")), "no such link"),
        ((*GOOD[:3], nemesis("ok", "prove", effective=False, proof={})), ""),
        ((*GOOD[:3], nemesis("fail", "prove", error="refused")), "refused"),
        ((*GOOD[:4], nemesis("fail", "heal", error="will not start")), "will not start"),
        ((*GOOD[:4], nemesis("ok", "heal", effective=False, problem="nobody answered", error_code=None)), "nobody answered"),
    ],
    ids=[
        "not injected",
        "no trigger",
        "injecting fails",
        "no effect",
        "proving fails",
        "healing fails",
        "no effect, by its heal",
    ],
)
def test_a_fault_that_proves_nothing_makes_the_run_unknown(lines, error):
    """Whatever the verifiers say: without the fault they say nothing about what it does."""
    outcome = judged((*lines, GOOD[-1]))

    (problem,) = outcome.problems
    assert outcome.verdict is Verdict.UNKNOWN
    assert keep(problem).startswith(f"{FAULT}: ")
    assert problem.endswith(error)


def test_a_violation_stays_invalid_whatever_else_went_wrong():
    """A duplicate is a duplicate in a crippled run too."""
    assert judged(GOOD[:1], findings(sink_gaps=Verdict.INVALID)).verdict is Verdict.INVALID


def test_a_phase_that_failed_is_a_problem():
    """A drain that never ended is not green because nothing was found before it."""
    outcome = judged(
        (
            *GOOD,
            ("runner", "invoke", "phase", {"phase": "drain"}),
            ("runner", "fail", "phase", {"phase": "drain", "error": "late"}),
        )
    )

    assert outcome.verdict is Verdict.UNKNOWN
    assert outcome.problems == ("drain: late",)


def test_one_error_that_fails_several_phases_is_told_once():
    """A pipeline that has ended fails every later phase."""
    ended = [
        line
        for phase in ("heal", "drain")
        for line in (
            ("runner", "invoke", "phase", {"phase": phase}),
            ("runner", "fail", "phase", {"phase": phase, "error": "the pipeline ended with 1"}),
        )
    ]

    assert judged((*GOOD, *ended)).problems == ("heal, drain: the pipeline ended with 1",)


def test_a_run_without_findings_is_unknown():
    """Nothing was asked, so nothing was proved."""
    assert judged(found=[]).verdict is Verdict.UNKNOWN


def test_a_control_that_is_caught_is_valid():
    """Expected INVALID and came back INVALID, at the pipeline's output."""
    control = {"expect": {"duplicates": "invalid"}}

    assert judged(found=findings(sink_duplicates=Verdict.INVALID), **control).verdict is Verdict.VALID


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ({}, Verdict.INVALID),
        ({"sink_duplicates": Verdict.UNKNOWN}, Verdict.UNKNOWN),
        ({"sink_duplicates": Verdict.INVALID, "sink_gaps": Verdict.INVALID}, Verdict.INVALID),
        ({"sink_duplicates": Verdict.INVALID, "source_duplicates": Verdict.INVALID}, Verdict.INVALID),
    ],
)
def test_a_control_must_be_caught_for_its_anomaly_and_no_other(verdicts, expected):
    """Not caught, caught elsewhere, or caught for more than it was made for: not green."""
    assert judged(found=findings(**verdicts), expect={"duplicates": "invalid"}).verdict is expected


SWEEP = {
    "faults": [{"name": FAULT, "kind": "lose_request", "when": {"request": "EndTxn"}}],
    "expect": "not_sent",
    "matrix": {"request": "EndTxn"},
}
PHASES = GOOD[0], GOOD[-1]
LATE = nemesis("fail", "trigger", error="InconclusiveError: too late")


def missed(**value):
    """The requests that passed instead of the frame."""
    links = {"request": "EndTxn", "links": ["app->broker-1"]}
    return nemesis("info", "missed", **links, **{"sent": 0, "unparsed": 0, **value})


def test_a_request_that_is_never_sent_as_predicted_is_valid():
    """The case cannot happen with this client; it is told apart from one whose trigger did not come."""
    outcome = judged((*PHASES, missed(), LATE), **SWEEP)

    assert (outcome.verdict, outcome.not_sent, outcome.problems) == (Verdict.VALID, True, ())


def test_without_the_prediction_it_is_unknown():
    """A fault that never came proves nothing, whatever the reason."""
    outcome = judged((*PHASES, missed(), LATE), **SWEEP | {"expect": "valid"})

    assert (outcome.verdict, outcome.not_sent) == (Verdict.UNKNOWN, False)
    assert "its trigger never came" in outcome.problems[0]


@pytest.mark.parametrize(
    "lines",
    [
        (missed(sent=3), LATE),
        (missed(unparsed=1), LATE),
        (LATE,),
        (),
        (nemesis("ok", "trigger", api="EndTxn", link="app->broker-1"), *GOOD[2:4], GOOD[8]),
    ],
    ids=["too few to trigger", "hidden from the toxic", "not waited for", "nothing happened", "injected after all"],
)
def test_a_request_that_was_sent_or_may_have_been_disappoints_the_prediction(lines):
    """It is said whether it was sent, or why that cannot be told."""
    outcome = judged((*PHASES, *lines), **SWEEP)

    assert (outcome.verdict, outcome.not_sent) == (Verdict.UNKNOWN, False)
    assert list(map(keep, outcome.problems))


def test_a_prediction_that_a_request_is_not_sent_excuses_no_other_fault():
    """A fault that waits for the one that never came is excused with it; one that was injected and had no effect is not."""
    other = {"name": "other", "kind": "kill_broker", "target": "any"}
    did_not_bite = [
        ("nemesis", "ok", f, {"fault": "other", **value})
        for f, value in {"trigger": {}, "inject": {"target": "broker-1"}, "prove": {"effective": False}, "heal": {}}.items()
    ]
    waits = ("nemesis", "fail", "trigger", {"fault": "other", "error": f"{FAULT} failed"})

    def both(when, *lines):
        return judged((*PHASES, missed(), LATE, *lines), **SWEEP | {"faults": [*SWEEP["faults"], other | {"when": when}]})

    assert both({"fault": FAULT}, waits).verdict is Verdict.VALID
    assert both({"progress": "40%"}, *did_not_bite).problems == ("other: it had no effect",)
    late = ("nemesis", "fail", "trigger", {"fault": "other", "error": "DeadlineError: waited"})
    assert both({"progress": "40%"}, late).problems == ("other: its trigger never came: DeadlineError: waited",)


def test_a_prediction_that_a_request_is_not_sent_excuses_no_record():
    """The pipeline must be well without the fault too."""
    lines = (*PHASES, missed(), LATE)

    assert judged(lines, findings(sink_gaps=Verdict.INVALID), **SWEEP).verdict is Verdict.INVALID
    assert judged((*lines, ("runner", "fail", "phase", {"phase": "drain", "error": "late"})), **SWEEP).problems == (
        "drain: late",
    )


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"duplicate": 1, "other": 0}, Verdict.VALID),
        ({"duplicate": 2}, Verdict.INVALID),
        ({"duplicate": 1, "other": 1}, Verdict.INVALID),
        ({"other": 1}, Verdict.INVALID),
    ],
)
def test_an_exact_control_must_be_caught_with_that_anomaly_and_that_count(counts, expected):
    """Deterministic faults leave the same anomaly each time; two of them are something else than one."""
    found = findings()
    found[2] = Finding("duplicates", "sink", Verdict.INVALID, sum(counts.values()), 100, counts)

    assert judged(found=found, expect={"duplicates": {"duplicate": 1}}).verdict is expected


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"not written": 7}, Verdict.VALID),
        ({"not written": 7, "elsewhere": 2}, Verdict.VALID),
        ({"elsewhere": 2}, Verdict.INVALID),
        ({}, Verdict.INVALID),
    ],
)
def test_some_of_an_anomaly_are_demanded_and_others_allowed(counts, expected):
    """How many records a power loss takes is never the same, but that it takes some is what the control must show."""
    found = findings()
    verdict = Verdict.INVALID if counts else Verdict.VALID
    found[2] = Finding("duplicates", "sink", verdict, sum(counts.values()), 100, counts)

    assert judged(found=found, expect={"duplicates": {"not written": "some"}}).verdict is expected


def test_an_exact_control_that_finds_nothing_is_invalid():
    """Not caught is not caught, however exactly it was predicted."""
    assert judged(expect={"duplicates": {"duplicate": 1}}).verdict is Verdict.INVALID


def test_a_fault_that_was_spared_is_not_part_of_the_run():
    """Its turn came when all was through; but a run in which no fault was in force proved nothing."""
    soak = {"random": {"every": "1s", "pick": [{"fault": {"kind": "kill_broker", "target": "any"}}]}}
    drawn = [step.name for step in plan(Scenario.model_validate(SCENARIO | soak), 7).steps[1:]]
    spared = [("nemesis", "info", "spared", {"fault": name}) for name in drawn]

    assert drawn
    outcome = judged((*GOOD, *spared), **soak)
    assert (outcome.verdict, list(outcome.fault_problems)) == (Verdict.VALID, [FAULT])
    (problem,) = judged((*PHASES, *spared), faults=[], **soak).problems
    keep(problem)


def test_a_fault_for_which_the_output_did_not_go_on_is_a_problem():
    """The output stood still before the fault."""
    outcome = judged((*PHASES, nemesis("ok", "trigger"), nemesis("fail", "resume", error="waited 60 s")))

    assert outcome.fault_problems == {FAULT: "it was not injected: waited 60 s"}


def late(before, *after, total=12):
    """A good run, of which so much was committed, at these ends, before the fault and after it."""
    samples = [sample(min(end, total), total, end) for end in (before, *after)]
    return (*GOOD[:2], samples[0], *GOOD[2:4], *samples[1:], *GOOD[8:])


def test_a_fault_that_came_when_all_was_done_is_a_problem():
    """It was in force, and there was nothing left that could go wrong."""
    outcome = judged(late(16, 16))

    (problem,) = outcome.problems
    assert outcome.verdict is Verdict.UNKNOWN
    assert keep(problem).startswith(f"{FAULT}: ")


@pytest.mark.parametrize(("before", "after"), [(11, 16), (11, 11), (14, 16)])
def test_a_fault_in_a_run_under_way(before, after):
    """Also when markers made it look complete, or when the output stopped for good: that is for `progress` to judge."""
    assert judged(late(before, after)).problems == ()


@pytest.mark.parametrize(("phase", "failed"), [("observe", ["observe"]), ("judge", [])])
def test_a_phase_that_was_ended_in_the_middle(phase, failed):
    """SIGKILL writes no event; judging alone can be done again."""
    problems = judged((*GOOD, ("runner", "invoke", "phase", {"phase": phase}))).problems

    assert [keep(one).split(":")[0] for one in problems] == failed


@pytest.mark.parametrize(("pipeline", "verdict"), [(APPLICATION, Verdict.UNKNOWN), (LOADER, Verdict.VALID)])
def test_a_run_whose_sink_was_not_landed(pipeline, verdict):
    """Findings in the source do not judge the pipeline."""
    outcome = judged(found=findings()[:2], pipeline=pipeline)

    assert outcome.verdict is verdict
    assert ["sink" in keep(problem) for problem in outcome.problems] == [True] * (verdict is Verdict.UNKNOWN)


@pytest.mark.parametrize(("pipeline", "log"), [(APPLICATION, "sink"), (LOADER, "source")])
def test_a_run_of_which_only_the_progress_was_judged(pipeline, log):
    """It went on, but no record was compared."""
    outcome = judged(found=[Finding("progress", log, Verdict.VALID, 0, 100)], pipeline=pipeline)

    (problem,) = outcome.problems
    assert (log in keep(problem), outcome.verdict) == (True, Verdict.UNKNOWN)


@pytest.mark.parametrize(("idle", "verdict"), [(1, Verdict.VALID), (2, Verdict.UNKNOWN)])
def test_a_random_fault_may_hit_something_unused(idle, verdict):
    """One in ten may; the others, and every declared fault, must have an effect."""
    soak = {"random": {"every": "2s", "pick": [{"fault": {"kind": "kill_broker", "target": "any"}}]}}
    scenario = Scenario.model_validate(SCENARIO | soak | {"faults": [], "workload": {"records": 40000, "rate": "1000/s"}})
    drawn = [step.name for step in plan(scenario, 7).steps][:10]
    spared = [("nemesis", "info", "spared", {"fault": step.name}) for step in plan(scenario, 7).steps[10:]]
    lives = [
        ("nemesis", "ok", f, {"fault": name, "effective": place >= idle, "proof": {}})
        for place, name in enumerate(drawn)
        for f in ("trigger", "inject", "prove", "heal")
    ]

    outcome = decide(scenario, plan(scenario, 7), events(*PHASES, *spared, *lives), findings())

    assert len(drawn) == 10
    assert outcome.verdict is verdict
    assert outcome.problems == (() if verdict is Verdict.VALID else tuple(f"{name}: it had no effect" for name in drawn[:2]))


ENDED = "pipeline ended"


def ended(said, cause=ENDED):
    """A run that failed when something ended, as the phases tell it."""
    value = {"error": f"it ended with 1 in the middle of the run; the last line of its log: {said}", "cause": cause}
    return (*GOOD, *(("runner", "fail", "phase", {"phase": phase, **value}) for phase in ("heal", "drain")))


def test_a_pipeline_that_must_end_and_says_why():
    """Its phases have failed for that, which is no problem; any other end is one, and so is none."""
    refused = judged(ended("RefusedError: made anew"), ends="made anew")
    otherwise = judged(ended("MemoryError"), ends="made anew")
    went_on = judged(ends="made anew")
    loader = judged(ended("made anew", cause=""), ends="made anew")

    assert (refused.verdict, refused.problems) == (Verdict.VALID, ())
    assert refused.phase_errors.keys() == {"heal", "drain"}
    (missing,) = went_on.problems
    assert "'made anew'" in keep(missing)
    assert [one.verdict for one in (otherwise, went_on, loader)] == [Verdict.UNKNOWN] * 3
    assert all(missing in one.problems for one in (otherwise, went_on, loader))
    assert any("MemoryError" in problem for problem in otherwise.problems)


def test_the_end_of_a_pipeline_excuses_no_record():
    """The rows that it wrote before are judged."""
    lost = judged(ended("RefusedError: made anew"), findings(sink_gaps=Verdict.INVALID), ends="made anew")

    assert lost.verdict is Verdict.INVALID


STUCK = ("runner", "fail", "phase", {"phase": "heal", "error": "StandstillError: waited 60 s", "cause": "standstill"})


def stuck(expect, line=STUCK, **counts):
    """The verdict of a run that stood still until its end, and what `progress` counted."""
    found = Finding(
        "progress", "sink", Verdict.INVALID if any(counts.values()) else Verdict.VALID, sum(counts.values()), 1, counts
    )
    return judged((*GOOD, line), (*findings(), found), expect=expect).verdict


def test_a_standstill_that_is_predicted_is_no_problem():
    """Only if `progress` finds it, and only for the output: brokers that do not come back are another matter."""
    predicted = {"progress": {"no recovery": 1}}
    unhealthy = (*STUCK[:3], {"phase": "heal", "error": "DeadlineError: waited 60 s for the brokers", "cause": ""})

    assert stuck(predicted, **{"no recovery": 1}) is Verdict.VALID
    assert stuck(predicted, **{"no recovery": 0}) is Verdict.INVALID
    assert stuck(predicted, **{"no recovery": 1, "blocked": 1}) is Verdict.INVALID
    assert stuck(predicted, unhealthy, **{"no recovery": 1}) is Verdict.UNKNOWN
    assert stuck("valid", **{"no recovery": 1}) is Verdict.INVALID
    assert stuck({"progress": {"blocked": 1}}, blocked=1) is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("proved", "error", "verdict"),
    [
        (True, "RefusedError: made anew", Verdict.VALID),
        (True, "MemoryError", Verdict.UNKNOWN),
        (False, "RefusedError: made anew", Verdict.UNKNOWN),
    ],
)
def test_a_crash_may_be_healed_by_a_pipeline_that_ends_as_it_must(proved, error, verdict):
    """It was started again, and ended before it had begun: that is what the scenario expects, if the crash took effect."""
    said = f"InconclusiveError: the pipeline ended with 1 in the middle of the run; the last line of logs/pipeline.log: {error}"
    lines = (
        *GOOD[:3],
        nemesis("ok", "prove", effective=proved, proof={}),
        nemesis("fail", "heal", error=said, cause=ENDED),
        ("runner", "fail", "phase", {"phase": "inject", "error": "the pipeline ended with 1; made anew", "cause": ENDED}),
    )

    assert judged(lines, ends="made anew").verdict is verdict
