"""Faults of Spark's cluster: a worker dies, and its executors with it; the master dies, with or without what it knows."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import requests

from chaos.cluster.spark import Executor, SparkApp
from chaos.common import clock
from chaos.common.errors import DeadlineError
from chaos.faults.base import Injection, PipelineUnderTest, Prepare, Proof, Scene
from chaos.faults.declared.spark import CrashMaster, CrashWorker
from chaos.faults.executors import running, wait_until_back
from chaos.grammar.targets import WorkerTarget
from chaos.runtime.base import Process

_SIGKILLED = -9
_MISSED_WITHIN_S = 15.0
_ENDS_WITHIN_S = 5.0
_REGISTERED_WITHIN_S = 60.0


def prepare_worker(fault: CrashWorker, scene: Scene, rng: Random) -> Injection:
    """Aim a `CrashWorker`."""
    worker_ids = _worker_ids(fault.target, list(scene.system.spark.worker_ids), rng)
    names = ", ".join(f"worker-{number}" for number in worker_ids)
    app = scene.spark_app()
    all_ = running(scene, app)
    lost = [executor for executor in all_ if executor.worker in worker_ids]
    target = names if names == str(fault.target) else f"{names} ({fault.target})"
    return CrashedWorkers(target, fault.restart_after_s, scene, app, worker_ids, lost, len(all_))


def prepare_master(fault: CrashMaster, scene: Scene, _rng: Random) -> Injection:
    """Aim a `CrashMaster`."""
    return CrashedMaster("the master", fault.restart_after_s, scene, scene.spark_app(), fault.state == "lost", scene.pipeline())


@dataclass(slots=True)
class CrashedWorkers:
    """Workers that were killed, and are started again at the heal; their executors end because their worker is gone."""

    target: str
    hold_s: float
    scene: Scene
    app: SparkApp
    worker_ids: list[int]
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
            return Proof(bit=False, facts=facts | {"problem": str(error)})
        exits = {worker.spec.name: worker.exit_code() for worker in self._workers()}
        return Proof(set(exits.values()) == {_SIGKILLED}, facts | {"exit_codes": exits, **self._bereft()})

    def heal(self) -> None:
        """Start those that do not run; return when all are registered and the application has its executors again."""
        for worker in self._workers():
            worker.start()
        self.scene.system.spark.wait_until_ready()
        wait_until_back(self.scene, self.app, self.running_before)

    def _missed(self) -> bool:
        spark = self.scene.system.spark
        return spark.registered() <= len(spark.worker_ids) - len(self.worker_ids)

    def _bereft(self) -> dict[str, list[int]]:
        """Pids of the executors of these workers: those that ended, and orphans."""
        with contextlib.suppress(DeadlineError):
            clock.wait_until(
                lambda: not any(one.lives() for one in self.lost), within_s=_ENDS_WITHIN_S, reason="executors to end"
            )
        ended = [one.process.pid for one in self.lost if not one.lives()]
        return {"ended": ended, "orphans": [one.process.pid for one in self.lost if one.lives()]}

    def _workers(self) -> list[Process]:
        return [self.scene.system.spark.workers[number] for number in self.worker_ids]


@dataclass(slots=True)
class CrashedMaster:
    """A master that was killed. Running tasks do not need it; whoever loses an executor meanwhile does."""

    target: str
    hold_s: float
    scene: Scene
    app: SparkApp
    forgets: bool
    pipeline: PipelineUnderTest
    pid: int = 0
    refused: bool = False
    restarted: bool = False

    def inject(self) -> None:
        """Kill it."""
        master = self.scene.system.spark.master_process
        self.pid = master.pid
        master.kill()

    def proof(self) -> Proof:
        """It is gone by our signal, and nobody answers where it did."""
        exit_code = self.scene.system.spark.master_process.exit_code()
        try:
            self.scene.system.spark.registered()
        except requests.ConnectionError:
            self.refused = True
        return Proof(exit_code == _SIGKILLED and self.refused, {"pid": self.pid, "exit_code": exit_code})

    def heal(self) -> Mapping[str, Any]:
        """Start it, without its memory if it is to be lost, and return when all workers are back and the application goes on.

        An application that the new master does not know gets no executor ever again: its driver is started again.
        """
        spark = self.scene.system.spark
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


def _worker_ids(target: WorkerTarget, there: list[int], rng: Random) -> list[int]:
    match target.which:
        case "all":
            return there
        case "any":
            return [rng.choice(there)]
        case "number":
            return [target.number]


CATALOGUE: Mapping[type, Prepare] = {
    CrashMaster: prepare_master,
    CrashWorker: prepare_worker,
}
