"""One invocation of pytest: the parts that its scenarios share, and the running of one scenario to its report.

It imports more than fifteen modules: each step from a declared scenario to its report is one.
"""

import json
import shutil
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from confluent_kafka import KafkaException
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from chaos.cluster.system import System
from chaos.common import clock, files, warden
from chaos.common.errors import ChaosError, DeadlineError, InconclusiveError, ViolationError
from chaos.common.events import FORMAT, RunBegan, RunFailed
from chaos.common.history import Event, History, load
from chaos.engine import kept_twins, triggers, twins
from chaos.engine.demand import has_model, with_demand
from chaos.engine.environment import Environment
from chaos.engine.run import Stage, execute, in_phase, under_way
from chaos.engine.run_plan import RunPlan, plan_run
from chaos.engine.runtimes import session_files
from chaos.engine.workload_rows import made_beforehand, with_rows
from chaos.install.artifacts import Parts
from chaos.judging import spark_session
from chaos.judging.findings_file import load_findings
from chaos.report import coverage
from chaos.report.failure_text import explain
from chaos.report.model import Report, build
from chaos.runtime.capabilities import Capability
from chaos.scenario.model import Scenario
from chaos.scenario.plan import plan
from chaos.scenario.support import for_external
from chaos.scenario.system import SystemSpec
from verifiers.base import Verdict

_SPARK_WITHIN_S = 300.0  # ten seconds on a quiet machine


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a run: its report, and the error that ended it early, if one did."""

    report: Report
    error: BaseException | None = None

    def settle(self) -> None:
        """Raise the error that pytest must see; none for a VALID run.

        Raises:
            ViolationError: INVALID. InconclusiveError: UNKNOWN. Or the error that ended the run.
        """
        self.require_end()
        if self.report.verdict is Verdict.INVALID:
            raise ViolationError(explain(self.report))
        if self.report.verdict is Verdict.UNKNOWN:
            raise InconclusiveError(explain(self.report)) from self.error

    def require_end(self) -> None:
        """Raise the error that ended the run before it was judged, if one did."""
        if isinstance(self.error, KeyboardInterrupt):
            # Python 3.11 may leave a frame without a line in the traceback, and pytest would end with a TypeError.
            raise KeyboardInterrupt(*self.error.args) from None
        if self.error is not None and not isinstance(self.error, DeadlineError | InconclusiveError):
            raise self.error


class JudgeSpark:
    """The judge's Spark session. It starts in the background, and outlives a system that is rebuilt."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self._pool = ThreadPoolExecutor(1, "auditor")
        self._session: Future[SparkSession] | None = None
        self._owner: warden.Session | None = None
        self._scratch: Path | None = None
        self._silence = ExitStack()

    def begin(self, parts: Parts) -> None:
        """Begin to start the session, unless that was done before."""
        if self._session is None:
            self._owner = warden.Session(session_files())  # not the system's session, which may end before it
            self._owner.mark()
            self._scratch = files.new_folder(self._runs, "auditor")
            self._silence.enter_context(spark_session.pyspark_logs_nothing())
            self._session = self._pool.submit(spark_session.of_run_warmed_up, parts, self._scratch)

    def get(self) -> SparkSession:
        """Return the session, as soon as it has started. Call `begin` first.

        Raises:
            DeadlineError: it has not started in time.
        """
        assert self._session is not None  # noqa: S101 - a slip of ours, not of the user
        try:
            return self._session.result(_SPARK_WITHIN_S)
        except TimeoutError as error:
            if self._session.done():  # an error of Spark itself
                raise
            raise DeadlineError(
                f"waited {_SPARK_WITHIN_S:g} s for the judge's Spark to start; this machine may be too busy for it"
            ) from error

    def close(self) -> None:
        with ExitStack() as ends:  # last in first out, and each even if another raises
            ends.callback(self._silence.close)
            ends.callback(self._pool.shutdown, wait=False, cancel_futures=True)
            ends.callback(self._end)

    def _end(self) -> None:
        if self._session is not None and self._session.done() and self._session.exception() is None:
            with suppress(Py4JError, ConnectionError):  # Ctrl-C and SIGTERM reach its JVM too
                self._session.result().stop()
        if self._owner is not None:
            self._owner.close()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)


