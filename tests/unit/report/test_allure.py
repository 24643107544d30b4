import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from chaos.report.model import Report
from chaos.report.timeline import draw
from tests.unit.report.conftest import Fabricated
from verifiers.base import Verdict

Results = Mapping[str, Any]


def recorded(folder: Path, **kind: str) -> Fabricated:
    """A run directory with everything that a run leaves behind; its log is larger than what is attached of it."""
    run = Fabricated(folder)
    (folder / "logs").mkdir(parents=True)
    (folder / "logs" / "broker-2.log").write_text("old\n" + "x" * 300_000 + "last line\n", encoding="utf-8")
    for name in ("scenario.json", "schedule.json", "findings.json"):
        (folder / name).write_text(json.dumps(kind), encoding="utf-8")
    (folder / "history.jsonl").write_text("".join(json.dumps(asdict(event)) + "\n" for event in run.events()), encoding="utf-8")
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
    gaps = runs["unknown"].finding("gaps", Verdict.UNKNOWN, checked=0, note="no record was compared")
    reports = {
        "valid": runs["valid"].valid(),
        "invalid": runs["invalid"].report(),
        "unknown": runs["unknown"].report(verdict=Verdict.UNKNOWN, findings=(gaps,), problems=("it did not bite",)),
        "control": runs["control"].control(tags=("control",)),
        "interrupted": runs["interrupted"].report(phases=runs["interrupted"].phases(inject="KeyboardInterrupt: SIGTERM")),
    }
    for name, report in reports.items():
        saved(report, runs[name])
    results = folder / "allure-results"
    command = [sys.executable, "-m", "pytest", "-p", "no:chaos", "-p", "no:cacheprovider", "-q", f"--alluredir={results}"]
    subprocess.run([*command, folder / "test_played.py"], cwd=folder, check=False, timeout=60, capture_output=True)
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
    """Nobody reads them, and they are most of the bytes."""
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
    assert ("feature", "Negative controls: must be caught") in labels
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

    ended = subprocess.run(command, cwd=tmp_path, check=False, timeout=60, capture_output=True, text=True)

    assert "1 passed" in ended.stdout
