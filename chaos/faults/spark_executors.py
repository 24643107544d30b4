"""Faults of Spark's executors: the JVM is killed with its tasks, or is frozen past its heartbeat."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

import psutil
import requests

from chaos.cluster.spark import Executor, ExecutorState, SparkApp
from chaos.common import clock
from chaos.common.errors import DeadlineError, InjectionError
from chaos.faults.base import FaultBase, FaultContext, Injection, Proof, TimedFault, unmet
from chaos.grammar.targets import Executors, ExecutorTarget
from chaos.runtime.capabilities import Capability

NO_ANSWER = (requests.RequestException,)
_COUNTED_WITHIN_S = 45.0
_STOPS_WITHIN_S = 2.0
_THERE_WITHIN_S = 60.0
_BUSY_WITHIN_S = 5.0
_SETTLES_WITHIN_S = 0.3  # of which the driver's REST API is up to 0.1 s late (spark.ui.liveUpdate.period)
_BACK_WITHIN_S = 180.0  # seconds on a quiet machine


class ExecutorFault(FaultBase):
    """A fault of executors of the pipeline."""

    needs = frozenset({Capability.EXECUTOR_PROCESSES, Capability.SPARK})
    target: Executors = ExecutorTarget("busiest")
    """which executors; ``busiest`` is the one that runs the most tasks."""

    def approach(self, context: FaultContext) -> None:
        """Call the driver's REST API once: its first answer takes seconds, the moment to strike may last milliseconds."""
        app = context.spark_app()
        app.executors()
        app.lost_tasks(())


@dataclass(slots=True)
class ExecutorInjection(Injection):
    """A fault of executor JVMs.

    Attributes:
        running_before: number of executors that the driver counted on when the target was resolved.
    """

    context: FaultContext
    app: SparkApp
    executors: list[Executor]
    running_before: int

    def missed(self) -> bool:
        """Whether the driver counts on none of these executors any more."""
        states = self.app.executors()
        return all(executor.id in states and not states[executor.id].active for executor in self.executors)

    def heal(self) -> Mapping[str, Any] | None:
        """Return when as many executors run as before."""
        wait_until_back(self.context, self.app, self.running_before)
        return None


class CrashExecutor(ExecutorFault):
    """Executors of the pipeline are killed with SIGKILL, with a task if they have one within 5 s; Spark replaces them."""

    provokes = "task retries: a sink without idempotence writes rows again (SPARK-28908)"
    proved_by = "the JVM is gone, the driver has removed it and counts the tasks that died with it"
    kind: Literal["crash_executor"]

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        app = context.spark_app()
        before = len(counted_on(context, app))  # first: the target's tasks may be over in milliseconds
        chosen, target = resolve_executors(self.target, context, rng)
        return CrashedExecutors(target, 0.0, context, app, chosen, before)


@dataclass(slots=True)
class CrashedExecutors(ExecutorInjection):
    def inject(self) -> None:
        """Freeze all at once, and kill them once the driver is seen to wait for one of their tasks.

        Tasks may be so short that they have ended before we see the driver's state. So if none of their tasks is left, the
        executors go on, for a while, until they have the next one.
        """
        ends_s = clock.monotonic_s() + _BUSY_WITHIN_S
        try:
            self._each("suspend")
            while not self._waited_for() and clock.monotonic_s() < ends_s:
                self._each("resume")
                _await_task(self.executors, self.app)
                self._each("suspend")
        finally:
            self._each("kill")

    def _each(self, signal: Literal["suspend", "resume", "kill"]) -> None:
        for executor in self.executors:
            with suppress(psutil.NoSuchProcess):
                getattr(executor.process, signal)()

    def _waited_for(self) -> bool:
        """Whether the driver still waits for their tasks, which cannot end now: earlier messages of theirs have arrived."""

        def none_is_left() -> bool:
            return not _tasks_of(self.executors, self.app)

        return bool(unmet(none_is_left, _SETTLES_WITHIN_S, "tasks to end", every_s=0.02, ignore=NO_ANSWER))

    def proof(self) -> Proof:
        missing = unmet(self._counted, _COUNTED_WITHIN_S, "the driver to count lost tasks", ignore=NO_ANSWER)
        return Proof(not missing, {"pids": pids(self.executors), **(missing or {"lost_tasks": self._lost_tasks()})})

    def _counted(self) -> bool:
        gone = not any(executor.lives() for executor in self.executors)
        return gone and self.missed() and self._lost_tasks() > 0

    def _lost_tasks(self) -> int:
        return self.app.lost_tasks({executor.id for executor in self.executors})