class Session:
    """One invocation: its environment, the judge's Spark, and the reports of all runs so far."""

    def __init__(
        self,
        environment: Environment,
        seed: int,
        *,
        timeouts: tuple[type[BaseException], ...] = (),
    ) -> None:
        """Prepare; nothing is started before the first call of `system`.

        Args:
            seed: that of all schedules.
            timeouts: exceptions that end a run from outside; the run is reported before they are raised again.
        """
        self.environment = environment
        self.seed = seed
        self.reports: list[Report] = []
        self._runs = environment.runs
        self.ends_early: tuple[type[BaseException], ...] = (ChaosError, KafkaException, KeyboardInterrupt, *timeouts)
        self._began_s = clock.monotonic_s()
        self._judge_spark = JudgeSpark(environment.runs)

    def run(self, scenario: Scenario, spec: SystemSpec, replay: str, listener: Callable[[Event], None]) -> Outcome:
        """Run one scenario to its report; its history and report are written in any case.

        Args:
            replay: the command that repeats the run, for its report.
            listener: called with every event of the history.
        """
        run_plan, system = self._planned(scenario, spec)
        error: BaseException | None = None
        with History(run_plan.folder / "history.jsonl", listener) as history:
            history.record(RunBegan(run=run_plan.folder.name, format=FORMAT))
            try:
                run_plan = self.with_rows(run_plan, system, history)
                execute(run_plan, system, history, self.spark)
            except self.ends_early as ended_by:
                error = ended_by
                history.record(_failed(error))
            history.end()
        return self.reported(run_plan, error, replay)

    def open(self, scenario: Scenario, spec: SystemSpec, replay: str, listener: Callable[[Event], None]) -> "OpenRun":
        """Open a run whose faults are injected one by one; arguments are those of `run`. It must be ended in any case."""
        run_plan, system = self._planned(scenario, spec)
        return OpenRun(self, run_plan, system, replay, listener)

    def asked(self, scenario: Scenario) -> Scenario:
        """Return the scenario as it is judged here."""
        external = self.environment.external
        return scenario if external is None else for_external(scenario, external)

    def reported(self, run_plan: RunPlan, error: BaseException | None, replay: str) -> Outcome:
        """Report a finished run, and return its outcome."""
        outcome = Outcome(_report(run_plan, replay), error)
        self.reports.append(outcome.report)
        return outcome

    def _planned(self, scenario: Scenario, spec: SystemSpec) -> tuple[RunPlan, System]:
        scenario = self.asked(scenario)
        schedule = plan(scenario, self.seed)
        system = self.system(spec, with_spark=Capability.SPARK in scenario.pipeline.capabilities)
        packages = self.environment.packages(scenario.pipeline.required_packages)
        run_plan = plan_run(scenario, schedule, system, files.new_folder(self._runs, scenario.name), packages)
        return replace(run_plan, spec=spec), system

    def with_rows(self, run_plan: RunPlan, system: System, history: History) -> RunPlan:
        """Add to the plan the rows of the workload, its twin, and the number of rows that its model demands.

        Each that applies is a phase.
        """
        if made_beforehand(run_plan):
            with in_phase(history, "rows"):
                run_plan = with_rows(run_plan, self.spark)
        if run_plan.scenario.pipeline.way.runs_before:
            with in_phase(history, "twin"):
                twins.with_twin(run_plan, system, history, self.spark, kept_twins.folder())
        if has_model(run_plan):
            with in_phase(history, "expected"):
                run_plan = with_demand(run_plan, self.spark)
        return run_plan

    def system(self, spec: SystemSpec, *, with_spark: bool = True) -> System:
        """Return a healthy system (`Environment.system`); the judge's Spark begins to start beside the first one."""
        system = self.environment.system(spec, with_spark=with_spark)
        assert self.environment.parts is not None  # noqa: S101 - there is a system
        self._judge_spark.begin(self.environment.parts)  # the judge uses this environment's Spark, whichever the system has
        return system

    def spark(self) -> SparkSession:
        """Return the judge's session; there must have been a system."""
        return self._judge_spark.get()

    def logs(self, folder: Path) -> list[Path]:
        """Return the logs of a run: of its own processes, and of the system."""
        return sorted((folder / "logs").glob("*.log")) + self.environment.logs()

    def write_coverage(self) -> Path:
        """Write the outcomes of all cases of matrices as JSON, and return the file."""
        path = self._runs / f"{files.stamp()}-coverage.json"
        files.write_atomically(path, json.dumps(coverage.as_json(self.reports), indent=1))
        return path

    def total_s(self) -> float:
        """Seconds since the session was made."""
        return clock.monotonic_s() - self._began_s

    def close(self) -> None:
        """End everything; the system even if the judge's JVM has died and cannot be ended."""
        with ExitStack() as ends:  # last in first out, and each whatever the others raise
            ends.callback(self.environment.close)
            ends.callback(self._judge_spark.close)


