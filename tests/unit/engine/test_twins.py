"""Which twin a run has, when a new one is made, and why there may be none."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.common.errors import DeadlineError, InconclusiveError
from chaos.common.events import PhaseFailed, TwinUsed
from chaos.common.history import History
from chaos.contract.base import Topic, Topics
from chaos.engine import twin_key, twins
from chaos.engine.run_plan import RunPlan
from chaos.engine.twin_key import key_of
from chaos.expectation.ways import TheTwin
from chaos.judging.findings_file import FILE, FindingsFile
from chaos.loader.declaration import FillSource
from chaos.report.model import build
from chaos.scenario.model import Scenario
from chaos.scenario.plan import plan
from tests import deployed
from tests.unit.wording import keep
from verifiers.base import Finding, Verdict

SYSTEM: Any = SimpleNamespace(
    versions=lambda: {"kafka": "4.3.0", "os": "Linux 6"}, kafka=SimpleNamespace(cluster=SimpleNamespace(prefix=""))
)
OTHER_SYSTEM: Any = SimpleNamespace(versions=lambda: {"kafka": "4.2.0"})
ABOUT = {"key": "k", "rows": 7, "made": "20261125T101112Z", "run": "r", "source": {}}


def no_spark() -> Any:
    pytest.fail("Spark was asked for")


def run_plan(folder: Path, topics: dict[str, Any] | None = None, **pipeline: object) -> RunPlan:
    declared: dict[str, Any] = {"kind": "command", "run": ["a"], "group": "g", "reads": ["orders"], "sink": {"topic": "kept"}}
    declared |= {"expected": {"same_as": "fault_free"}, **pipeline}
    fault = {"kind": "crash_pipeline", "when": {"after": "1s"}}
    one = Scenario.model_validate(
        {
            "name": "a",
            "title": "A",
            "pipeline": declared,
            "topics": topics or {"orders": {}, "kept": {}},
            "workload": {"records": 9},
            "faults": [fault],
            "expect": {"duplicates": "invalid"},
        }
    )
    own = Topics((Topic("orders-1", 3),), "kept-1")
    return RunPlan(one, plan(one, 5), folder, own, (FillSource(9, 1000.0),), deployed.command(("a",), "g"), "app")


def test_who_needs_a_twin(tmp_path: Path) -> None:
    """Only who says so."""
    others = ({"expected": "source"}, {"expected": {"sql": "SELECT key, value FROM orders"}})
    alone = Scenario.model_validate({"name": "a", "title": "A", "pipeline": {"kind": "none"}})

    assert run_plan(tmp_path).scenario.pipeline.way.runs_before == 2
    assert [run_plan(tmp_path, **one).scenario.pipeline.way.runs_before for one in others] == [0, 0]
    assert alone.pipeline.way.runs_before == 0


def test_what_makes_another_twin(tmp_path: Path) -> None:
    """The pipeline as it is declared, its files and the modules beside them, topics, workload, rows, and the system."""
    script, module, package, data = (tmp_path / name for name in ("job.py", "shop.py", "lib/deep/tax.py", "data/rates.csv"))
    for path in (script, module, package, data):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1", encoding="utf-8")
    (tmp_path / "lib" / "__init__.py").touch()
    (tmp_path / "other").mkdir()
    (tmp_path / "rows.parquet").write_bytes(b"1")
    said: dict[str, Any] = {
        "run": ["python", str(script)],
        "expected": {"same_as": "fault_free", "files": [str(tmp_path / "data")]},
    }
    planned = run_plan(tmp_path, **said)
    with_rows = replace(planned, loaders=(FillSource(9, 1.0, rows=tmp_path / "rows.parquet"),))
    keys = [key_of(one, SYSTEM) for one in (planned, with_rows)]

    def changed(path: Path) -> str:
        path.write_text(path.read_text(encoding="utf-8") + "2", encoding="utf-8")
        return key_of(with_rows, SYSTEM)

    keys += [changed(path) for path in (script, module, package, data, tmp_path / "rows.parquet")]
    keys += [key_of(run_plan(tmp_path, **said, restarts=1), SYSTEM)]
    keys += [key_of(run_plan(tmp_path, {"orders": {"partitions": 4}, "kept": {}}, **said), SYSTEM)]
    keys += [key_of(planned, OTHER_SYSTEM)]
    keys += [key_of(planned, SYSTEM)]

    assert len(set(keys)) == len(keys) == 11
    (tmp_path / "other" / "notes.py").touch()  # no package, and nobody names it
    elsewhere: Any = SimpleNamespace(versions=lambda: {"kafka": "4.3.0", "os": "Linux 7"})
    assert key_of(replace(planned, folder=tmp_path / "other"), elsewhere) == keys[-1]
    unbroken = planned.scenario.model_copy(update={"faults": (), "name": "b", "expect": "valid"})
    assert key_of(replace(planned, scenario=unbroken), SYSTEM) == keys[-1]


def test_modules_of_a_working_directory_and_of_a_path_of_python(tmp_path: Path) -> None:
    """A command may name neither: ``python -m shop`` finds them there."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "shop.py").write_text("1", encoding="utf-8")
    planned = run_plan(tmp_path, working_directory=str(tmp_path / "here"), environment={"PYTHONPATH": f"{tmp_path}/there:/no"})

    assert set(twin_key._files(planned)) == {tmp_path / "here" / "shop.py", tmp_path / "there" / "shop.py"}


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    """UNKNOWN, and its name: which twin is the right one is not known."""
    planned = run_plan(tmp_path, expected={"same_as": "fault_free", "files": [str(tmp_path / "gone.csv")]})

    with pytest.raises(
        InconclusiveError, match=r"same_as: /.*/gone.csv, a part of the pipeline, cannot be read \(No such file or directory\)"
    ):
        key_of(planned, SYSTEM)