class PauseExecutor(ExecutorFault, TimedFault):
    """Executor JVMs are frozen by SIGSTOP, perhaps for longer than their heartbeat allows, and run on afterwards."""

    provokes = "an executor that misses its heartbeats, and tasks that run a second time"
    proved_by = (
        "the JVM was stopped in the middle of a task, or the driver removed it; a pause longer than the driver's patience "
        "needs the removal"
    )
    kind: Literal["pause_executor"]

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        app = context.spark_app()
        before, given_up_after_s = len(counted_on(context, app)), app.gives_up_after_s()  # first, as for a crash
        chosen, target = resolve_executors(self.target, context, rng)
        return PausedExecutors(target, self.for_s, context, app, chosen, before, given_up_after_s)


@dataclass(slots=True)
class PausedExecutors(ExecutorInjection):
    """Executors that are frozen.

    Attributes:
        given_up_after_s: longest time that the driver waits for their heartbeats.
    """

    given_up_after_s: float
    frozen_s: float = 0.0

    def inject(self) -> None:
        self.frozen_s = clock.monotonic_s()
        for executor in self.executors:
            executor.process.suspend()

    def proof(self) -> Proof:
        stopped = not unmet(self._all_stopped, _STOPS_WITHIN_S, "the executors to be stopped")
        tasks = self._tasks()
        left_s = max(0.1, self.frozen_s + self.hold_s - clock.monotonic_s())
        missing = unmet(self.missed, left_s, "the driver to miss the executors", ignore=NO_ANSWER)
        missed_after_s = None if missing else round(clock.monotonic_s() - self.frozen_s, 1)
        facts: dict[str, Any] = {
            "pids": pids(self.executors),
            "active_tasks": tasks,
            "missed_after_s": missed_after_s,
            "given_up_after_s": self.given_up_after_s,
        }
        enough = not missing or (tasks > 0 and self.hold_s < self.given_up_after_s)
        return Proof(stopped and enough, facts if enough else facts | missing)

    def heal(self) -> Mapping[str, Any] | None:
        """Resume the executors that Spark has not ended meanwhile, and return when as many run as before."""
        for executor in self.executors:
            if executor.lives():
                executor.process.resume()
        return ExecutorInjection.heal(self)

    def _all_stopped(self) -> bool:
        return all(executor.process.status() == psutil.STATUS_STOPPED for executor in self.executors)

    def _tasks(self) -> int:
        states = self.app.executors()
        return sum(states[executor.id].active_tasks for executor in self.executors if executor.id in states)


def resolve_executors(target: ExecutorTarget, context: FaultContext, rng: Random) -> tuple[list[Executor], str]:
    """Resolve the target executors, also in words: ``executor-1 (executor(busiest))``.

    Between two batches they have nothing to lose, so this waits, for a while, for the next task of any of them.

    Raises:
        InjectionError: there is none, not even after a while: a restarted driver waits for its own.
    """
    app = context.spark_app()
    try:
        chosen = clock.wait_until(
            lambda: _chosen(target, running(context, app), rng, lambda found: _busiest(found, app)),
            within_s=_THERE_WITHIN_S,
            reason=f"{target} of {app.id}",
            every_s=0.02,
        )
    except DeadlineError as error:
        raise InjectionError(f"{app.id} has no {target} now: {error}") from error
    if target.which != "busiest":
        _await_task(chosen, app)
    return chosen, _in_words(chosen, target)


