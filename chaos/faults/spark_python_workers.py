"""Faults of the Python of Spark's executors: workers and daemons die, or workers hang."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import psutil
import requests

from chaos.cluster.addresses import remote_ports
from chaos.cluster.spark import Executor, SparkApp, lives
from chaos.common import clock
from chaos.common.errors import DeadlineError
from chaos.faults.base import Approach, Injection, Prepare, Proof, Scene
from chaos.faults.declared.spark import CrashPythonDaemon, CrashPythonWorker, PausePythonWorker, PythonFault
from chaos.faults.executors import pids, resolve_working, warm_up
from chaos.grammar.targets import ExecutorTarget

_KNOWN_WITHIN_S = 15.0
_GONE_WITHIN_S = 2.0
_COPIED_WITHIN_S = 30.0


def approach_python(_fault: PythonFault, scene: Scene) -> None:
    """Have the driver answer quickly later."""
    warm_up(scene)


def prepare_worker(fault: CrashPythonWorker, scene: Scene, rng: Random) -> Injection:
    """Aim a `CrashPythonWorker`."""
    chosen, target = resolve_in_tasks(fault.target, scene, rng)
    app = scene.spark_app()
    before = app.failed_in_python({executor.id for executor in chosen})
    return CrashedPythonWorkers(f"Python workers of {target}", 0.0, app, chosen, before)


def prepare_daemon(fault: CrashPythonDaemon, scene: Scene, rng: Random) -> Injection:
    """Aim a `CrashPythonDaemon`."""
    chosen, target = resolve_working(fault.target, scene, rng, lambda executor: len(executor.daemons()))
    return CrashedPythonDaemons(f"pyspark.daemon of {target}", 0.0, chosen)


def prepare_pause(fault: PausePythonWorker, scene: Scene, rng: Random) -> Injection:
    """Aim a `PausePythonWorker`."""
    chosen, target = resolve_in_tasks(fault.target, scene, rng)
    app = scene.spark_app()
    before = app.speculative_tasks() if app.speculates() else None
    return PausedPythonWorkers(f"Python workers of {target}", fault.for_s, scene, app, chosen, before)


@dataclass(slots=True)
class CrashedPythonWorkers:
    """Python workers that died in the middle of their tasks; the executors live on, and fork others."""

    target: str
    hold_s: float
    app: SparkApp
    executors: list[Executor]
    failed_before: int
    victims: list[psutil.Process] = field(default_factory=list)

    def inject(self) -> None:
        """Kill them, all at once."""
        self.victims = workers(self.executors)
        for victim in self.victims:
            victim.kill()

    def proof(self) -> Proof:
        """They are gone, and their executors report tasks whose Python worker has left them."""
        try:
            clock.wait_until(
                lambda: not any(map(lives, self.victims)) and self._failed() > 0,
                within_s=_KNOWN_WITHIN_S,
                reason="a task to miss its Python worker",
                ignore=(requests.RequestException,),
            )
        except DeadlineError as error:
            return Proof(bit=False, facts={"workers": pids_of(self.victims), "problem": str(error)})
        return Proof(bit=bool(self.victims), facts={"workers": pids_of(self.victims), "failed_tasks": self._failed()})

    def heal(self) -> None:
        """Nothing to do: an executor forks the workers that it needs."""

    def _failed(self) -> int:
        return self.app.failed_in_python({executor.id for executor in self.executors}) - self.failed_before


@dataclass(slots=True)
class CrashedPythonDaemons:
    """Daemons that died: no worker can be forked, those that are there finish their tasks as orphans."""

    target: str
    hold_s: float
    executors: list[Executor]
    victims: list[psutil.Process] = field(default_factory=list)
    orphans: list[psutil.Process] = field(default_factory=list)

    def inject(self) -> None:
        """Kill them."""
        self.victims = [daemon for executor in self.executors for daemon in executor.daemons()]
        self.orphans = workers(self.executors)
        for victim in self.victims:
            victim.kill()

    def proof(self) -> Proof:
        """The daemons are gone, their executors are not."""
        gone = _gone(self.victims)
        alive = all(executor.lives() for executor in self.executors)
        facts = {"daemons": pids_of(self.victims), "executors": pids(self.executors), "orphans": pids_of(self.orphans)}
        return Proof(bool(self.victims) and gone and alive, facts)

    def heal(self) -> None:
        """Nothing to do: an executor starts another daemon when it needs a worker that is not there."""


@dataclass(slots=True)
class PausedPythonWorkers:
    """Python workers that stand still: their tasks hang. With speculation, copies are started on another worker."""

    target: str
    hold_s: float
    scene: Scene
    app: SparkApp
    executors: list[Executor]
    copies_before: int | None
    victims: list[psutil.Process] = field(default_factory=list)

    def inject(self) -> None:
        """Freeze them."""
        self.victims = workers(self.executors)
        for victim in self.victims:
            victim.suspend()

    def proof(self) -> Proof:
        """One of them is connected to brokers, so it is in a task; with speculation, that task has got a copy."""
        busy = in_tasks(self.victims, self.scene)
        facts: dict[str, Any] = {"workers": pids_of(self.victims), "in_tasks": busy}
        if self.copies_before is None:
            return Proof(bool(busy), facts)
        try:
            copies = clock.wait_until(
                self._copies,
                within_s=min(self.hold_s, _COPIED_WITHIN_S),
                reason="a speculative task",
                ignore=(requests.RequestException,),
            )
        except DeadlineError as error:
            return Proof(bit=False, facts=facts | {"problem": str(error)})
        return Proof(bit=True, facts=facts | {"speculative_tasks": copies})

    def heal(self) -> None:
        """Let those run on that Spark has not ended meanwhile."""
        resume(self.victims)

    def _copies(self) -> int:
        return self.app.speculative_tasks() - (self.copies_before or 0)


def resolve_in_tasks(target: ExecutorTarget, scene: Scene, rng: Random) -> tuple[list[Executor], str]:
    """The executors meant that have Python workers in the middle of a task of the sink.

    Raises:
        InjectionError: there is none, not even after a while.
    """
    return resolve_working(target, scene, rng, lambda executor: len(in_tasks(executor.python_workers(), scene)))


def workers(executors: list[Executor]) -> list[psutil.Process]:
    """The Python workers of executors, in a task or not."""
    return [worker for executor in executors for worker in executor.python_workers()]


def in_tasks(workers: list[psutil.Process], scene: Scene) -> list[int]:
    """Pids of those that are connected to brokers: a worker that waits for a task has no client."""
    port = scene.system.addresses.client_port(scene.client)
    return [worker.pid for worker in workers if lives(worker) and port in remote_ports(worker.pid)]


def _gone(processes: list[psutil.Process]) -> bool:
    try:
        clock.wait_until(
            lambda: not any(map(lives, processes)), within_s=_GONE_WITHIN_S, reason="processes to be gone", every_s=0.001
        )
    except DeadlineError:
        return False
    return True


def resume(processes: list[psutil.Process]) -> None:
    """SIGCONT to those that are still there."""
    for process in filter(lives, processes):
        process.resume()


def pids_of(processes: list[psutil.Process]) -> list[int]:
    """For a proof."""
    return [process.pid for process in processes]


CATALOGUE: Mapping[type, Prepare] = {
    CrashPythonDaemon: prepare_daemon,
    CrashPythonWorker: prepare_worker,
    PausePythonWorker: prepare_pause,
}
APPROACHES: Mapping[type, Approach] = dict.fromkeys(CATALOGUE, approach_python)
