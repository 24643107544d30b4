"""Faults of Spark's executors: the JVM dies by SIGKILL, and its tasks with it, or stands still past its heartbeat."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

import psutil
import requests
from pydantic import Field

from chaos.cluster.spark import Executor, SparkApp
from chaos.common import clock
from chaos.common.errors import DeadlineError, InjectionError
from chaos.faults.base import FaultBase, FaultContext, Injection, Proof
from chaos.grammar.targets import Executors, ExecutorTarget
from chaos.grammar.units import SomeSeconds, spoken_seconds
from chaos.runtime.capabilities import Capability

_KNOWN_WITHIN_S = 15.0
_STOPS_WITHIN_S = 2.0
BUSIEST = ExecutorTarget("busiest")


class ExecutorFault(FaultBase):
    """A fault of executors of the pipeline."""

    needs = frozenset({Capability.EXECUTOR_PROCESSES, Capability.SPARK})
    target: Executors = BUSIEST

    def approach(self, context: FaultContext) -> None:
        """Ask the driver's REST API once: its first answer takes seconds, the moment to strike may be milliseconds long."""
        app = context.spark_app()
        app.executors()
        app.lost_tasks(())


class CrashExecutor(ExecutorFault):
    """Executors of the pipeline die by SIGKILL; Spark replaces them."""

    provokes = "task retries: what a sink without idempotence writes again (SPARK-28908)"
    proved_by = "the JVM is gone, the driver has removed it and counts the tasks that died with it"
    kind: Literal["crash_executor"]

    def describe(self) -> str:
        return f"crash_executor {self.target}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        chosen, target = resolve_executors(self.target, context, rng)
        app = context.spark_app()
        return CrashedExecutors(target, 0.0, context, app, chosen, len(running(context, app)))


class PauseExecutor(ExecutorFault):
    """Executor JVMs are frozen by SIGSTOP, past their heartbeat or not, and wake up again."""

    provokes = "an executor that misses its heartbeats, and tasks that run a second time"
    proved_by = "the JVM is stopped in the middle of a task, or the driver missed it"
    kind: Literal["pause_executor"]
    for_s: SomeSeconds = Field(alias="for")

    def describe(self) -> str:
        return f"pause_executor {self.target} for {spoken_seconds(self.for_s)}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        chosen, target = resolve_executors(self.target, context, rng)
        app = context.spark_app()
        return PausedExecutors(target, self.for_s, context, app, chosen, len(running(context, app)))


@dataclass(slots=True)
class CrashedExecutors(Injection):
    """Executors that were killed in the middle of their tasks."""

    context: FaultContext
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
            return Proof(effective=False, facts={"pids": pids(self.victims), "problem": str(error)})
        return Proof(effective=True, facts={"pids": pids(self.victims), "lost_tasks": self._lost_tasks()})

    def heal(self) -> None:
        """Return when as many executors run as before."""
        wait_until_back(self.context, self.app, self.running_before)

    def _known(self) -> bool:
        gone = not any(victim.lives() for victim in self.victims)
        return gone and not _active(self.app, self.victims) and self._lost_tasks() > 0

    def _lost_tasks(self) -> int:
        return self.app.lost_tasks({victim.id for victim in self.victims})


@dataclass(slots=True)
class PausedExecutors(Injection):
    """Executors that stand still: the driver hears nothing of them, and removes them once their heartbeat is overdue."""

    context: FaultContext
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
        wait_until_back(self.context, self.app, self.running_before)

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


_THERE_WITHIN_S = 20.0
_BUSY_WITHIN_S = 5.0
_BACK_WITHIN_S = 30.0


def resolve_executors(target: ExecutorTarget, context: FaultContext, rng: Random) -> tuple[list[Executor], str]:
    """The executors meant, and the same in words: ``executor-1 (executor(busiest))``.

    Raises:
        InjectionError: none is there, not even after a while: a driver that was started again waits for its own.
    """
    app = context.spark_app()
    try:
        chosen = clock.wait_until(
            lambda: _meant(target, context, app, rng), within_s=_THERE_WITHIN_S, reason=f"{target} of {app.id}", every_s=0.02
        )
    except DeadlineError as error:
        raise InjectionError(f"{app.id} has no {target} now: {error}") from error
    return chosen, _in_words(chosen, target)