def test_one_that_is_kept_is_used(tmp_path: Path) -> None:
    """Nothing is run, and a copy is in the folder of the run; the report says which it was."""
    planned = run_plan(tmp_path / "run")
    planned.folder.mkdir()
    kept = tmp_path / "twins" / key_of(planned, SYSTEM)
    (kept / "rows").mkdir(parents=True)
    (kept / "about.json").write_text(json.dumps(ABOUT), encoding="utf-8")

    with History(planned.folder / "history.jsonl") as history:
        twins.with_twin(planned, SYSTEM, history, no_spark, tmp_path / "twins")
        events = history.events()

    assert [event.value for event in events] == [TwinUsed(key=kept.name, rows=7, made="20261125T101112Z", runs=0)]
    assert (planned.folder / "twin" / "rows").is_dir()
    report = build(planned.scenario, planned.schedule, events, (), planned.folder, "")
    told = keep(report.twin, {kept.name: "<key>"})
    assert all(fact in told for fact in ("7 rows", "20261125T101112Z", kept.name))


Played = Callable[[RunPlan, History], None]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Played], None]:
    """Make a twin whose runs do this."""

    def make(played: Played) -> None:
        monkeypatch.setattr(twins, "execute", lambda plan, _system, history, _spark: played(plan, history))
        planned = run_plan(tmp_path / "run")
        planned.folder.mkdir()
        with History(planned.folder / "history.jsonl") as history:
            twins.with_twin(planned, SYSTEM, history, no_spark, tmp_path / "twins")

    return make


def raises(_plan: RunPlan, _history: History) -> None:
    raise DeadlineError("waited 9 s for a healthy system")


def ended(_plan: RunPlan, history: History) -> None:
    history.record(PhaseFailed(phase="drain", error="InconclusiveError: the pipeline ended with 1"))


def hangs(plan_: RunPlan, _history: History) -> None:
    finding = Finding("hanging", "sink", Verdict.INVALID, 1, 3, {"hanging": 1})
    (plan_.folder / FILE).write_text(FindingsFile(findings=(finding,)).model_dump_json(), encoding="utf-8")


@pytest.mark.parametrize(
    ("played", "why"),
    [
        (raises, "waited 9 s for a healthy system; see "),
        (ended, "InconclusiveError: the pipeline ended with 1; see "),
        (hangs, "hanging of the sink: INVALID; see "),
    ],
)
def test_a_run_without_faults_that_fails(made: Callable[[Played], None], tmp_path: Path, played: Played, why: str) -> None:
    """UNKNOWN in one line, with the folder of that run; nothing is kept."""
    with pytest.raises(InconclusiveError) as caught:
        made(played)

    said = keep(str(caught.value))
    assert said.startswith("pipeline, expected, same_as: ")
    assert said.endswith(f"{why}{tmp_path}/run/twin/run-without-faults-1")
    assert not (tmp_path / "twins").exists()


def test_what_a_run_without_faults_is(made: Callable[[Played], None]) -> None:
    """It is the same run with topics and a folder of its own, and nothing is expected of its rows."""
    seen: list[RunPlan] = []

    def watched(plan_: RunPlan, _history: History) -> None:
        seen.append(plan_)
        raise InconclusiveError("enough")

    with pytest.raises(InconclusiveError):
        made(watched)

    (twin,) = seen
    assert (type(twin.expectation), twin.expectation.counts_records, twin.schedule.steps, twin.scenario.expect) == (
        TheTwin,
        True,
        (),
        "valid",
    )
    assert twin.topics.sink == "kept-run-without-faults-1"
    assert not {"duplicates", "gaps", "ordering", "values", "offsets"} & set(twin.scenario.verify)
    assert {"ledger", "atomicity", "hanging", "progress"} <= set(twin.scenario.verify)
    assert (twin.pipeline, twin.loaders) == (deployed.command(("a",), "g"), (FillSource(9, 1000.0),))
