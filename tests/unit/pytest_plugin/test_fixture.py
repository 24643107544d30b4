"""The fixture `chaos`: what it makes of a test, and what it says to one that would prove nothing. No system is started here."""

import re
from contextlib import nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from chaos.common.errors import DeadlineError, InconclusiveError, MisuseError, ScenarioError, ViolationError
from chaos.common.events import FaultInjected, FaultProved
from chaos.common.history import History
from chaos.engine import session
from chaos.engine.session import OpenRun, Outcome
from chaos.faults.broker_processes import KillBroker
from chaos.faults.spark_executors import CrashExecutor
from chaos.pytest_plugin import fixture, results, scenario_item
from chaos.pytest_plugin.fixture import Chaos
from chaos.pytest_plugin.scenario_file import EXTERNAL_SYSTEM
from chaos.scenario.pipelines import CommandPipeline
from chaos.scenario.workload import Workload
from verifiers.base import Verdict

TOPICS = {"datasource": {"partitions": 3}, "datasink": {"partitions": 3}}
COPIER = CommandPipeline(kind="command", reads=["datasource"], sink={"topic": "datasink"}, run=["app"], group="g")


@dataclass
class FakeReport:
    """As much of a report as decides what pytest sees."""

    verdict: Verdict


@dataclass
class FakeRun:
    """A run that writes down what is done with it."""

    history: History
    flows: bool = True
    verdict: Verdict = Verdict.VALID
    done: list = field(default_factory=list)
    scenario: object = None
    flowing_s: float = 12.34
    committed: int = 5

    def begin(self):
        return self.flows

    def check(self):
        self.done.append("check")

    wait_until = OpenRun.wait_until

    def declare(self, scenario):
        self.scenario = scenario

    def inject(self, name):
        self.done.append(("inject", name))

    def heal(self, name, *, at_once):
        self.done.append(("heal", name, at_once))

    def end(self, error=None):
        self.done.append(("end", error))
        said = None if isinstance(error, DeadlineError | InconclusiveError) else error
        return Outcome(FakeReport(Verdict.UNKNOWN if error else self.verdict), said)


@dataclass
class FakeSession:
    """A session of one run."""

    run: FakeRun
    seed: int = 7
    opened: list = field(default_factory=list)

    def open(self, scenario, spec, replay, _listener):
        self.opened.append((scenario, spec, replay))
        return self.run


@pytest.fixture
def run(tmp_path):
    with History(tmp_path / "history.jsonl") as history:
        yield FakeRun(history)


@pytest.fixture
def driver(run, tmp_path, pytestconfig, monkeypatch):
    """`chaos` for a test of the name test_leader_dies[a b], in a folder without a scenarios file."""
    pytestconfig.stash.setdefault(EXTERNAL_SYSTEM, None)
    for module in (session, results):
        monkeypatch.setattr(module, "explain", lambda report: f"it is {report.verdict.name}\nmore")
    monkeypatch.setattr(scenario_item, "report", lambda outcome, *_, **__: run.done.append(("report", outcome.report.verdict)))
    monkeypatch.setattr(fixture, "Live", lambda _name: nullcontext())
    sections = []
    item = SimpleNamespace(
        name="test_leader_dies[a b]",
        nodeid="test_own.py::test_leader_dies[a b]",
        path=tmp_path / "test_own.py",
        config=pytestconfig,
        function=lambda: None,
        add_report_section=lambda *section: sections.append(section),
        sections=sections,
    )
    return Chaos(FakeSession(run), item)


def test_the_replay_names_files_that_only_the_command_line_names(pytestconfig, monkeypatch):
    """Without them the scenario would not be found, or another one of that name."""
    monkeypatch.setattr(pytestconfig.option, "override_ini", ["chaos_files=own one.yaml", "addopts="])

    assert (
        scenario_item.replay_of("one", FakeSession(None), pytestconfig)
        == "pytest -m chaos -o 'chaos_files=own one.yaml' \"one\" --chaos-seed 7"
    )


