"""Faults of Spark's executors: the JVM dies by SIGKILL, and its tasks with it, or stands still past its heartbeat."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import psutil
import requests

from chaos.cluster.spark import Executor, SparkApp
from chaos.common import clock
from chaos.common.errors import DeadlineError
from chaos.faults.base import Approach, Injection, Prepare, Proof, Scene
from chaos.faults.declared.spark import CrashExecutor, ExecutorFault, PauseExecutor
from chaos.faults.executors import pids, resolve_executors, running, wait_until_back, warm_up

_KNOWN_WITHIN_S = 15.0
_STOPS_WITHIN_S = 2.0


def approach_executor(_fault: ExecutorFault, scene: Scene) -> None:
    """Have the driver answer quickly later."""
    warm_up(scene)


def prepare_crash(fault: CrashExecutor, scene: Scene, rng: Random) -> Injection:
    """Aim a `CrashExecutor` at executors of this run's application."""
    chosen, target = resolve_executors(fault.target, scene, rng)
    app = scene.spark_app()
    return CrashedExecutors(target, 0.0, scene, app, chosen, len(running(scene, app)))


def prepare_pause(fault: PauseExecutor, scene: Scene, rng: Random) -> Injection:
    """Aim a `PauseExecutor`."""
    chosen, target = resolve_executors(fault.target, scene, rng)
    app = scene.spark_app()
    return PausedExecutors(target, fault.for_s, scene, app, chosen, len(running(scene, app)))


@dataclass(slots=True)
class CrashedExecutors:
    """Executors that were killed in the middle of their tasks."""

    target: str
    hold_s: float
    scene: Scene
    app: SparkApp
    victims: list[Executor]
    running_before: int

    def inject(self) -> None:
        """Kill them, all at once; what they were doing is asked afterwards, the moment matters more."""
        for victim in self.victims:
            victim.process.kill()

    def proof(self) -> Proof:
        """The JVMs are gone, the driver has removed them, and it counts tasks that died with them."""
        try:
            clock.wait_until(
                self._known,
                within_s=_KNOWN_WITHIN_S,
                reason="the driver to count lost tasks",
                ignore=(requests.RequestException,),
            )
        except DeadlineError as error:
            return Proof(bit=False, facts={"pids": pids(self.victims), "problem": str(error)})
        return Proof(bit=True, facts={"pids": pids(self.victims), "lost_tasks": self._lost_tasks()})

    def heal(self) -> None:
        """Return when as many executors run as before."""
        wait_until_back(self.scene, self.app, self.running_before)

    def _known(self) -> bool:
        gone = not any(victim.lives() for victim in self.victims)
        return gone and not _active(self.app, self.victims) and self._lost_tasks() > 0

    def _lost_tasks(self) -> int:
        return self.app.lost_tasks({victim.id for victim in self.victims})


@dataclass(slots=True)
class PausedExecutors:
    """Executors that stand still: the driver hears nothing of them, and removes them once their heartbeat is overdue."""

    target: str
    hold_s: float
    scene: Scene
    app: SparkApp
    victims: list[Executor]
    running_before: int
    frozen_s: float = 0.0

    def inject(self) -> None:
        """Freeze them."""
        self.frozen_s = clock.monotonic_s()
        for victim in self.victims:
            victim.process.suspend()

    def proof(self) -> Proof:
        """The JVMs are stopped, and either were in the middle of a task or are missed by the driver before they wake up."""
        stopped = _all_stopped(self.victims)
        tasks = self._tasks()
        left_s = max(0.1, self.frozen_s + self.hold_s - clock.monotonic_s())
        try:
            clock.wait_until(
                lambda: not _active(self.app, self.victims),
                within_s=left_s,
                reason="the driver to miss the executors",
                ignore=(requests.RequestException,),
            )
            missed_after_s: float | None = round(clock.monotonic_s() - self.frozen_s, 1)
        except DeadlineError:
            missed_after_s = None
        facts: dict[str, Any] = {"pids": pids(self.victims), "active_tasks": tasks, "missed_after_s": missed_after_s}
        return Proof(stopped and (tasks > 0 or missed_after_s is not None), facts)

    def heal(self) -> None:
        """Let those run on that Spark has not ended meanwhile, and return when as many run as before."""
        for victim in self.victims:
            if victim.lives():
                victim.process.resume()
        wait_until_back(self.scene, self.app, self.running_before)

    def _tasks(self) -> int:
        states = self.app.executors()
        return sum(states[victim.id].active_tasks for victim in self.victims if victim.id in states)


def _active(app: SparkApp, executors: list[Executor]) -> list[str]:
    """Those that the driver still counts on."""
    states = app.executors()
    return [executor.id for executor in executors if executor.id not in states or states[executor.id].active]


def _all_stopped(executors: list[Executor]) -> bool:
    try:
        clock.wait_until(
            lambda: all(executor.process.status() == psutil.STATUS_STOPPED for executor in executors),
            within_s=_STOPS_WITHIN_S,
            reason="the executors to stand still",
        )
    except DeadlineError:
        return False
    return True


CATALOGUE: Mapping[type, Prepare] = {
    CrashExecutor: prepare_crash,
    PauseExecutor: prepare_pause,
}
APPROACHES: Mapping[type, Approach] = {CrashExecutor: approach_executor, PauseExecutor: approach_executor}
