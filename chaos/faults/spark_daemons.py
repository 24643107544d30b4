"""Faults of Spark's cluster: a worker is killed, and its executors with it; the master is killed, and may lose its state."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

import requests
from pydantic import Field

from chaos.cluster.spark import Executor, SparkApp
from chaos.common import clock
from chaos.faults.base import FaultContext, Injection, PipelineUnderTest, Proof, RestartedFault, unmet
from chaos.faults.broker_processes import SIGKILLED, exit_codes, require_running
from chaos.faults.spark_executors import NO_ANSWER, counted_on, running, wait_until_back
from chaos.faults.targets import in_words
from chaos.grammar.targets import Workers, WorkerTarget
from chaos.grammar.units import Seconds
from chaos.runtime.base import Process
from chaos.runtime.capabilities import Capability

_MISSED_WITHIN_S = 60.0  # at once on a quiet machine: their connections end
_ENDS_WITHIN_S = 5.0
_REGISTERED_WITHIN_S = 60.0


class DaemonFault(RestartedFault):
    """A fault of Spark's master or workers."""

    needs = frozenset({Capability.SPARK_DAEMONS, Capability.SPARK})
    restart_after_s: Seconds = Field(alias="restart_after", default=2.0)


class CrashMaster(DaemonFault):
    """Spark's master is killed with SIGKILL and started again, with its recovery directory or without.

    Without it, the new master knows no application: it has the workers end the executors, and starts no new ones. That is the
    default of a standalone master (``spark.deploy.recoveryMode=NONE``); the driver is started again then.
    """

    provokes = "an application that its master has forgotten (spark.deploy.recoveryMode)"
    proved_by = "the exit code of SIGKILL, and connections were refused"
    kind: Literal["crash_master"]
    state: Literal["kept", "lost"] = "kept"
    """whether the master keeps its recovery directory."""

    def describe(self) -> str:
        return f"crash_master, its state is {self.state}, {self.restarted}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        require_running([context.system.spark.master_process])
        app, pipeline = context.spark_app(), context.pipeline()
        return CrashedMaster("the master", self.restart_after_s, context, app, self.state == "lost", pipeline)


@dataclass(slots=True)
class CrashedMaster(Injection):
    """A master that was killed. Running tasks do not need it; an application that loses an executor meanwhile does.

    Attributes:
        forgets: whether its recovery directory is emptied before it is started again.
        restarted: whether the driver was restarted.
    """

    context: FaultContext
    app: SparkApp
    forgets: bool
    pipeline: PipelineUnderTest
    pid: int = 0
    restarted: bool = False

    def inject(self) -> None:
        master = self.context.system.spark.master_process
        self.pid = master.pid
        master.kill()

    def proof(self) -> Proof:
        exit_code = self.context.system.spark.master_process.exit_code()
        return Proof(exit_code == SIGKILLED and self._refuses(), {"pid": self.pid, "exit_code": exit_code})

    def heal(self) -> Mapping[str, Any]:
        """Start it, with its state or without, and return when all workers are back and the application goes on.

        An application that the new master does not know never gets an executor again: its driver is started again.
        """
        spark = self.context.system.spark
        master = spark.master_process
        if not master.alive():
            if self.forgets:
                spark.forget()
            master.start()
        clock.wait_until(
            lambda: not spark.unhealthy(),
            within_s=_REGISTERED_WITHIN_S,
            reason="the workers to find the new master",
            every_s=0.1,
            seen=spark.unhealthy,
        )
        known = self.app.id in spark.applications()
        if not known and not self.restarted:
            self.pipeline.crash()
            self.pipeline.restart()
            self.restarted = True
        return {"application_known": known, "driver_restarted": self.restarted}

    def _refuses(self) -> bool:
        try:
            self.context.system.spark.registered()
        except requests.ConnectionError:
            return True
        return False


class CrashWorker(DaemonFault):
    """Spark workers are killed with SIGKILL, their executors end too, and the workers are started again."""

    provokes = "executors that lose their worker, and are started on another one"
    proved_by = "the exit code of SIGKILL, and the master counts fewer workers"
    kind: Literal["crash_worker"]
    target: Workers = WorkerTarget("any")
    """which workers."""

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        workers = context.system.spark.workers
        running_now = [number for number, worker in workers.items() if worker.alive()]
        worker_ids = _worker_ids(self.target, list(workers), running_now or list(workers), rng)
        app = context.spark_app()
        require_running(workers[number] for number in worker_ids)
        lost = [executor for executor in running(context, app) if executor.worker in worker_ids]
        target = in_words([f"worker-{number}" for number in worker_ids], self.target)
        return CrashedWorkers(target, self.restart_after_s, context, app, worker_ids, lost, len(counted_on(context, app)))


@dataclass(slots=True)
class CrashedWorkers(Injection):
    """Workers that were killed, and are started again at the heal; their executors end because their worker is gone.

    Attributes:
        lost: the executors of these workers.
        running_before: number of executors that the driver counted on when the target was resolved.
    """

    context: FaultContext
    app: SparkApp
    worker_ids: list[int]
    lost: list[Executor]
    running_before: int
    pids: dict[str, int] = field(default_factory=dict)

    def inject(self) -> None:
        self.pids = {worker.spec.name: worker.pid for worker in self._workers()}
        for worker in self._workers():
            worker.kill()

    def proof(self) -> Proof:
        """Show that we killed them, and that the master misses them.

        Executors end when they lose their worker (``WorkerWatcher``). One that was just starting, and had not found its worker
        yet, works on without it: an orphan.
        """
        missing = unmet(self._missed, _MISSED_WITHIN_S, "the master to miss the workers", ignore=NO_ANSWER)
        if missing:
            return Proof(effective=False, facts={"pids": self.pids, **missing})
        exits = exit_codes(self._workers())
        unmet(lambda: not self._living(), _ENDS_WITHIN_S, "the executors to end")
        orphans = self._living()
        ended = [executor.process.pid for executor in self.lost if executor.process.pid not in orphans]
        facts = {"pids": self.pids, "exit_codes": exits, "ended": ended, "orphans": orphans}
        return Proof(set(exits.values()) == {SIGKILLED}, facts)

    def heal(self) -> None:
        for worker in self._workers():
            worker.start()
        self.context.system.spark.wait_until_ready()
        wait_until_back(self.context, self.app, self.running_before)

    def _missed(self) -> bool:
        spark = self.context.system.spark
        return spark.registered() <= len(spark.worker_ids) - len(self.worker_ids)

    def _living(self) -> list[int]:
        """Pids of their live executors."""
        return [executor.process.pid for executor in self.lost if executor.lives()]

    def _workers(self) -> list[Process]:
        return [self.context.system.spark.workers[worker] for worker in self.worker_ids]


def _worker_ids(target: WorkerTarget, there: list[int], alive: list[int], rng: Random) -> list[int]:
    match target.which:
        case "all":
            return there
        case "any":
            return [rng.choice(alive)]
        case "number":
            return [target.number]