class OpenRun:
    """One run into which a test injects faults, one by one: it is under way until `end`."""

    def __init__(
        self, session: Session, run_plan: RunPlan, system: System, replay: str, listener: Callable[[Event], None]
    ) -> None:
        """Prepare; nothing runs before `begin`."""
        self.system = system
        self.plan = run_plan
        self._session = session
        self._replay = replay
        self._opened = ExitStack()
        self.history = self._opened.enter_context(History(run_plan.folder / "history.jsonl", listener))
        self.history.record(RunBegan(run=run_plan.folder.name, format=FORMAT))
        self._under_way: AbstractContextManager[Stage] | None = None
        self._stage: Stage | None = None

    def begin(self) -> bool:
        """Run the phases set_up and steady; return whether output flows.

        Raises:
            ChaosError, KafkaException: the system or the rows are not available. The run must be ended then too.
        """
        session = self._session
        self.plan = session.with_rows(self.plan, self.system, self.history)
        self._under_way = under_way(self.plan, self.system, self.history, session.spark)
        self._stage = self._under_way.__enter__()
        return self._stage.flows

    @property
    def flowing_s(self) -> float:
        """Seconds since output began to flow."""
        return clock.monotonic_s() - self._under_way_now().watch.began_s

    @property
    def committed(self) -> int:
        """Number of records that a read_committed reader of the output can see."""
        return triggers.committed(self.history)

    def check(self) -> None:
        """Raise unless the pipeline runs, or was ended by a fault that is in force.

        Raises:
            InconclusiveError: it has ended.
        """
        self._under_way_now().processes.check()

    def wait_until(self, condition: Callable[[], object], *, within_s: float, reason: str) -> None:
        """Return when the condition holds; errors as in `check`.

        Raises:
            DeadlineError: it did not come to hold in time.
        """

        def holds() -> object:
            self.check()
            return condition()

        clock.wait_until(holds, within_s=within_s, reason=reason)

    def declare(self, scenario: Scenario) -> None:
        """Give the run another scenario, with the same pipeline and workload."""
        scenario = self._session.asked(scenario).model_copy(update={"workload": self.plan.scenario.workload})
        self.plan = replace(self.plan, scenario=scenario, schedule=plan(scenario, self._session.seed))
        self.plan.write_down()

    def inject(self, name: str) -> None:
        """Wait for the trigger of this fault of the scenario, put it in force, and get its proof."""
        stage = self._under_way_now()
        step = next(step for step in self.plan.schedule.steps if step.name == name)
        stage.nemesis.begin(step, stage.watch, stage.processes.check)

    def heal(self, name: str, *, at_once: bool) -> None:
        """End an injected fault: once it has lasted for its declared time, or at once, whatever else is wrong."""
        stage = self._under_way_now()
        stage.nemesis.end(name, (lambda: None) if at_once else stage.processes.check, at_once=at_once)

    def end(self, error: BaseException | None = None) -> Outcome:
        """Run the phases from heal on, and report; to be called once.

        Args:
            error: the error that ends it early: faults are healed, processes are ended, and the report has the reason.
        """
        if self._stage is not None:
            self._stage.plan = self.plan
        with self._opened:
            ended_by = self._left(error)
            if ended_by is not None:
                self.history.record(_failed(ended_by))
            self.history.end()
        return self._session.reported(self.plan, ended_by, self._replay)

    def _left(self, error: BaseException | None) -> BaseException | None:
        """Leave the block of the phase inject; return the error that ended the run, perhaps before this block, if any."""
        if self._under_way is None:  # its rows could not be made
            return error
        try:
            goes_on = self._under_way.__exit__(type(error) if error else None, error, error.__traceback__ if error else None)
        except self._session.ends_early as ended_by:
            return ended_by
        return None if goes_on else error

    def _under_way_now(self) -> Stage:
        assert self._stage is not None  # noqa: S101 - a slip of ours, not of the user
        return self._stage


def _failed(error: BaseException) -> RunFailed:
    return RunFailed(error=f"{type(error).__name__}: {error}")


def _report(run_plan: RunPlan, replay: str) -> Report:
    events = tuple(load(run_plan.folder / "history.jsonl"))
    return build(run_plan.scenario, run_plan.schedule, events, load_findings(run_plan.folder), run_plan.folder, replay)
