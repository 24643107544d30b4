import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from chaos.report.allure import CATEGORIES, Step, steps, write_categories, write_environment, write_executor
from chaos.report.model import Report
from chaos.report.timeline import draw
from tests.unit.report.conftest import Fabricated
from tests.unit.wording import keep
from verifiers.base import Verdict

Results = Mapping[str, Any]


def recorded(folder: Path, **kind: str) -> Fabricated:
    """A run directory with everything that a run leaves behind; its log is larger than what is attached of it."""
    run = Fabricated(folder)
    (folder / "logs").mkdir(parents=True)
    (folder / "logs" / "broker-2.log").write_text("old\n" + "x" * 300_000 + "last line\n", encoding="utf-8")
    for name in ("scenario.json", "schedule.json", "findings.json"):
        (folder / name).write_text(json.dumps(kind), encoding="utf-8")
    (folder / "history.jsonl").write_text("".join(event.to_json() + "\n" for event in run.events()), encoding="utf-8")
    return run


def saved(report: Report, run: Fabricated) -> None:
    """Beside its history."""
    report.model_copy(update={"run_dir": run.folder}).write()


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five runs shown by a pytest of its own; the folder of the results."""
    folder = tmp_path_factory.mktemp("allure")
    (folder / "test_played.py").write_text(Path(__file__).with_name("played.py").read_text(encoding="utf-8"), encoding="utf-8")
    runs = {name: recorded(folder / name, scenario=name) for name in ("valid", "invalid", "unknown", "control", "interrupted")}
    draw(runs["invalid"].report(), runs["invalid"].events(), runs["invalid"].folder)
    (runs["invalid"].folder / "report.html").write_text("<!DOCTYPE html>", encoding="utf-8")  # as --chaos-html asks for it
    gaps = runs["unknown"].finding("gaps", Verdict.UNKNOWN, checked=0, note="no record was compared")
    reports = {
        "valid": runs["valid"].valid(),
        "invalid": runs["invalid"].report(),
        "unknown": runs["unknown"].report(verdict=Verdict.UNKNOWN, findings=(gaps,), problems=("it had no effect",)),
        "control": runs["control"].control(tags=("control",)),
        "interrupted": runs["interrupted"].report(phases=runs["interrupted"].phases(inject="KeyboardInterrupt: SIGTERM")),
    }
    for name, report in reports.items():
        saved(report, runs[name])
    results = folder / "allure-results"
    command = [sys.executable, "-m", "pytest", "-p", "no:chaos", "-p", "no:cacheprovider", "-q", f"--alluredir={results}"]
    subprocess.run([*command, folder / "test_played.py"], cwd=folder, check=False, timeout=280, capture_output=True)
    return results


@pytest.fixture
def results(played: Path) -> dict[str, Results]:
    """Scenario -> its result."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in played.glob("*-result.json")]
    return {result["parameters"][0]["value"].strip("'"): result for result in found}


def test_outcomes_are_those_of_the_verdicts(results: dict[str, Results]) -> None:
    """A broken guarantee is failed, a run that proved nothing is broken, a caught control is passed."""
    assert {name: result["status"] for name, result in results.items()} == {
        "valid": "passed",
        "invalid": "failed",
        "unknown": "broken",
        "control": "passed",
        "interrupted": "broken",
    }


def test_an_interrupted_run_is_not_green(results: dict[str, Results]) -> None:
    """Pytest gives it no outcome, and Allure would show that its set-up passed."""
    assert results["interrupted"]["statusDetails"]["message"].startswith("KeyboardInterrupt")


def test_steps_have_the_times_of_the_run_and_not_of_the_report(results: dict[str, Results]) -> None:
    """Down to the action of a fault."""
    phases = {step["name"]: step for step in results["invalid"]["steps"]}
    fault = phases["inject"]["steps"][0]
    run = Fabricated(Path())

    assert list(phases) == ["set_up", "steady", "inject", "heal", "drain", "observe", "judge"]
    assert (phases["inject"]["start"], phases["inject"]["stop"]) == (run.at(3), run.at(11))
    assert fault["name"] == "kill_broker-1 on broker-2 (leader of datasink-0)"
    assert {"name": "draw", "value": "1729"} in fault["parameters"]
    assert [(step["name"], step["start"]) for step in fault["steps"]][1] == ("inject", run.at(4.9))