def resolve_working(
    target: ExecutorTarget, context: FaultContext, rng: Random, work: Callable[[Executor], int]
) -> tuple[list[Executor], str]:
    """The same for a fault of what runs below an executor: those meant that have some of it now, when one of them has.

    Args:
        work: how much of it an executor has.

    Raises:
        InjectionError: none of them has any, not even after a while.
    """
    app = context.spark_app()
    try:
        chosen = clock.wait_until(
            lambda: _working(target, running(context, app), rng, work),
            within_s=_THERE_WITHIN_S,
            reason=f"Python of {target} to be in a task",
            every_s=0.01,
            ignore=(psutil.NoSuchProcess,),
        )
    except DeadlineError as error:
        raise InjectionError(f"{app.id}: {error}") from error
    return chosen, _in_words(chosen, target)


def running(context: FaultContext, app: SparkApp) -> list[Executor]:
    """Executors of an application that run now."""
    return [executor for executor in context.system.spark.executors() if executor.app == app.id and executor.lives()]


def pids(executors: list[Executor]) -> dict[str, int]:
    """Name -> pid of the JVM."""
    return {f"executor-{executor.id}": executor.process.pid for executor in executors}


def wait_until_back(context: FaultContext, app: SparkApp, wanted: int) -> None:
    """Return when so many executors run and the driver knows them: Spark starts them, unless the application has ended.

    Raises:
        DeadlineError: it does not.
    """
    clock.wait_until(
        lambda: _ready(running(context, app), app) >= wanted or not _lives(app),
        within_s=_BACK_WITHIN_S,
        reason="Spark to replace the executors",
    )


def _meant(target: ExecutorTarget, context: FaultContext, app: SparkApp, rng: Random) -> list[Executor]:
    found = running(context, app)
    match target.which:
        case "all":
            return found
        case "any":
            return [rng.choice(found)] if found else []
        case "on":
            return [executor for executor in found if executor.worker == target.number]
        case "busiest":
            return [_busiest(found, app)] if found else []


def _working(target: ExecutorTarget, found: list[Executor], rng: Random, work: Callable[[Executor], int]) -> list[Executor]:
    amounts = {executor: amount for executor in found if (amount := work(executor))}
    match target.which:
        case "all":
            return list(amounts)
        case "any":
            return [rng.choice(list(amounts))] if amounts else []
        case "on":
            return [executor for executor in amounts if executor.worker == target.number]
        case "busiest":
            return [max(amounts, key=amounts.__getitem__)] if amounts else []


def _in_words(chosen: list[Executor], target: ExecutorTarget) -> str:
    return f"{', '.join(f'executor-{executor.id}' for executor in chosen)} ({target})"


def _busiest(found: list[Executor], app: SparkApp) -> Executor:
    """Between two batches nobody is busy: wait for the next one, for a while, or take any."""
    try:
        tasks = clock.wait_until(lambda: _active_tasks(app), within_s=_BUSY_WITHIN_S, reason="a task to run", every_s=0.02)
    except DeadlineError:
        return found[0]
    return max(found, key=lambda executor: tasks.get(executor.id, -1))


def _active_tasks(app: SparkApp) -> dict[str, int]:
    """Executor -> tasks that it runs now; empty when none does."""
    tasks = {state.id: state.active_tasks for state in app.executors().values() if state.active}
    return tasks if any(tasks.values()) else {}


def _ready(there: list[Executor], app: SparkApp) -> int:
    """How many of those that run can be given tasks."""
    try:
        known = app.executors()
    except requests.RequestException:
        return 0
    return sum(executor.id in known and known[executor.id].active for executor in there)


def _lives(app: SparkApp) -> bool:
    try:
        app.executors()
    except requests.RequestException:
        return False
    return True
