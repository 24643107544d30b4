"""A run as pytest sees it, the end of an open run, and of a session that started nothing."""

import json
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event
from types import SimpleNamespace

import pytest
from pyspark.logger import PySparkLogger

from chaos.common.errors import DeadlineError, InconclusiveError, InjectionError, ViolationError
from chaos.common.events import RunFailed
from chaos.common.history import load, of_type
from chaos.contract.base import Topic, Topics
from chaos.engine import session
from chaos.engine.environment import Environment
from chaos.engine.run_plan import RunPlan
from chaos.engine.session import JudgeSpark, OpenRun, Outcome, Session
from chaos.loader.declaration import FillSource
from chaos.scenario.draft import Draft, Ground
from chaos.scenario.model import Scenario
from chaos.scenario.plan import plan
from chaos.scenario.system import SystemSpec
from tests.unit.engine.played import run_plan
from verifiers.base import Verdict


@dataclass(frozen=True)
class FakeReport:
    """As much of a report as decides what pytest sees."""

    verdict: Verdict


@pytest.fixture(autouse=True)
def _explained(monkeypatch):
    monkeypatch.setattr(session, "explain", lambda report: f"it is {report.verdict.name}")


@pytest.mark.parametrize(
    ("verdict", "error", "raised"),
    [
        (Verdict.INVALID, None, ViolationError),
        (Verdict.UNKNOWN, None, InconclusiveError),
        (Verdict.UNKNOWN, DeadlineError("late"), InconclusiveError),
        (Verdict.INVALID, InconclusiveError("no trigger"), ViolationError),
        (Verdict.VALID, InjectionError("refused"), InjectionError),
        (Verdict.UNKNOWN, KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_what_is_not_valid_is_raised(verdict, error, raised):
    """An error that only kept the run from proving something gives way to the verdict, every other one is raised itself."""
    with pytest.raises(raised):
        Outcome(FakeReport(verdict), error).settle()


def test_a_valid_run_is_green():
    Outcome(FakeReport(Verdict.VALID)).settle()


def test_an_interrupt_is_raised_without_the_trace_of_its_moment():
    """A frame of it may have no line (Python 3.11), and pytest could not print it."""
    interrupt = KeyboardInterrupt("SIGINT")

    with pytest.raises(KeyboardInterrupt, match="SIGINT") as raised:
        Outcome(FakeReport(Verdict.UNKNOWN), interrupt).settle()

    assert raised.value is not interrupt
    assert raised.value.__suppress_context__


@pytest.fixture
def judge(tmp_path, monkeypatch):
    """The judge's Spark, whose start waits until it is told to go on."""
    go_on = Event()

    def slow(_parts, _scratch):
        go_on.wait(60)

    monkeypatch.setattr(session.spark_session, "of_run_warmed_up", slow)
    monkeypatch.setattr(session, "_SPARK_WITHIN_S", 0.05)
    monkeypatch.setattr(session, "session_files", lambda: tmp_path / "sessions")
    one = JudgeSpark(tmp_path)
    one.begin(None)
    yield one
    go_on.set()
    one.close()


def test_a_judge_that_does_not_start_says_what_was_waited_for(judge):
    """A bare TimeoutError would be all that a report says."""
    with pytest.raises(DeadlineError, match=r"waited 0\.05 s for the judge's Spark to start"):
        judge.get()


def test_what_pyspark_raises_is_not_logged_too(judge, caplog):
    """Its loggers speak again when the judge is gone."""
    logger = PySparkLogger.getLogger("DataFrameQueryContextLogger")

    logger.error("of a query")
    judge.close()
    logger.error("of a user's own")

    assert [record.getMessage() for record in caplog.records] == ["of a user's own"]


def test_a_session_that_started_nothing_can_be_closed(tmp_path):
    said = []

    Session(Environment(tmp_path, said.append), 1).close()

    assert said == []
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """An open run of nothing but its block, the draft of its scenario, and what its phases have done."""
    done = []

    @contextmanager
    def under_way(run_plan, *_, **__):
        stage = SimpleNamespace(plan=run_plan, flows=True)
        try:
            yield stage
        except InconclusiveError:
            done.append("tolerated")
        done.append(stage.plan.scenario.expect)

    monkeypatch.setattr(session, "under_way", under_way)
    monkeypatch.setattr(session, "_report", lambda run_plan, _replay: run_plan)
    draft = Draft(Ground(tmp_path, SystemSpec()), name="a", title="A", pipeline={"kind": "none"}, topics={"numbers": {}})
    topics, loaders = Topics((Topic("numbers", 3),), ""), (FillSource(30_000, 3000.0),)
    run_plan = RunPlan(draft.scenario, plan(draft.scenario, 1), tmp_path, topics, loaders, None, "loader")
    run = OpenRun(Session(Environment(tmp_path, print), 1), run_plan, None, "replay", lambda _event: None)
    return run, draft, done


def failures(run):
    return [value.error for _, value in of_type(tuple(load(run.history.path)), RunFailed)]


def test_an_open_run_is_judged_by_the_scenario_that_it_has_come_to(opened):
    """It is also what is written down, for those who judge it again."""
    run, draft, done = opened
    assert run.begin()
    draft.add({"kind": "lose_response", "when": {"request": "Produce"}}, 0)
    run.declare(draft.complete(expect={"gaps": "invalid"}))

    outcome = run.end()

    assert (outcome.error, done, failures(run)) == (None, [{"gaps": "invalid"}], [])
    assert outcome.report.schedule.steps[0].name == "lose_response-1"
    for name in ("scenario", "schedule"):
        assert "lose_response-1" in json.dumps(json.loads((outcome.report.folder / f"{name}.json").read_text(encoding="utf-8")))


@pytest.mark.parametrize("error", [ZeroDivisionError("a defect of the test"), KeyboardInterrupt("SIGINT")])
def test_an_error_ends_an_open_run(opened, error):
    """The history has it, so the report has it."""
    run, _, done = opened
    run.begin()

    assert run.end(error).error is error
    assert done == []
    assert failures(run) == [f"{type(error).__name__}: {error}"]


def test_an_error_that_says_that_nothing_was_proved_ends_the_block_only(opened):
    run, _, done = opened
    run.begin()

    assert run.end(InconclusiveError("the pipeline ended")).error is None
    assert done == ["tolerated", "valid"]
    assert failures(run) == []


def test_a_run_that_could_not_begin_is_reported(opened):
    """Such a run has no block that could be left."""
    run, _, done = opened
    error = DeadlineError("the system is not healthy")

    assert run.end(error).error is error
    assert (done, failures(run)) == ([], ["DeadlineError: the system is not healthy"])


def test_a_set_up_that_fails_is_reported(tmp_path, monkeypatch):
    """The error that is raised by the beginning is the one that has ended the run."""
    error = InconclusiveError("not healthy")

    @contextmanager
    def under_way(*_, **__):
        raise error
        yield

    monkeypatch.setattr(session, "under_way", under_way)
    monkeypatch.setattr(session, "_report", lambda run_plan, _replay: run_plan)
    run = OpenRun(Session(Environment(tmp_path, print), 1), run_plan(tmp_path), None, "replay", lambda _event: None)

    with pytest.raises(InconclusiveError) as raised:
        run.begin()
    assert run.end(raised.value).error is error
    assert failures(run) == ["InconclusiveError: not healthy"]


def test_rows_that_cannot_be_had_are_reported(tmp_path, monkeypatch):
    """The run is UNKNOWN, and says why in a line; nothing was started."""
    workload = {"rows": {"python": "no_such:orders"}}
    scenario = Scenario.model_validate({"name": "a", "title": "A", "pipeline": {"kind": "none"}, "workload": workload})
    topics, loaders = Topics((Topic("source", 3),), "sink"), (FillSource(1, 1.0),)
    run_plan = RunPlan(scenario.below(tmp_path), plan(scenario, 1), tmp_path, topics, loaders, None, "loader")
    monkeypatch.setattr(Session, "_planned", lambda *_: (run_plan, None))

    outcome = Session(Environment(tmp_path, print), 1).run(scenario, SystemSpec(), "replay", lambda _event: None)

    assert outcome.report.verdict is Verdict.UNKNOWN
    said = "workload, rows, python: no_such:orders cannot be imported: No module named 'no_such'"
    assert any(said in problem for problem in outcome.report.problems), outcome.report.problems
    with pytest.raises(InconclusiveError):
        outcome.settle()