def test_steps_have_the_status_of_what_they_found(results: dict[str, Results]) -> None:
    """Red leads to the finding, and its message says why nothing was proved."""
    judge = {name: result["steps"][-1] for name, result in results.items()}

    assert [step["status"] for step in judge["invalid"]["steps"]] == ["failed", "passed"]
    assert judge["unknown"]["steps"][0]["status"] == "broken"
    assert judge["unknown"]["steps"][0]["statusDetails"]["message"] == "no record was compared"


def test_what_the_run_left_behind_is_attached(results: dict[str, Results], played: Path) -> None:
    """The text first, then the picture; of a log only its end."""
    attached = {attachment["name"]: attachment for attachment in results["invalid"]["attachments"]}

    assert list(attached) == [
        "verdict.txt",
        "report.html",
        "timeline.svg",
        "timeline.png",
        "findings.json",
        "scenario.json",
        "schedule.json",
        "history.jsonl",
        "broker-2.log (tail)",
    ]
    tail = (played / attached["broker-2.log (tail)"]["source"]).read_bytes()
    assert (len(tail), tail[-10:]) == (256 * 1024, b"last line\n")
    assert (played / attached["verdict.txt"]["source"]).read_text(encoding="utf-8").startswith("INVALID: duplicates")


def test_logs_of_a_valid_run_are_not_attached(results: dict[str, Results]) -> None:
    """They would be most of the bytes, and there is no reason to read them."""
    assert not [attachment for attachment in results["valid"]["attachments"] if "tail" in attachment["name"]]


def test_a_test_is_the_same_test_whatever_its_seed(results: dict[str, Results]) -> None:
    """Seed, replay and recovery are shown, but are no part of the key of its history."""
    parameters = {parameter["name"]: parameter for parameter in results["valid"]["parameters"]}

    assert parameters["seed"] == {"name": "seed", "value": "7", "excluded": True}
    assert parameters["replay"]["excluded"]
    assert parameters["recovery"]["excluded"]
    assert len({result.get("historyId") for result in results.values()}) == 5


def test_labels_and_title_come_from_the_scenario(results: dict[str, Results]) -> None:
    """Controls are a group of their own; tags are the test's marks, each once."""
    labels = [(label["name"], label["value"]) for label in results["control"]["labels"]]

    assert results["valid"]["name"] == "A leader that dies in the middle of a batch leaves every record in the sink once"
    (feature,) = (value for name, value in labels if name == "feature")
    assert keep(feature).startswith("Negative controls")
    assert ("story", "kill_broker") in labels
    assert ("severity", "normal") in labels
    assert labels.count(("tag", "smoke")) == 1
    assert results["valid"]["description"].startswith("**VALID**: duplicates")


def test_without_allure_a_run_is_not_shown(tmp_path: Path) -> None:
    """No results directory, no work: the run ends as it does with one."""
    saved(recorded(tmp_path / "valid").valid(), Fabricated(tmp_path / "valid"))
    (tmp_path / "test_played.py").write_text(
        Path(__file__).with_name("played.py").read_text(encoding="utf-8"), encoding="utf-8"
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:chaos",
        "-p",
        "no:cacheprovider",
        "-q",
        "test_played.py",
        "-k",
        "[valid]",
    ]

    ended = subprocess.run(command, cwd=tmp_path, check=False, timeout=280, capture_output=True, text=True)

    assert "1 passed" in ended.stdout


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
    """The report has its target, its time, its draw and its proof."""
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
    events = tuple(event for event in run.events() if event.value.f != "prove")
    events += (run.event(900, 5.1, "nemesis", "invoke", "prove", fault="kill_broker-1"),)
    events += (run.event(901, 5.6, "nemesis", "ok", "prove", fault="kill_broker-1", effective=False, proof={"refused": []}),)
    report = run.valid(faults=(run.fault(effective=False, problem="it had no effect"),))

    tree = steps(report, events)

    assert named(tree, "inject").status == "broken"
    assert named(tree, "inject", "kill_broker-1").message == "it had no effect"
    assert named(tree, "inject", "kill_broker-1", "prove").status == "broken"
    assert named(tree, "inject", "kill_broker-1", "trigger").status == "passed"


