"""What one invocation of pytest shares between scenarios: the parts, the system, the auditor; made late, ended for sure.

The system is used again from scenario to scenario as long as it is healthy, and rebuilt when it is not.
"""

import json
import shutil
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from chaos.cluster import addresses
from chaos.cluster.addresses import Addresses
from chaos.cluster.system import Place, System, of_our_own
from chaos.common import clock, files, warden
from chaos.common.errors import ChaosError, DeadlineError, InconclusiveError, RuntimeUnavailableError, ViolationError
from chaos.common.events import RunFailed
from chaos.common.history import Event, History, load
from chaos.engine.run import Run, Session
from chaos.external import discovery as external_system
from chaos.external.declaration import External
from chaos.install import artifacts, cache, preflight
from chaos.judging import spark_session
from chaos.judging.judge import load_findings
from chaos.report import summary
from chaos.report.build import build
from chaos.report.failure_text import explain
from chaos.report.model import Report
from chaos.runtime.base import Runtime
from chaos.runtime.local import LocalRuntime
from chaos.scenario.model import Scenario, SystemSpec
from chaos.scenario.plan import Schedule, plan
from pipelines.base import Pipeline
from pipelines.spark_square.pipeline import SparkSquare
from verifiers.base import Verdict

Echo = Callable[[str], None]
_DRIVERS_GIB = 2.0  # of the pipeline and of the auditor; brokers and workers are elsewhere


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


