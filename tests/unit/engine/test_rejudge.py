"""`chaos judge` of a folder that cannot be judged: one line that names the file, before anything is started."""

import json
import re

import pytest

from chaos.common.errors import InconclusiveError
from chaos.common.events import FORMAT, PhaseBegan, PhaseEnded, RunBegan
from chaos.common.history import History
from chaos.engine.rejudge import rejudge
from chaos.install import artifacts
from chaos.scenario.model import Scenario
from chaos.scenario.plan import plan, to_json
from tests.unit.wording import keep, named

SCENARIO = Scenario.model_validate(
    {
        "name": "judged",
        "title": "A run that is over",
        "pipeline": {"kind": "command", "reads": ["datasource"], "sink": {"topic": "datasink"}, "run": ["app"], "group": "g"},
        "workload": {"records": 1000, "rate": "1000/s"},
        "faults": [{"kind": "kill_broker", "target": "broker-1", "when": {"progress": "40%"}}],
    }
)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run directory without evidence; whoever asks for Spark has come too far."""
    monkeypatch.setattr(artifacts, "at_hand", lambda: pytest.fail("nothing is wrong with the files"))
    (tmp_path / "scenario.json").write_text(SCENARIO.to_run(), encoding="utf-8")
    (tmp_path / "schedule.json").write_text(json.dumps(to_json(plan(SCENARIO, 1))), encoding="utf-8")
    with History(tmp_path / "history.jsonl") as history:
        history.record(RunBegan(run="x", format=FORMAT))
        history.record(PhaseBegan(phase="set_up"))
        history.record(PhaseEnded(phase="set_up"))
    return tmp_path


def refused(run):
    """The message of the refusal."""
    with pytest.raises(InconclusiveError) as caught:
        rejudge(run, lambda _line: None)
    return str(caught.value)


@pytest.mark.parametrize("name", ["scenario.json", "schedule.json", "history.jsonl"])
def test_a_folder_that_is_no_run_directory(run, name):
    """The file that is missing is named."""
    (run / name).unlink()

    named(refused(run), f"{run} ", f"{name} is missing")


@pytest.mark.parametrize(
    ("name", "old", "new", "why"),
    [
        ("scenario.json", '"title"', '"titel"', "title: Field required"),
        ("scenario.json", '"verify"', '"verified"', "KeyError: 'verify'"),
        ("scenario.json", '"judged"', "", "JSONDecodeError: Expecting value"),
        ("schedule.json", '"draw"', '"drawn"', "KeyError: 'draw'"),
        ("schedule.json", '"steps"', "", "JSONDecodeError: Expecting property name"),
        ("schedule.json", '"kind": "kill_broker"', '"kind": "kill_boss"', "'kill_boss' found"),
    ],
)
def test_a_file_that_is_damaged(run, name, old, new, why):
    """Told in one line, with what is wrong in it."""
    text = (run / name).read_text(encoding="utf-8")
    assert old in text
    (run / name).write_text(text.replace(old, new, 1), encoding="utf-8")

    said = refused(run)

    assert said.startswith(f"{run / name} is damaged (")
    assert why in said
    keep(re.sub(r"\(.*\)", "(<why>)", said))
    assert "\n" not in said


def test_a_list_in_place_of_a_schedule(run):
    """JSON, and still none of ours."""
    (run / "schedule.json").write_text("[]", encoding="utf-8")

    assert refused(run).startswith(f"{run / 'schedule.json'} is damaged (TypeError: ")


def test_a_folder_in_place_of_a_file(run):
    """It is there, and cannot be read."""
    (run / "schedule.json").unlink()
    (run / "schedule.json").mkdir()

    assert refused(run) == f"{run / 'schedule.json'} cannot be read: Is a directory"


def test_a_damaged_history(run):
    """With its line."""
    text = (run / "history.jsonl").read_text(encoding="utf-8")
    (run / "history.jsonl").write_text(f"?\n{text}", encoding="utf-8")

    assert refused(run).startswith(f"{run / 'history.jsonl'}:1 is damaged (")


@pytest.mark.parametrize("format_", [2, FORMAT + 1])
def test_a_run_of_another_version_is_refused(run, format_):
    """Its words may mean something else, and its report would be replaced; it is told before anything else is wrong."""
    (run / "history.jsonl").unlink()
    with History(run / "history.jsonl") as history:
        history.record(RunBegan(run="x") if format_ == 2 else RunBegan(run="x", format=format_))
    (run / "scenario.json").write_text("{}", encoding="utf-8")

    assert keep(refused(run)).startswith(f"{run} has format {format_}, ")


def lines(run, kept):
    """Put a history in place of that of the run, without some of its lines."""
    (run / "history.jsonl").unlink()
    with History(run / "history.jsonl") as history:
        history.record(RunBegan(run="x", format=FORMAT))
        for phase in ("set_up", "heal", "drain", "observe", "judge"):
            history.record(PhaseBegan(phase=phase))
            history.record(PhaseEnded(phase=phase))
        history.end()
    whole = (run / "history.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (run / "history.jsonl").write_text("".join(whole[number] for number in kept), encoding="utf-8")


@pytest.mark.parametrize(
    ("kept", "why"),
    [
        (range(5), " ends with line 5, "),
        ((*range(3), *range(9, 12)), " lacks lines 4 to 9: "),
        ((*range(11),), " ends with line 11, "),
    ],
)
def test_a_history_without_some_of_its_lines(run, kept, why):
    """Cut at the end of heal, or without heal, drain and observe in the middle: a failure may have been there."""
    lines(run, kept)

    assert keep(refused(run)).startswith(f"{run / 'history.jsonl'}{why}")


@pytest.mark.parametrize("report", [{}, {"phases": [{"name": "observe"}]}, {"phases": 1}])
def test_a_run_that_was_killed_while_it_was_judged(run, report):
    """It is judged, unless its report shows that the phase had ended."""
    lines(run, range(10))
    (run / "report.json").write_text(json.dumps(report | {"replay": "pytest"}), encoding="utf-8")
    with pytest.raises(pytest.fail.Exception, match="nothing is wrong"):
        rejudge(run, lambda _line: None)

    (run / "report.json").write_text(json.dumps({"replay": "pytest", "phases": [{"name": "judge"}]}), encoding="utf-8")

    assert " ends with line 10, " in refused(run)