def test_a_test_amounts_to_a_scenario(driver, run):
    """It has the test's name, and the faults in the order of their injection, each with the moment at which it was injected."""
    driver.start(COPIER, Workload(records=100, rate="10/s"), recovery_slo="45s", topics=TOPICS)
    with driver.fault(KillBroker(target="any")), driver.fault({"kind": "crash_pipeline"}):
        pass
    with driver.fault(KillBroker(target="all", when={"progress": "40%"})):
        pass
    judged = driver.judge(expect={"gaps": {"lost": 1}}, leave_out={"ordering": "it has none"})

    (_, _, replay) = driver._session.opened[0]
    assert replay == 'pytest -m chaos "test_own.py::test_leader_dies[a b]" --chaos-seed 7'
    assert (run.scenario.name, run.scenario.title) == ("leader-dies-a-b", "leader dies a b")
    assert [(fault.name, str(fault.when)) for fault in run.scenario.faults] == [
        ("kill_broker-1", "12.3 s after output flows"),
        ("crash_pipeline-1", "12.3 s after output flows"),
        ("kill_broker-2", "at 40 % of the workload"),
    ]
    assert run.scenario.exactly == {"gaps": {"lost": 1}}
    assert "ordering" not in run.scenario.verify
    assert run.scenario.recovery_slo_s == 45
    assert (judged, judged.valid) == ("it is VALID\nmore", True)
    driver.require_judged()


def test_a_block_injects_and_heals(driver, run):
    """Blocks inside each other are healed last in first out; what the block is given says what became of its fault."""
    driver.start(COPIER, topics=TOPICS)
    with driver.fault(KillBroker(target="any", name="outer")) as outer, driver.fault(KillBroker(target="any")):
        assert (outer.target, outer.effective, outer.proof) == ("", False, {})
        run.history.record(FaultInjected(fault="outer", target="broker-2 (any)"))
        run.history.record(FaultProved(fault="outer", effective=True, proof={"pids": 1}))
        assert (outer.target, outer.effective, outer.proof) == ("broker-2 (any)", True, {"pids": 1})

    assert run.done == [
        ("inject", "outer"),
        ("inject", "kill_broker-2"),
        ("heal", "kill_broker-2", False),
        ("heal", "outer", False),
    ]


def test_an_error_in_a_block_heals_at_once_and_ends_the_run(driver, run):
    """The report says so, and the test fails with its own error."""
    error = ZeroDivisionError("a defect of the test")
    driver.start(COPIER, topics=TOPICS)
    with pytest.raises(ZeroDivisionError), driver.fault(KillBroker(target="any")):
        raise error
    driver.fail(error)

    assert run.done[1:] == [("heal", "kill_broker-1", True), ("end", error), ("report", Verdict.UNKNOWN)]
    assert driver._item.sections == [("call", "chaos", "it is UNKNOWN\nmore")]


def test_a_pipeline_that_dies_is_judged_all_the_same(driver, run):
    """The run observes what it can, and the test fails with the text of the verdict."""
    error = InconclusiveError("the pipeline ended with 1")
    driver.start(COPIER, topics=TOPICS)

    with pytest.raises(InconclusiveError, match="it is UNKNOWN"):
        driver.fail(error)
    assert run.done == [("end", error), ("report", Verdict.UNKNOWN)]


def test_an_interrupt_is_not_lost_when_another_error_was_being_dealt_with(driver, run):
    driver.start(COPIER, topics=TOPICS)
    run.end = lambda _error: Outcome(FakeReport(Verdict.UNKNOWN), KeyboardInterrupt("SIGINT"))

    with pytest.raises(KeyboardInterrupt):
        driver.fail(ZeroDivisionError())


def test_a_run_without_output_has_no_test(driver, run):
    """As in YAML it ends UNKNOWN, before the body breaks anything."""
    run.flows, run.verdict = False, Verdict.UNKNOWN

    with pytest.raises(InconclusiveError, match="it is UNKNOWN"):
        driver.start(COPIER, topics=TOPICS)
    assert run.done == [("end", None), ("report", Verdict.UNKNOWN)]


@pytest.mark.parametrize(("verdict", "raised"), [(Verdict.INVALID, ViolationError), (Verdict.UNKNOWN, InconclusiveError)])
def test_a_verdict_that_is_asserted_fails_as_a_scenario_does(driver, run, verdict, raised):
    """So it has the same text, and Allure shows UNKNOWN as broken rather than as failed."""
    driver.start(COPIER, topics=TOPICS)
    run.verdict = verdict
    report = driver.judge()
    assert not report.valid

    with pytest.raises(raised, match=f"^it is {verdict.name}\nmore$"):
        driver.fail(AssertionError(f"{report}\nassert False"))
    driver.fail(AssertionError("something else"))
    driver.require_judged()  # the test has seen the verdict, and was content


