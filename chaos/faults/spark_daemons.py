"""Faults of Spark's cluster: a worker dies, and its executors with it; the master dies, with or without what it knows."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

import requests
from pydantic import Field

from chaos.cluster.spark import Executor, SparkApp
from chaos.common import clock
from chaos.common.errors import DeadlineError
from chaos.faults.base import (
    FaultBase,
    FaultContext,
    Injection,
    PipelineUnderTest,
    Proof,
)
from chaos.faults.spark_executors import running, wait_until_back
from chaos.grammar.targets import Workers, WorkerTarget
from chaos.grammar.units import Seconds, spoken_seconds
from chaos.runtime.base import Process
from chaos.runtime.capabilities import Capability

_SIGKILLED = -9
_MISSED_WITHIN_S = 15.0
_ENDS_WITHIN_S = 5.0
_REGISTERED_WITHIN_S = 60.0


class CrashMaster(FaultBase):
    """Spark's master dies by SIGKILL and is started again, with what it had written down (its recovery directory) or without.

    Without, it knows no application: the workers are told to end its executors, and none is started for it again. That is
    a standalone master as it comes (``spark.deploy.recoveryMode=NONE``); the driver is started again then.
    """

    needs = frozenset({Capability.SPARK_DAEMONS, Capability.SPARK})
    provokes = "an application that its master has forgotten (spark.deploy.recoveryMode)"
    proved_by = "the exit code of SIGKILL, and connections were refused"
    kind: Literal["crash_master"]
    state: Literal["kept", "lost"] = "kept"
    restart_after_s: Seconds = Field(alias="restart_after", default=2.0)

    def describe(self) -> str:
        return f"crash_master, its state {self.state}, restarted after {spoken_seconds(self.restart_after_s)}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        return CrashedMaster(
            "the master", self.restart_after_s, context, context.spark_app(), self.state == "lost", context.pipeline()
        )


class CrashWorker(FaultBase):
    """Spark workers die by SIGKILL, their executors with them, and are started again."""

    needs = frozenset({Capability.SPARK_DAEMONS, Capability.SPARK})
    provokes = "executors that lose their worker, and are started on another one"
    proved_by = "the exit code of SIGKILL, and the master misses the worker"
    kind: Literal["crash_worker"]
    target: Workers = WorkerTarget("any")
    restart_after_s: Seconds = Field(alias="restart_after", default=2.0)

    def describe(self) -> str:
        return f"crash_worker {self.target}, restarted after {spoken_seconds(self.restart_after_s)}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        numbers = _numbers(self.target, list(context.system.spark.numbers), rng)
        names = ", ".join(f"worker-{number}" for number in numbers)
        app = context.spark_app()
        all_ = running(context, app)
        lost = [executor for executor in all_ if executor.worker in numbers]
        target = names if names == str(self.target) else f"{names} ({self.target})"
        return CrashedWorkers(target, self.restart_after_s, context, app, numbers, lost, len(all_))


@dataclass(slots=True)
class CrashedWorkers(Injection):
    """Workers that were killed, and are started again at the heal; their executors end because their worker is gone."""

    context: FaultContext
    app: SparkApp
    numbers: list[int]
    lost: list[Executor]
    running_before: int
    pids: dict[str, int] = field(default_factory=dict)

    def inject(self) -> None:
        """Kill them."""
        self.pids = {worker.spec.name: worker.pid for worker in self._workers()}
        for worker in self._workers():
            worker.kill()

    def proof(self) -> Proof:
        """They are gone by our signal, and the master misses them.

        Executors end when they lose their worker (``WorkerWatcher``); one that was just starting and had not found it yet
        does not, and works on without one: an orphan.
        """
        facts: dict[str, Any] = {"pids": self.pids}
        try:
            clock.wait_until(
                self._missed,
                within_s=_MISSED_WITHIN_S,
                reason="the master to miss the workers",
                ignore=(requests.RequestException,),
            )
        except DeadlineError as error:
            return Proof(effective=False, facts=facts | {"problem": str(error)})
        exits = {worker.spec.name: worker.exit_code() for worker in self._workers()}
        return Proof(set(exits.values()) == {_SIGKILLED}, facts | {"exit_codes": exits, **self._bereft()})

    def heal(self) -> None:
        """Start those that do not run; return when all are registered and the application has its executors again."""
        for worker in self._workers():
            worker.start()
        self.context.system.spark.wait_until_ready()
        wait_until_back(self.context, self.app, self.running_before)

    def _missed(self) -> bool:
        spark = self.context.system.spark
        return spark.registered() <= len(spark.numbers) - len(self.numbers)

    def _bereft(self) -> dict[str, list[int]]:
        """Pids of the executors of these workers: those that ended, and orphans."""
        with contextlib.suppress(DeadlineError):
            clock.wait_until(
                lambda: not any(one.lives() for one in self.lost), within_s=_ENDS_WITHIN_S, reason="executors to end"
            )
        ended = [one.process.pid for one in self.lost if not one.lives()]
        return {"ended": ended, "orphans": [one.process.pid for one in self.lost if one.lives()]}

    def _workers(self) -> list[Process]:
        return [self.context.system.spark.workers[number] for number in self.numbers]


@dataclass(slots=True)
class CrashedMaster(Injection):
    """A master that was killed. Running tasks do not need it; whoever loses an executor meanwhile does."""

    context: FaultContext
    app: SparkApp
    forgets: bool
    pipeline: PipelineUnderTest
    pid: int = 0
    refused: bool = False
    restarted: bool = False

    def inject(self) -> None:
        """Kill it."""
        master = self.context.system.spark.master_process
        self.pid = master.pid
        master.kill()

    def proof(self) -> Proof:
        """It is gone by our signal, and nobody answers where it did."""
        exit_code = self.context.system.spark.master_process.exit_code()
        try:
            self.context.system.spark.registered()
        except requests.ConnectionError:
            self.refused = True
        return Proof(exit_code == _SIGKILLED and self.refused, {"pid": self.pid, "exit_code": exit_code})

    def heal(self) -> Mapping[str, Any]:
        """Start it, without its memory if it is to be lost, and return when all workers are back and the application goes on.

        An application that the new master does not know gets no executor ever again: its driver is started again.
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


def _numbers(target: WorkerTarget, there: list[int], rng: Random) -> list[int]:
    match target.which:
        case "all":
            return there
        case "any":
            return [rng.choice(there)]
        case "number":
            return [target.number]
