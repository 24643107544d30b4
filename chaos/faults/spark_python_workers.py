"""Faults of the Python processes of Spark's executors: workers and daemons are killed, or workers hang."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

import psutil
from confluent_kafka import KafkaException

from chaos.cluster.addresses import remote_ports
from chaos.cluster.spark import Executor, SparkApp
from chaos.common import clock
from chaos.common.processes import lives
from chaos.faults.base import FaultContext, Injection, Proof, TimedFault, unmet
from chaos.faults.spark_executors import (
    NO_ANSWER,
    ExecutorFault,
    ExecutorInjection,
    counted_on,
    pids,
    resolve_working,
    wait_until_back,
)
from chaos.grammar.targets import ExecutorTarget
from chaos.grammar.units import spoken_seconds
from chaos.runtime.capabilities import Capability

_COUNTED_WITHIN_S = 45.0
_GONE_WITHIN_S = 10.0
_COPIED_WITHIN_S = 30.0
_REAPED_WITHIN_S = 2.0
_RETRIED_WITHIN_S = 90.0
_ENDS_WITHIN_S = 90.0
_NO_COORDINATOR = (KafkaException,)


class PythonFault(ExecutorFault):
    """A fault of the Python processes of executors."""

    needs = frozenset({Capability.PYTHON_PROCESSES, Capability.SPARK, Capability.PYTHON_WORKERS})


class CrashPythonDaemon(PythonFault):
    """The pyspark.daemon of executors in a task is killed with SIGKILL; its workers live on, and the JVM starts another."""

    provokes = "workers without a daemon: their tasks end, the next ones get new workers"
    proved_by = "the daemon is gone, and its JVM and at least one orphaned worker live"
    kind: Literal["crash_python_daemon"]

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        chosen, target = resolve_in_tasks(self.target, context, rng)
        return CrashedPythonDaemons(f"pyspark.daemon of {target}", 0.0, chosen)


@dataclass(slots=True)
class CrashedPythonDaemons(Injection):
    """Daemons that are dead; their workers are orphans, as long as they live."""

    executors: list[Executor]
    killed: list[psutil.Process] = field(default_factory=list)
    workers: list[psutil.Process] = field(default_factory=list)

    def inject(self) -> None:
        self.killed = _daemons(self.executors)
        self.workers = _workers(self.executors)
        for daemon in self.killed:
            daemon.kill()

    def proof(self) -> Proof:
        """Show that a worker outlived its daemon: Spark replaces a daemon without workers, and no task notices."""
        missing = unmet(lambda: not any(map(lives, self.killed)), _GONE_WITHIN_S, "the daemons to be gone", every_s=0.001)
        orphans = list(filter(lives, self.workers))
        alive = all(executor.lives() for executor in self.executors)
        if not missing and not orphans:
            missing = {"problem": "no worker outlived its daemon"}
        facts = {"daemons": _pids(self.killed), "executors": pids(self.executors), "orphans": _pids(orphans)}
        return Proof(bool(self.killed) and not missing and alive, facts | missing)


class CrashPythonWorker(PythonFault):
    """The Python workers of executors are killed with SIGKILL in the middle of their tasks; their JVMs live on."""

    provokes = "a task that fails in Python and is tried again on the same executor"
    proved_by = "the workers are gone, and the driver counts tasks that failed in Python"
    kind: Literal["crash_python_worker"]

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        chosen, target = resolve_in_tasks(self.target, context, rng)
        app = context.spark_app()
        before = app.failed_in_python({executor.id for executor in chosen})
        return CrashedPythonWorkers(f"Python workers of {target}", 0.0, app, chosen, before)


@dataclass(slots=True)
class CrashedPythonWorkers(Injection):
    app: SparkApp
    executors: list[Executor]
    failed_before: int
    killed: list[psutil.Process] = field(default_factory=list)

    def inject(self) -> None:
        self.killed = _workers(self.executors)
        for worker in self.killed:
            worker.kill()

    def proof(self) -> Proof:
        missing = unmet(self._counted, _COUNTED_WITHIN_S, "a task to miss its Python worker", ignore=NO_ANSWER)
        facts = {"workers": _pids(self.killed), **(missing or {"failed_tasks": self._failed()})}
        return Proof(bool(self.killed) and not missing, facts)

    def _counted(self) -> bool:
        return not any(map(lives, self.killed)) and self._failed() > 0

    def _failed(self) -> int:
        return self.app.failed_in_python({executor.id for executor in self.executors}) - self.failed_before


class PausePythonWorker(PythonFault, TimedFault):
    """The Python workers of executors are frozen by SIGSTOP: their tasks hang, and with speculation they are copied."""

    provokes = "a task that hangs in the middle of a transaction; with speculation, a copy of it that runs beside it"
    proved_by = "the workers are stopped while connected to a broker; with speculation, Spark started a copy of their task"
    kind: Literal["pause_python_worker"]

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        chosen, target = resolve_in_tasks(self.target, context, rng)
        app = context.spark_app()
        before = app.speculative_tasks() if app.speculates() else None
        return PausedPythonWorkers(f"Python workers of {target}", self.for_s, context, app, chosen, before)


@dataclass(slots=True)
class PausedPythonWorkers(Injection):
    """Frozen Python workers: their tasks hang. With speculation, copies are started on another worker.

    Attributes:
        copies_before: number of speculative tasks before the fault; None without speculation.
    """

    context: FaultContext
    app: SparkApp
    executors: list[Executor]
    copies_before: int | None
    frozen: list[psutil.Process] = field(default_factory=list)

    def inject(self) -> None:
        self.frozen = _workers(self.executors)
        for worker in self.frozen:
            worker.suspend()

    def proof(self) -> Proof:
        """Show that one of them is connected to brokers, so in a task; with speculation, that this task has a copy."""
        busy = in_tasks(self.frozen, self.context)
        facts: dict[str, Any] = {"workers": _pids(self.frozen), "in_tasks": busy}
        if self.copies_before is None:
            return Proof(bool(busy), facts)
        missing = unmet(self._copies, min(self.hold_s, _COPIED_WITHIN_S), "a speculative task", ignore=NO_ANSWER)
        return Proof(not missing, facts | (missing or {"speculative_tasks": self._copies()}))

    def heal(self) -> None:
        _resume(self.frozen)

    def _copies(self) -> int:
        return self.app.speculative_tasks() - (self.copies_before or 0)


class ZombieExecutor(PythonFault, TimedFault):
    """Python workers are frozen, their JVM is killed, retried tasks commit, and the workers wake up with an old epoch."""

    provokes = "producers of an old epoch that write after their successors, and must be fenced (KIP-98)"
    proved_by = "the frozen workers are alive, their JVM is not, and every partition has committed since"
    kind: Literal["zombie_executor"]

    def describe(self) -> str:
        return f"zombie_executor {self.target}, woken up after {spoken_seconds(self.for_s)}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        app = context.spark_app()
        before = len(counted_on(context, app))  # first: the target's tasks may be over in milliseconds
        chosen, target = resolve_in_tasks(self.target, context, rng)
        return ZombieExecutors(target, self.for_s, context, app, chosen, before)


@dataclass(slots=True)
class ZombieExecutors(ExecutorInjection):
    """Executors whose JVM is dead and whose Python workers are frozen in the middle of a transaction.

    The daemon dies first, and its JVM has waited for it. The kernel sends SIGHUP and SIGCONT to frozen processes whose group
    loses its last outer parent (``kill_orphaned_pgrp``), so the workers must be orphans before they are frozen. And a daemon
    that sees its JVM end takes its workers with it (``pyspark.daemon``, ``shutdown``).

    Attributes:
        before: partition -> position of the pipeline when the fault was in force.
    """

    zombies: list[psutil.Process] = field(default_factory=list)
    before: Mapping[int, int] = field(default_factory=dict)

    def inject(self) -> None:
        """Kill the daemons, freeze the workers, kill the JVMs; all within milliseconds."""
        self.zombies = _workers(self.executors)
        daemons = _daemons(self.executors)
        for daemon in daemons:
            daemon.kill()
        _await_reaping(daemons)
        for zombie in self.zombies:
            zombie.suspend()
        for executor in self.executors:
            executor.process.kill()

    def proof(self) -> Proof:
        """Show that the JVM is gone, the workers are not, and every partition (so every retried task) has committed since."""
        busy = in_tasks(self.zombies, self.context)
        facts: dict[str, Any] = {"executors": pids(self.executors), "zombies": _pids(self.zombies), "in_tasks": busy}
        missing = unmet(self._positions_known, _RETRIED_WITHIN_S, "the group's positions", ignore=_NO_COORDINATOR) or unmet(
            self._all_moved,
            _RETRIED_WITHIN_S,
            "every partition to commit again",
            every_s=0.2,
            ignore=_NO_COORDINATOR,
            seen=self.context.positions,
        )
        if missing:
            return Proof(effective=False, facts=facts | missing)
        dead = not any(executor.lives() for executor in self.executors)
        alive = _pids([zombie for zombie in self.zombies if lives(zombie)])
        facts |= {"outlived_their_jvm": alive, "committed_since": self._moved()}
        return Proof(dead and bool(busy) and set(busy) <= set(alive), facts)

    def heal(self) -> Mapping[str, Any]:
        """Wake them up, and wait for their ends: brokers refuse them, or their JVM is missing. Kill those that live on."""
        _resume(self.zombies)
        if all(executor.lives() for executor in self.executors):
            return {}  # only their daemons were killed
        wait_until_back(self.context, self.app, self.running_before)
        try:
            clock.wait_until(
                lambda: not any(map(lives, self.zombies)), within_s=_ENDS_WITHIN_S, reason="the zombies to end", every_s=0.1
            )
        finally:
            for zombie in filter(lives, self.zombies):
                zombie.kill()
        return {"woken_up": _pids(self.zombies)}

    def _positions_known(self) -> bool:
        self.before = self.context.positions()
        return bool(self.before)

    def _all_moved(self) -> bool:
        return set(self._moved()) >= set(self.before)

    def _moved(self) -> dict[int, int]:
        """Partition -> number of rows committed since."""
        now = self.context.positions()
        return {partition: now[partition] - then for partition, then in self.before.items() if now.get(partition, 0) > then}


def resolve_in_tasks(target: ExecutorTarget, context: FaultContext, rng: Random) -> tuple[list[Executor], str]:
    """Resolve the target executors that have Python workers in the middle of a task of the sink.

    Raises:
        InjectionError: there is none, not even after a while.
    """
    return resolve_working(target, context, rng, lambda executor: len(in_tasks(executor.python_workers(), context)))


def in_tasks(workers: list[psutil.Process], context: FaultContext) -> list[int]:
    """List pids of the workers that are connected to brokers: a worker that waits for a task has no client."""
    port = context.system.addresses.client_port(context.client)
    return [worker.pid for worker in workers if lives(worker) and port in remote_ports(worker.pid)]


def _workers(executors: list[Executor]) -> list[psutil.Process]:
    """List their Python workers, in a task or not."""
    return [worker for executor in executors for worker in executor.python_workers()]


def _daemons(executors: list[Executor]) -> list[psutil.Process]:
    return [daemon for executor in executors for daemon in executor.daemons()]


def _pids(processes: list[psutil.Process]) -> list[int]:
    return [process.pid for process in processes]


def _resume(processes: list[psutil.Process]) -> None:
    """Send SIGCONT to the processes that still exist."""
    for process in filter(lives, processes):
        process.resume()


def _await_reaping(processes: list[psutil.Process]) -> None:
    """Return when their parent has reaped all of these dead processes.

    Raises:
        DeadlineError: it does not.
    """
    clock.wait_until(
        lambda: not any(process.is_running() for process in processes),
        within_s=_REAPED_WITHIN_S,
        reason="dead daemons to be reaped",
        every_s=0.001,
    )
