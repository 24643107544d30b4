"""Faults of the Python of Spark's executors: workers and daemons die, workers hang, or wake up as zombies without a JVM."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import psutil
import requests
from confluent_kafka import KafkaException

from chaos import clock
from chaos.errors import DeadlineError
from chaos.faults.base import Approach, Injection, Prepare, Proof, Scene
from chaos.faults.executors import pids, resolve_executors, running, wait_until_back, warm_up
from chaos.scenario.faults.spark import CrashPythonDaemon, CrashPythonWorker, PausePythonWorker, PythonFault, ZombieExecutor
from chaos.system.spark import Executor, lives
from chaos.system.spark_app import SparkApp

_KNOWN_WITHIN_S = 15.0
_GONE_WITHIN_S = 2.0
_COPIED_WITHIN_S = 30.0
_RETRIED_WITHIN_S = 40.0
_ENDS_WITHIN_S = 40.0

Pids = Mapping[str, list[int]]


def approach_python(_fault: PythonFault, scene: Scene) -> None:
    """Have the driver answer quickly later."""
    warm_up(scene)


def prepare_worker(fault: CrashPythonWorker, scene: Scene, rng: Random) -> Injection:
    """Aim a `CrashPythonWorker`."""
    chosen, target = resolve_executors(fault.target, scene, rng)
    app = scene.spark_app()
    before = app.failed_in_python({executor.id for executor in chosen})
    return CrashedPythonWorkers(f"Python workers of {target}", 0.0, app, chosen, before)


def prepare_daemon(fault: CrashPythonDaemon, scene: Scene, rng: Random) -> Injection:
    """Aim a `CrashPythonDaemon`."""
    chosen, target = resolve_executors(fault.target, scene, rng)
    return CrashedPythonDaemons(f"pyspark.daemon of {target}", 0.0, chosen)


def prepare_pause(fault: PausePythonWorker, scene: Scene, rng: Random) -> Injection:
    """Aim a `PausePythonWorker`."""
    chosen, target = resolve_executors(fault.target, scene, rng)
    app = scene.spark_app()
    before = app.speculative_tasks() if app.speculates() else None
    return PausedPythonWorkers(f"Python workers of {target}", fault.for_s, scene, app, chosen, before)


def prepare_zombie(fault: ZombieExecutor, scene: Scene, rng: Random) -> Injection:
    """Aim a `ZombieExecutor`."""
    chosen, target = resolve_executors(fault.target, scene, rng)
    app = scene.spark_app()
    return ZombieExecutors(target, fault.for_s, scene, app, chosen, len(running(scene, app)))


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
        self.victims = _workers(self.executors)
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
            return Proof(bit=False, facts={"workers": _pids(self.victims), "problem": str(error)})
        return Proof(bit=bool(self.victims), facts={"workers": _pids(self.victims), "failed_tasks": self._failed()})

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
        self.orphans = _workers(self.executors)
        for victim in self.victims:
            victim.kill()

    def proof(self) -> Proof:
        """The daemons are gone, their executors are not."""
        gone = _gone(self.victims)
        alive = all(executor.lives() for executor in self.executors)
        facts = {"daemons": _pids(self.victims), "executors": pids(self.executors), "orphans": _pids(self.orphans)}
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
        self.victims = _workers(self.executors)
        for victim in self.victims:
            victim.suspend()

    def proof(self) -> Proof:
        """One of them is connected to brokers, so it is in a task; with speculation, that task has got a copy."""
        busy = _in_tasks(self.victims, self.scene)
        facts: dict[str, Any] = {"workers": _pids(self.victims), "in_tasks": busy}
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
        _resume(self.victims)

    def _copies(self) -> int:
        return self.app.speculative_tasks() - (self.copies_before or 0)


@dataclass(slots=True)
class ZombieExecutors:
    """Executors whose JVM is dead and whose Python workers sleep in the middle of a transaction.

    The daemon dies first, and its JVM has waited for it. Frozen processes whose group loses its last outer parent get SIGHUP
    and SIGCONT from the kernel (``kill_orphaned_pgrp``): the workers must be orphans before they are frozen. And a daemon that
    sees its JVM end takes its workers with it (``pyspark.daemon``, ``shutdown``).
    """

    target: str
    hold_s: float
    scene: Scene
    app: SparkApp
    executors: list[Executor]
    running_before: int
    zombies: list[psutil.Process] = field(default_factory=list)
    in_tasks: Pids = field(default_factory=dict)
    before: Mapping[int, int] = field(default_factory=dict)

    def inject(self) -> None:
        """Daemon dead, workers frozen, JVM dead; all within milliseconds."""
        self.zombies = _workers(self.executors)
        daemons = [daemon for executor in self.executors for daemon in executor.daemons()]
        for daemon in daemons:
            daemon.kill()
        _waited_for(daemons)
        for zombie in self.zombies:
            zombie.suspend()
        for executor in self.executors:
            executor.process.kill()

    def proof(self) -> Proof:
        """The JVM is gone, the workers are not; and every partition has committed since, so the retried tasks have."""
        self.in_tasks = {"in_tasks": _in_tasks(self.zombies, self.scene)}
        facts = {"executors": pids(self.executors), "zombies": _pids(self.zombies), **self.in_tasks}
        try:
            self.before = clock.wait_until(
                self.scene.positions, within_s=_RETRIED_WITHIN_S, reason="the group's positions", ignore=(KafkaException,)
            )
            clock.wait_until(
                self._all_moved,
                within_s=_RETRIED_WITHIN_S,
                reason="every partition to commit again",
                every_s=0.2,
                ignore=(KafkaException,),
                seen=self.scene.positions,
            )
        except DeadlineError as error:
            return Proof(bit=False, facts=facts | {"problem": str(error)})
        dead = not any(executor.lives() for executor in self.executors)
        alive = [zombie.pid for zombie in self.zombies if lives(zombie)]
        facts |= {"outlived_their_jvm": alive, "committed_since": self._moved()}
        return Proof(dead and set(self.in_tasks["in_tasks"]) <= set(alive) and bool(self.in_tasks["in_tasks"]), facts)

    def heal(self) -> Mapping[str, Any]:
        """Wake them up, and see them end: they are refused by the brokers, or have nobody to report to.

        Raises:
            DeadlineError: one lives on; it is killed first.
        """
        _resume(self.zombies)
        wait_until_back(self.scene, self.app, self.running_before)
        try:
            clock.wait_until(
                lambda: not any(map(lives, self.zombies)), within_s=_ENDS_WITHIN_S, reason="the zombies to end", every_s=0.1
            )
        finally:
            for zombie in filter(lives, self.zombies):
                zombie.kill()
        return {"woken_up": _pids(self.zombies)}

    def _all_moved(self) -> bool:
        return set(self._moved()) >= set(self.before)

    def _moved(self) -> dict[int, int]:
        """Partition -> rows committed since."""
        now = self.scene.positions()
        return {partition: now[partition] - then for partition, then in self.before.items() if now.get(partition, 0) > then}


def _workers(executors: list[Executor]) -> list[psutil.Process]:
    return [worker for executor in executors for worker in executor.python_workers()]


def _in_tasks(workers: list[psutil.Process], scene: Scene) -> list[int]:
    """Pids of those that are connected to brokers: a worker that waits for a task has no client."""
    port = scene.system.addresses.client_port(scene.client)
    return [worker.pid for worker in workers if lives(worker) and port in _remote_ports(worker)]


def _remote_ports(process: psutil.Process) -> set[int]:
    connections = process.net_connections("tcp")
    return {connection.raddr[1] for connection in connections if connection.status == psutil.CONN_ESTABLISHED}


def _gone(processes: list[psutil.Process]) -> bool:
    try:
        clock.wait_until(
            lambda: not any(map(lives, processes)), within_s=_GONE_WITHIN_S, reason="processes to be gone", every_s=0.001
        )
    except DeadlineError:
        return False
    return True


def _waited_for(processes: list[psutil.Process]) -> None:
    """Return when they are no longer even dead children of somebody.

    Raises:
        DeadlineError: their parent does not wait for them.
    """
    clock.wait_until(
        lambda: not any(process.is_running() for process in processes),
        within_s=_GONE_WITHIN_S,
        reason="dead daemons to be waited for",
        every_s=0.001,
    )


def _resume(processes: list[psutil.Process]) -> None:
    for process in filter(lives, processes):
        process.resume()


def _pids(processes: list[psutil.Process]) -> list[int]:
    return [process.pid for process in processes]


CATALOGUE: Mapping[type, Prepare] = {
    CrashPythonDaemon: prepare_daemon,
    CrashPythonWorker: prepare_worker,
    PausePythonWorker: prepare_pause,
    ZombieExecutor: prepare_zombie,
}
APPROACHES: Mapping[type, Approach] = dict.fromkeys(CATALOGUE, approach_python)
