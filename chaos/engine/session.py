"""What one invocation of pytest shares between its scenarios, and the running of one scenario to its report."""

import json
import shutil
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from chaos.cluster.system import System
from chaos.common import clock, files, warden
from chaos.common.errors import ChaosError, DeadlineError, InconclusiveError, ViolationError
from chaos.common.events import RunFailed
from chaos.common.history import Event, History, load
from chaos.engine.environment import Environment, session_files
from chaos.engine.phases import plan_run
from chaos.engine.run import execute
from chaos.install.artifacts import Parts
from chaos.judging import spark_session
from chaos.judging.judge import load_findings
from chaos.report import summary
from chaos.report.failure_text import explain
from chaos.report.model import Report, build
from chaos.scenario.model import Scenario, SystemSpec
from chaos.scenario.plan import Schedule, plan
from chaos.scenario.support import asked_outside
from verifiers.base import Verdict

_SPARK_WITHIN_S = 120.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run: its report, and the error that ended it early, if one did."""

    report: Report
    error: BaseException | None = None

    def settle(self) -> None:
        """Raise what pytest must see; nothing for a VALID run.

        Raises:
            ViolationError: INVALID. InconclusiveError: UNKNOWN. Or the error that ended the run.
        """
        if self.error is not None and not isinstance(self.error, DeadlineError | InconclusiveError):
            raise self.error
        if self.report.verdict is Verdict.INVALID:
            raise ViolationError(explain(self.report))
        if self.report.verdict is Verdict.UNKNOWN:
            raise InconclusiveError(explain(self.report)) from self.error


class JudgeSpark:
    """The judge's Spark session. It starts in the background, and outlives a system that is rebuilt."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self._pool = ThreadPoolExecutor(1, "auditor")
        self._session: Future[SparkSession] | None = None
        self._owner: warden.Session | None = None
        self._scratch: Path | None = None

    def begin(self, parts: Parts) -> None:
        """Begin to start the session, if that has not been done."""
        if self._session is None:
            self._owner = warden.Session(session_files())  # not the system's, which may end before it
            self._owner.mark()
            self._scratch = files.new_folder(self._runs, "auditor")
            self._session = self._pool.submit(spark_session.of_run_warmed_up, parts, self._scratch)

    def get(self) -> SparkSession:
        """The session, as soon as it has started. `begin` comes first."""
        assert self._session is not None  # noqa: S101 - a slip of ours, not of the user
        return self._session.result(_SPARK_WITHIN_S)

    def close(self) -> None:
        with ExitStack() as ends:  # last in first out, and each whatever the others raise
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
        early_audit: bool = False,
        timeouts: tuple[type[BaseException], ...] = (),
    ) -> None:
        """Nothing is started before the first call of `system`.

        Args:
            seed: of all schedules.
            early_audit: whether the output is audited while it grows, too.
            timeouts: exceptions that end a run from outside; it is reported before they are raised again.
        """
        self.environment = environment
        self.seed = seed
        self.reports: list[Report] = []
        self._runs = environment.runs
        self._early_audit = early_audit
        self._ends_early: tuple[type[BaseException], ...] = (ChaosError, KafkaException, KeyboardInterrupt, *timeouts)
        self._began_s = clock.monotonic_s()
        self._judge_spark = JudgeSpark(environment.runs)

    def run(self, scenario: Scenario, spec: SystemSpec, replay: str, listener: Callable[[Event], None]) -> Outcome:
        """Run one scenario to its report; whatever ends it, its history and report are written.

        Args:
            replay: the command that repeats the run, for its report.
            listener: told of every event of the history.
        """
        if self.environment.external is not None:
            scenario = asked_outside(scenario, self.environment.external)
        schedule = plan(scenario, self.seed)
        system = self.system(spec)
        folder = files.new_folder(self._runs, scenario.name)
        run_plan = plan_run(scenario, schedule, system, folder)
        error: BaseException | None = None
        with History(folder / "history.jsonl", listener) as history:
            try:
                execute(run_plan, system, history, self.spark, early_audit=self._early_audit)
            except self._ends_early as ended_by:
                error = ended_by
                history.record(RunFailed(error=f"{type(error).__name__}: {error}"))
        outcome = Outcome(_report(scenario, schedule, folder, replay), error)
        self.reports.append(outcome.report)
        return outcome

    def system(self, spec: SystemSpec) -> System:
        """A healthy system (`Environment.system`); the judge's Spark begins to start beside the first one."""
        system = self.environment.system(spec)
        self._judge_spark.begin(system.parts)
        return system

    def spark(self) -> SparkSession:
        """The judge's session; there must have been a system."""
        return self._judge_spark.get()

    def logs(self, folder: Path) -> list[Path]:
        """What was logged during a run: by its own processes, and by the system."""
        return sorted((folder / "logs").glob("*.log")) + self.environment.logs()

    def write_coverage(self) -> Path:
        """Write the outcomes of all cases of matrices as JSON; the file."""
        path = self._runs / f"{files.stamp()}-coverage.json"
        files.write_atomically(path, json.dumps(summary.coverage_json(self.reports), indent=1))
        return path

    def total_s(self) -> float:
        """Seconds since the session was made."""
        return clock.monotonic_s() - self._began_s

    def close(self) -> None:
        """End everything; the system too when the judge's JVM has died and cannot be ended."""
        with ExitStack() as ends:  # last in first out, and each whatever the others raise
            ends.callback(self.environment.close)
            ends.callback(self._judge_spark.close)


def _report(scenario: Scenario, schedule: Schedule, folder: Path, replay: str) -> Report:
    events = tuple(load(folder / "history.jsonl"))
    return build(scenario, schedule, events, load_findings(folder), folder, replay)