def test_a_fault_whose_heal_showed_no_effect_breaks_its_phase(run: Fabricated) -> None:
    """With the reason at the heal, because the proof was not at fault."""
    events = tuple(event for event in run.events() if event.value.f != "heal")
    events += (run.event(900, 8.1, "nemesis", "invoke", "heal", fault="kill_broker-1"),)
    events += (run.event(901, 8.6, "nemesis", "ok", "heal", fault="kill_broker-1", effective=False, problem="unanswered"),)
    report = run.valid(faults=(run.fault(effective=False, problem="it had no effect: unanswered"),))

    tree = steps(report, events)

    assert named(tree, "inject", "kill_broker-1", "heal").message == "it had no effect: problem unanswered"
    assert named(tree, "inject", "kill_broker-1", "prove").status == "passed"


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


GITHUB = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_SERVER_URL": "https://github.com",
    "GITHUB_REPOSITORY": "owner/project",
    "GITHUB_RUN_ID": "99",
    "GITHUB_RUN_NUMBER": "12",
    "GITHUB_WORKFLOW": "nightly",
}


def test_environment_survives_the_format_of_properties(tmp_path: Path) -> None:
    """A space, a colon or an equals sign would end the key; a line break the value."""
    write_environment(tmp_path / "new", {"Kafka": "4.3.0", "java version": "17\nTemurin", "a=b:c": 3})

    assert (tmp_path / "new" / "environment.properties").read_text(encoding="utf-8").splitlines() == [
        "Kafka = 4.3.0",
        "java\\ version = 17\\nTemurin",
        "a\\=b\\:c = 3",
    ]


@pytest.mark.parametrize(
    ("status", "message", "category"),
    [
        ("failed", "chaos.common.errors.ViolationError: INVALID: duplicates 3\nmore", "Guarantee broken"),
        (
            "broken",
            "chaos.common.errors.InconclusiveError: UNKNOWN: gaps ?\n  drain: chaos.common.errors.DeadlineError: x",
            "Proved nothing",
        ),
        ("broken", "chaos.common.errors.RuntimeUnavailableError: no JDK", "System not available"),
        ("broken", "chaos.common.errors.DeadlineError: waited 60 s", "System not available"),
        ("broken", "KeyboardInterrupt: the run was ended", "Interrupted"),
        ("broken", "KeyError: 'chaos.common.errors.InconclusiveError'", "Defect of the framework"),
        ("broken", "chaos.common.errors.InjectionError: no", "Defect of the framework"),
    ],
)
def test_every_red_has_exactly_one_category(status: str, message: str, category: str) -> None:
    """The message's beginning decides, whatever else it quotes."""
    matching = [
        one["name"]
        for one in CATEGORIES
        if status in one["matchedStatuses"] and re.fullmatch(str(one.get("messageRegex", r"[\s\S]*")), message)
    ]

    assert matching == [category]


def test_categories_are_written_as_allure_reads_them(tmp_path: Path) -> None:
    """A list, in the file of that name."""
    write_categories(tmp_path)

    assert json.loads((tmp_path / "categories.json").read_text(encoding="utf-8")) == list(CATEGORIES)


def test_a_run_of_github_links_back_to_itself(tmp_path: Path) -> None:
    """From the report to the job in one click."""
    write_executor(tmp_path, GITHUB)

    executor = json.loads((tmp_path / "executor.json").read_text(encoding="utf-8"))
    assert executor["buildUrl"] == "https://github.com/owner/project/actions/runs/99"
    assert (executor["buildName"], executor["buildOrder"]) == ("nightly #12", 12)


def test_anything_else_is_a_local_run(tmp_path: Path) -> None:
    """No CI is guessed from half of its variables."""
    write_executor(tmp_path, {"GITHUB_RUN_ID": "99"})

    assert json.loads((tmp_path / "executor.json").read_text(encoding="utf-8"))["name"] == "local run"


def test_without_a_results_directory_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--alluredir` was not given."""
    monkeypatch.chdir(tmp_path)

    write_environment(None, {"a": 1})
    write_categories(None)
    write_executor(None, {})

    assert list(tmp_path.iterdir()) == []