@dataclass(slots=True)
class Harness:
    """One harness for one invocation.

    Attributes:
        runs: where run directories are made.
        seed: of all schedules.
        echo: for people.
        runtime: where the system runs, one of `chaos.scenario.support.RUNTIMES`.
        external: the system that is already there, when that is to be used.
        early: whether the output is audited while it grows, too.
        reports: of all runs so far.
    """

    runs: Path
    seed: int
    echo: Echo
    runtime: str = "local"
    external: External | None = None
    early: bool = False
    reports: list[Report] = field(default_factory=list)
    ups_s: list[float] = field(default_factory=list)
    _began_s: float = field(default_factory=clock.monotonic_s)
    _parts: artifacts.Parts | None = None
    _runtime: Runtime | None = None
    _system: System | None = None
    _spec: SystemSpec | None = None
    _spark: Future[SparkSession] | None = None
    _session: warden.Session | None = None
    _scratch: Path | None = None
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "auditor"))

    def run(
        self,
        scenario: Scenario,
        spec: SystemSpec,
        replay: str,
        listener: Callable[[Event], None],
        square: Callable[..., Pipeline] = SparkSquare,
    ) -> Outcome:
        """Run one scenario to its report; whatever ends it, its history and report are written."""
        schedule = plan(scenario, self.seed)
        system = self.system(spec)
        folder = self._new_folder(scenario.name)
        with History(folder / "history.jsonl", listener) as history:
            session = Session(system, self.spark, square, self.early)
            error = _executed(Run(scenario, schedule, session, folder, history))
            if error is not None:
                history.record(RunFailed(error=f"{type(error).__name__}: {error}"))
        outcome = Outcome(self.report(scenario, schedule, folder, replay), error)
        self.reports.append(outcome.report)
        return outcome

    def report(self, scenario: Scenario, schedule: Schedule, folder: Path, replay: str) -> Report:
        """What a run directory says."""
        events = tuple(load(folder / "history.jsonl"))
        return build(scenario, schedule, events, load_findings(folder), folder, replay)

    def system(self, spec: SystemSpec) -> System:
        """A healthy system: the one there is, if it is what is declared, or a new one.

        Raises:
            RuntimeUnavailableError: it cannot be had.
        """
        if self._system is not None and self._spec != spec and self.external is None:
            self.echo("another system is declared now, the one that runs is ended")
            self._end_system()
        self._spec = spec
        if self._system is not None and not self._heals(self._system):
            self.echo(f"the system is not healthy and is rebuilt: {'; '.join(self._system.unhealthy())}")
            self._end_system()
        if self._system is None:
            self._system = self._new_system(spec)
        return self._system

    def spark(self) -> SparkSession:
        """The auditor's session; it begins to start when the first system is up."""
        return self._auditor().result(120)

    def _auditor(self) -> Future[SparkSession]:
        assert self._parts is not None  # noqa: S101 - a system exists first
        if self._spark is None:
            self._session = warden.Session(_sessions())  # not the system's: the auditor outlives a system that is rebuilt
            self._session.mark()
            self._scratch = self.runs / f"{_stamp()}-auditor"
            self._spark = self._pool.submit(spark_session.of_run_warmed_up, self._parts, self._scratch)
        return self._spark

    def logs(self, folder: Path) -> list[Path]:
        """What was logged during a run: by its own processes, and by the system."""
        own = sorted((folder / "logs").glob("*.log"))
        return own + sorted(self._system.folder.glob("**/*.log")) if self._system else own

    def write_coverage(self) -> Path:
        """What the cases of matrices came to, as JSON; returns the file."""
        path = self.runs / f"{_stamp()}-coverage.json"
        files.write_atomically(path, json.dumps(summary.coverage_json(self.reports), indent=1))
        return path

    def total_s(self) -> float:
        """Seconds since the harness was made."""
        return clock.monotonic_s() - self._began_s

    def close(self) -> None:
        """End everything; the system too when the auditor's JVM has died and cannot be ended."""
        with ExitStack() as ends:  # last in first out, and each whatever the others raise
            ends.callback(self._end_system)
            ends.callback(self._pool.shutdown, wait=False, cancel_futures=True)
            ends.callback(self._end_auditor)

    def _heals(self, system: System) -> bool:
        try:
            system.wait_until_healthy()
        except DeadlineError:
            return False
        return True

    def _new_system(self, spec: SystemSpec) -> System:
        needed_gib = preflight.MEMORY_GIB if self.external is None else _DRIVERS_GIB
        preflight.check_machine(artifacts.cache_folder(), self.runs, memory_gib=needed_gib)
        for name in warden.leftovers(_sessions()):
            self.echo(f"ended what an earlier crash had left: {name}")
        self._parts = artifacts.ensure(self.echo)
        self._runtime, plan_of_addresses = self._new_runtime()
        folder = self.runs / f"{_stamp()}-system"
        place = Place(self._runtime, self._parts, plan_of_addresses, folder)
        if self.external is None:
            system = of_our_own(place, brokers=spec.kafka.brokers, workers=spec.spark.workers)
        else:
            system = external_system.found(place, self.external, self.echo)
        self._system = system
        system.start(self.echo)
        self.ups_s.append(system.up_s)
        self._auditor()
        return system

    def _new_runtime(self) -> tuple[Runtime, Addresses]:
        """Where processes are started, and where they will listen."""
        if self.runtime == "containers":
            from chaos.runtime.docker import runtime as containers  # noqa: PLC0415 - Docker's libraries take half a second, and are needed here only

            runtime = containers.open_runtime(_sessions(), self.runs, self.echo)
            return runtime, Addresses(runtime.net)
        return LocalRuntime(_sessions()), addresses.from_environment()

    def _end_auditor(self) -> None:
        if self._spark is not None and self._spark.done() and self._spark.exception() is None:
            with suppress(Py4JError, ConnectionError):  # Ctrl-C and SIGTERM reach its JVM too
                self._spark.result().stop()
        if self._session is not None:
            self._session.close()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _end_system(self) -> None:
        if self._runtime is not None:
            self._runtime.close()
        if self._system is not None:
            for data in (*self._system.folder.glob("broker-*/"), *self._system.folder.glob("spark/*/")):
                shutil.rmtree(data, ignore_errors=True)  # the logs stay
        self._runtime = self._system = None

    def _new_folder(self, name: str) -> Path:
        """``<runs>/<UTC time>-<scenario>``; a second run within the same second gets a number."""
        for number in range(1, 100):
            folder = self.runs / f"{_stamp()}-{name}{f'-{number}' if number > 1 else ''}"
            try:
                folder.mkdir(parents=True)
            except FileExistsError:
                continue
            return folder
        raise RuntimeUnavailableError(f"no new run directory could be made in {self.runs}")


def _executed(run: Run) -> BaseException | None:
    """What ended the run early: an error of ours, Ctrl-C, or pytest's timeout; reported first, then raised again."""
    try:
        run.execute()
    except (ChaosError, KafkaException, KeyboardInterrupt, pytest.fail.Exception) as error:
        return error
    return None


def _stamp() -> str:
    return clock.now_utc().strftime("%Y%m%dT%H%M%SZ")


def _sessions() -> Path:
    """The folder of session files, of all harnesses of this user."""
    return artifacts.cache_folder() / cache.SESSIONS
