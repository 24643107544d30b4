"""From declared executors to real ones, at the moment of injection: which run now, and which of them has the most to do."""

from collections.abc import Callable
from random import Random

import psutil
import requests

from chaos.cluster.spark import Executor, SparkApp
from chaos.common import clock
from chaos.common.errors import DeadlineError, InjectionError
from chaos.faults.base import Scene
from chaos.grammar.targets import ExecutorTarget

_THERE_WITHIN_S = 20.0
_BUSY_WITHIN_S = 5.0
_BACK_WITHIN_S = 30.0


def warm_up(scene: Scene) -> None:
    """Ask the driver's REST API once: its first answer takes seconds, and the moment to strike may be milliseconds long."""
    app = scene.spark_app()
    app.executors()
    app.lost_tasks(())


def resolve_executors(target: ExecutorTarget, scene: Scene, rng: Random) -> tuple[list[Executor], str]:
    """The executors meant, and the same in words: ``executor-1 (executor(busiest))``.

    Raises:
        InjectionError: none is there, not even after a while: a driver that was started again waits for its own.
    """
    app = scene.spark_app()
    try:
        chosen = clock.wait_until(
            lambda: _meant(target, scene, app, rng), within_s=_THERE_WITHIN_S, reason=f"{target} of {app.id}", every_s=0.02
        )
    except DeadlineError as error:
        raise InjectionError(f"{app.id} has no {target} now: {error}") from error
    return chosen, _in_words(chosen, target)


def resolve_working(
    target: ExecutorTarget, scene: Scene, rng: Random, work: Callable[[Executor], int]
) -> tuple[list[Executor], str]:
    """The same for a fault of what runs below an executor: those meant that have some of it now, when one of them has.

    Args:
        work: how much of it an executor has.

    Raises:
        InjectionError: none of them has any, not even after a while.
    """
    app = scene.spark_app()
    try:
        chosen = clock.wait_until(
            lambda: _working(target, running(scene, app), rng, work),
            within_s=_THERE_WITHIN_S,
            reason=f"Python of {target} to be in a task",
            every_s=0.01,
            ignore=(psutil.NoSuchProcess,),
        )
    except DeadlineError as error:
        raise InjectionError(f"{app.id}: {error}") from error
    return chosen, _in_words(chosen, target)


def running(scene: Scene, app: SparkApp) -> list[Executor]:
    """Executors of an application that run now."""
    return [executor for executor in scene.system.spark.executors() if executor.app == app.id and executor.lives()]


def pids(executors: list[Executor]) -> dict[str, int]:
    """Name -> pid of the JVM."""
    return {f"executor-{executor.id}": executor.process.pid for executor in executors}


def wait_until_back(scene: Scene, app: SparkApp, wanted: int) -> None:
    """Return when so many executors run and the driver knows them: Spark starts them, unless the application has ended.

    Raises:
        DeadlineError: it does not.
    """
    clock.wait_until(
        lambda: _ready(running(scene, app), app) >= wanted or not _lives(app),
        within_s=_BACK_WITHIN_S,
        reason="Spark to replace the executors",
    )


def _meant(target: ExecutorTarget, scene: Scene, app: SparkApp, rng: Random) -> list[Executor]:
    found = running(scene, app)
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