def resolve_working(
    target: ExecutorTarget, context: FaultContext, rng: Random, work: Callable[[Executor], int]
) -> tuple[list[Executor], str]:
    """Resolve the target of a fault of Python below an executor: only executors with Python work count.

    Args:
        work: returns the Python work of an executor.

    Raises:
        InjectionError: no target executor has any, not even after a while.
    """
    app = context.spark_app()

    def working() -> list[Executor]:
        amounts = {executor: amount for executor in running(context, app) if (amount := work(executor))}
        return _chosen(target, list(amounts), rng, lambda found: max(found, key=amounts.__getitem__))

    try:
        chosen = clock.wait_until(
            working,
            within_s=_THERE_WITHIN_S,
            reason=f"Python of {target} to be in a task",
            every_s=0.01,
            ignore=(psutil.NoSuchProcess,),
        )
    except DeadlineError as error:
        raise InjectionError(f"{app.id}: {error}") from error
    return chosen, _in_words(chosen, target)


def running(context: FaultContext, app: SparkApp) -> list[Executor]:
    """List the executors of an application that run now."""
    return [executor for executor in context.system.spark.executors() if executor.app == app.id and executor.lives()]


def counted_on(context: FaultContext, app: SparkApp) -> list[Executor]:
    """List the executors that run and that the driver counts on: not one that it removed and that has not ended yet."""
    known = _known(app)
    there = running(context, app)
    return there if known is None else [one for one in there if one.id in known and known[one.id].active]


def pids(executors: list[Executor]) -> dict[str, int]:
    """Return name -> pid of the JVM."""
    return {f"executor-{executor.id}": executor.process.pid for executor in executors}


def wait_until_back(context: FaultContext, app: SparkApp, wanted: int) -> None:
    """Return when so many executors run and the driver knows them: Spark starts them, unless the application has ended.

    Raises:
        DeadlineError: too few run in time.
    """

    def back() -> bool:
        return _known(app) is None or len(counted_on(context, app)) >= wanted

    def seen() -> str:
        known = _known(app) or {}
        active = sorted(executor for executor, state in known.items() if state.active)
        there = {executor.id: executor.process.pid for executor in running(context, app)}
        return f"{wanted} are needed, the driver counts on {active}, and these run (id: pid): {there}"

    clock.wait_until(back, within_s=_BACK_WITHIN_S, reason="Spark to replace the executors", seen=seen)


def _chosen(
    target: ExecutorTarget, found: list[Executor], rng: Random, busiest: Callable[[list[Executor]], Executor]
) -> list[Executor]:
    if target.which == "on":
        return [executor for executor in found if executor.worker == target.number]
    if target.which == "all" or not found:
        return found
    return [busiest(found) if target.which == "busiest" else rng.choice(found)]


def _in_words(chosen: list[Executor], target: ExecutorTarget) -> str:
    return f"{', '.join(pids(chosen))} ({target})"


def _busiest(found: list[Executor], app: SparkApp) -> Executor:
    """Return the executor with the most tasks, or any if none gets a task in time."""
    tasks = _await_task(found, app)
    return max(found, key=lambda executor: tasks.get(executor.id, -1)) if tasks else found[0]


def _await_task(some: list[Executor], app: SparkApp) -> Mapping[str, int]:
    """Wait until one of these runs a task, and return executor -> its tasks; empty if none does in time."""
    try:
        return clock.wait_until(
            lambda: _tasks_of(some, app), within_s=_BUSY_WITHIN_S, reason="a task to run", every_s=0.02, ignore=NO_ANSWER
        )
    except DeadlineError:
        return {}


def _tasks_of(some: list[Executor], app: SparkApp) -> Mapping[str, int]:
    """Return executor -> its tasks, according to the driver; empty if none of these runs any."""
    ids = {executor.id for executor in some}
    tasks = {state.id: state.active_tasks for state in app.executors().values() if state.active and state.id in ids}
    return tasks if any(tasks.values()) else {}


def _known(app: SparkApp) -> Mapping[str, ExecutorState] | None:
    """Return the executors that the driver knows; None when it does not answer."""
    try:
        return app.executors()
    except requests.RequestException:
        return None
