"""Faults of Spark's executors: the JVM dies by SIGKILL, and its tasks with it; the worker starts another one by itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

import psutil
import requests

from chaos import clock
from chaos.errors import DeadlineError, InjectionError
from chaos.faults.base import Approach, Injection, Prepare, Proof, Scene
from chaos.scenario.faults.spark import CrashExecutor
from chaos.system.spark import Executor
from chaos.system.spark_app import SparkApp
from chaos.system.system import System

_KNOWN_WITHIN_S = 15.0
_BACK_WITHIN_S = 30.0


def approach_crash(_fault: CrashExecutor, scene: Scene) -> None:
    """Ask the driver's REST API once: its first answer takes seconds, and the moment to kill may be milliseconds long."""
    app = scene.spark_app()
    app.executors()
    app.lost_tasks(())


def prepare_crash(fault: CrashExecutor, scene: Scene, rng: Random) -> Injection:
    """Aim a `CrashExecutor` at executors of this run's application."""
    app = scene.spark_app()
    running = [executor for executor in scene.system.spark.executors() if executor.app == app.id]
    if not running:
        raise InjectionError(f"{app.id} has no executor now")
    chosen = _choose(fault.target.which, running, app, rng)
    names = ", ".join(f"executor-{executor.id}" for executor in chosen)
    return CrashedExecutors(f"{names} ({fault.target})", 0.0, scene.system, app, chosen, len(running))


def _choose(which: str, running: list[Executor], app: SparkApp, rng: Random) -> list[Executor]:
    match which:
        case "all":
            return running
        case "any":
            return [rng.choice(running)]
        case _:
            states = app.executors()
            return [max(running, key=lambda executor: states[executor.id].active_tasks if executor.id in states else -1)]


@dataclass(slots=True)
class CrashedExecutors:
    """Executors that were killed in the middle of their tasks."""

    target: str
    hold_s: float
    system: System
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
            return Proof(bit=False, facts={"pids": self._pids(), "problem": str(error)})
        return Proof(bit=True, facts={"pids": self._pids(), "lost_tasks": self._lost_tasks()})

    def heal(self) -> None:
        """Return when as many executors run as before: Spark starts them itself, unless the application has ended."""
        clock.wait_until(self._all_back, within_s=_BACK_WITHIN_S, reason="Spark to replace the executors")

    def _known(self) -> bool:
        states = self.app.executors()
        removed = all(victim.id in states and not states[victim.id].active for victim in self.victims)
        return removed and not any(map(_lives, self.victims)) and self._lost_tasks() > 0

    def _lost_tasks(self) -> int:
        return self.app.lost_tasks({victim.id for victim in self.victims})

    def _pids(self) -> dict[str, int]:
        return {f"executor-{victim.id}": victim.process.pid for victim in self.victims}

    def _all_back(self) -> bool:
        running = [executor for executor in self.system.spark.executors() if executor.app == self.app.id]
        return len(running) >= self.running_before or not self._app_lives()

    def _app_lives(self) -> bool:
        try:
            self.app.executors()
        except requests.RequestException:
            return False
        return True


def _lives(executor: Executor) -> bool:
    try:
        return executor.process.is_running() and executor.process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


CATALOGUE: Mapping[type, Prepare] = {
    CrashExecutor: prepare_crash,
}
APPROACHES: Mapping[type, Approach] = {CrashExecutor: approach_crash}