def test_a_verdict_that_nobody_looks_at_is_not_green(driver, run):
    driver.start(COPIER, topics=TOPICS)
    run.verdict = Verdict.INVALID
    driver.judge()

    with pytest.raises(ViolationError, match="it is INVALID"):
        driver.require_judged()


def test_a_test_that_forgets_to_judge_fails(driver, run):
    """The run is ended and reported."""
    driver.start(COPIER, topics=TOPICS)

    with pytest.raises(MisuseError, match=re.escape("without chaos.judge(), so nothing was judged; end it with")):
        driver.require_judged()
    assert [what for what, _ in run.done] == ["end", "report"]
    driver.close()
    assert len(run.done) == 2


def test_a_test_that_starts_nothing_fails(driver):
    with pytest.raises(MisuseError, match=r"never called chaos\.start, so nothing was judged"):
        driver.require_judged()


def test_a_test_is_one_run(driver):
    driver.start(COPIER, topics=TOPICS)

    with pytest.raises(MisuseError, match=r"chaos\.start was called twice, but a test is one run"):
        driver.start(COPIER, topics=TOPICS)


def test_what_comes_at_a_wrong_time_is_refused(driver):
    """Before the start, and after the verdict."""
    with pytest.raises(MisuseError, match=r"chaos\.fault was called before chaos\.start"):
        driver.fault(KillBroker(target="any"))
    with pytest.raises(MisuseError, match=r"chaos\.judge was called before chaos\.start"):
        driver.judge()
    driver.start(COPIER, topics=TOPICS)
    driver.judge()
    with pytest.raises(MisuseError, match=r"chaos\.judge was called after the end of the run"):
        driver.judge()
    with pytest.raises(MisuseError, match=r"chaos\.committed was called after the end of the run"):
        assert driver.committed


def test_judging_inside_a_block_leaves_nothing_to_heal_at_its_end(driver, run):
    """The run has healed everything by then."""
    driver.start(COPIER, topics=TOPICS)
    with driver.fault(KillBroker(target="any")):
        driver.judge()

    assert run.done == [("inject", "kill_broker-1"), ("end", None), ("report", Verdict.VALID)]


def test_a_fault_that_is_not_possible_is_refused_at_once(driver, run):
    """With the message of YAML, and nothing of it becomes part of the scenario."""
    driver.start(COPIER, topics=TOPICS)
    before = run.scenario

    with pytest.raises(
        ScenarioError, match=r"^faults\.0\.target: this pipeline does not run on Spark, so there is no executor"
    ):
        driver.fault(CrashExecutor(target="executor(any)"))
    assert run.scenario is before
    assert run.done == []


def test_a_wrong_declaration_starts_nothing(driver):
    """And the test may say it again."""
    with pytest.raises(ScenarioError, match=r"^workload\.records: 0 is too small"):
        driver.start(COPIER, {"records": 0}, topics=TOPICS)
    with pytest.raises(ScenarioError, match="so 'square' names no pipeline; declare it in the test"):
        driver.start("square")
    assert driver._session.opened == []
    driver.start("none", topics={"numbers": None})
    assert driver._session.opened[0][0].pipeline.kind == "none"


def test_a_pipeline_is_named_as_in_yaml(driver, tmp_path):
    """By its name in the nearest scenarios file; a name that is not there is told with those that are."""
    text = """\
version: 2
system: {kafka: {brokers: 4}}
pipelines: {copy: {kind: command, run: ["{project}/app"], group: g, reads: [datasource], sink: {topic: datasink}}}
scenarios: [{name: a, title: A, pipeline: copy}]
topics: {datasource: {partitions: 3}, datasink: {partitions: 3}}
"""
    (tmp_path / "scenarios.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(
        ScenarioError, match=r"scenarios.yaml: there is no pipeline 'cpy' \(did you mean copy\?\); there are: copy"
    ):
        driver.start("cpy")
    driver.start("copy")

    scenario, spec, _ = driver._session.opened[0]
    assert scenario.pipeline.run == (f"{tmp_path}/app",)
    assert spec.kafka.brokers == 4


def test_a_wait_ends_with_its_reason(driver, run):
    """The pipeline is looked at meanwhile."""
    driver.start(COPIER, topics=TOPICS)

    driver.wait_until(lambda: driver.committed == 5, within_s=60, reason="five records")
    with pytest.raises(DeadlineError, match="the moon"):
        driver.wait_until(lambda: False, within_s=0.1, reason="the moon")
    assert "check" in run.done
