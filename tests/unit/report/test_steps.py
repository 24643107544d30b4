from chaos.report.steps import Step, steps
from tests.unit.report.conftest import Fabricated
from verifiers.base import Verdict


def named(tree: tuple[Step, ...], *path: str) -> Step:
    """The step at the end of a path of beginnings of names."""
    step = next(step for step in tree if step.name.startswith(path[0]))
    return named(step.steps, *path[1:]) if len(path) > 1 else step


def test_phases_keep_their_true_times(run: Fabricated) -> None:
    """Rendered long after they ended, they must not all begin now."""
    tree = steps(run.valid(), run.events())

    assert [step.name for step in tree] == ["set_up", "steady", "inject", "heal", "drain", "observe", "judge"]
    assert (named(tree, "inject").start_ms, named(tree, "inject").stop_ms) == (run.at(3), run.at(11))
    assert {step.status for step in tree} == {"passed"}


def test_a_fault_is_told_under_inject_and_its_late_heal_under_heal(run: Fabricated) -> None:
    """Each action where it happened, with the times of its events."""
    tree = steps(run.valid(), run.events())

    inject = named(tree, "inject", "kill_broker-1 on broker-2 (leader of datasink-0)")
    assert [(step.name, step.start_ms, step.stop_ms) for step in inject.steps] == [
        ("trigger", run.at(3.1), run.at(4.8)),
        ("inject", run.at(4.9), run.at(5)),
        ("prove", run.at(5.1), run.at(5.6)),
    ]
    assert [step.name for step in named(tree, "heal", "kill_broker-1").steps] == ["heal"]


def test_a_fault_carries_what_is_needed_to_repeat_it(run: Fabricated) -> None:
    """What it hit, when, by which draw, and what proves it."""
    parameters = named(steps(run.valid(), run.events()), "inject", "kill_broker-1").parameters

    assert parameters == {
        "kind": "kill_broker",
        "target": "broker-2 (leader of datasink-0)",
        "proof": "pids broker-2 4711, refused broker-2",
        "when": "progress 20%",
        "draw": "1729",
    }


def test_a_fault_that_did_not_bite_breaks_its_phase(run: Fabricated) -> None:
    """The reader is led to it from above."""
    events = tuple(event for event in run.events() if event.f != "prove")
    events += (run.event(900, 5.1, "nemesis", "invoke", "prove", fault="kill_broker-1"),)
    events += (run.event(901, 5.6, "nemesis", "ok", "prove", fault="kill_broker-1", bit=False, proof={"refused": []}),)
    report = run.valid(faults=(run.fault(effective=False, problem="it did not bite"),))

    tree = steps(report, events)

    assert named(tree, "inject").status == "broken"
    assert named(tree, "inject", "kill_broker-1").message == "it did not bite"
    assert named(tree, "inject", "kill_broker-1", "prove").status == "broken"
    assert named(tree, "inject", "kill_broker-1", "trigger").status == "passed"


def test_an_action_that_never_ended_is_broken(run: Fabricated) -> None:
    """A history cut short must still be shown."""
    events = tuple(event for event in run.events() if event.elapsed_s < 5.3)

    assert named(steps(run.report(), events), "inject", "kill_broker-1", "prove").message == "it never ended"


def test_a_phase_that_failed_says_how(run: Fabricated) -> None:
    """Its error is its message, and nothing else turns red."""
    tree = steps(run.valid(phases=run.phases(drain="DeadlineError: waited 60 s")), run.events())

    assert (named(tree, "drain").status, named(tree, "drain").message) == ("broken", "DeadlineError: waited 60 s")
    assert named(tree, "steady").status == "passed"


def test_findings_are_told_under_judge_with_their_records(run: Fabricated) -> None:
    """Red where something broke, with the first examples and the fault each fell into."""
    tree = steps(run.report(), run.events())

    duplicates = named(tree, "judge", "duplicates")
    assert (named(tree, "judge").status, duplicates.status, named(tree, "judge", "gaps").status) == (
        "failed",
        "failed",
        "passed",
    )
    assert duplicates.steps[0].name.startswith("duplicate: id 17, partition 2, offset 1204")
    assert "during kill_broker-1" in duplicates.steps[0].name
    assert [step.status for step in duplicates.steps] == ["failed"] * 5


def test_a_caught_control_passes_and_an_unproved_finding_is_broken(run: Fabricated) -> None:
    """The colour is the run's, the word is the data's."""
    unknown = run.finding("gaps", Verdict.UNKNOWN, checked=0, note="no record was compared")
    tree = steps(run.control(findings=(unknown, run.duplicates())), run.events())

    assert named(tree, "judge", "duplicates").status == "passed"
    assert named(tree, "judge", "duplicates").name.endswith("INVALID as expected")
    assert (named(tree, "judge", "gaps").status, named(tree, "judge", "gaps").message) == ("broken", "no record was compared")


def test_what_went_well_has_no_message(run: Fabricated) -> None:
    """Allure shows every message as an error: a note on a finding that passed is a parameter."""
    report = run.valid(findings=(run.finding("gaps", note="2 records may be there or not"),))
    tree = steps(report, run.events())

    assert named(tree, "judge", "gaps").parameters["note"] == "2 records may be there or not"
    assert [named(tree, *path).message for path in (("judge", "gaps"), ("inject", "kill_broker-1", "prove"))] == ["", ""]
