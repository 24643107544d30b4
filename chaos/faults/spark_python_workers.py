"""Faults of the Python of Spark's executors: workers and daemons die, or workers hang."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

import psutil
import requests
from confluent_kafka import KafkaException
from pydantic import Field

from chaos.cluster.addresses import remote_ports
from chaos.cluster.spark import Executor, SparkApp, lives
from chaos.common import clock
from chaos.common.errors import DeadlineError
from chaos.faults.base import FaultContext, Injection, Proof
from chaos.faults.spark_executors import ExecutorFault, pids, resolve_working, running, wait_until_back
from chaos.grammar.targets import ExecutorTarget
from chaos.grammar.units import SomeSeconds, spoken_seconds
from chaos.runtime.capabilities import Capability

_KNOWN_WITHIN_S = 15.0
_GONE_WITHIN_S = 2.0
_COPIED_WITHIN_S = 30.0
_REAPED_WITHIN_S = 2.0
_RETRIED_WITHIN_S = 40.0
_ENDS_WITHIN_S = 40.0


class PythonFault(ExecutorFault):
    """A fault of the Python processes of executors."""

    needs = frozenset({Capability.PYTHON_PROCESSES, Capability.SPARK, Capability.PYTHON_WORKERS})


class CrashPythonDaemon(PythonFault):
    """``pyspark.daemon`` of executors dies by SIGKILL; its workers live on, their JVM makes another one when it needs it."""

    provokes = "workers without a daemon: their tasks end, the next ones get new workers"
    proved_by = "the daemon is gone, and its JVM lives"
    kind: Literal["crash_python_daemon"]

    def describe(self) -> str:
        return f"crash_python_daemon of {self.target}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        chosen, target = resolve_working(self.target, context, rng, lambda executor: len(executor.daemons()))
        return CrashedPythonDaemons(f"pyspark.daemon of {target}", 0.0, chosen)


class CrashPythonWorker(PythonFault):
    """The Python workers of executors die by SIGKILL in the middle of their tasks; their JVMs live on."""

    provokes = "a task that fails in Python and is tried again on the same executor"
    proved_by = "the workers are gone, and the driver counts tasks that failed in Python"
    kind: Literal["crash_python_worker"]

    def describe(self) -> str:
        return f"crash_python_worker of {self.target}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        chosen, target = resolve_in_tasks(self.target, context, rng)
        app = context.spark_app()
        before = app.failed_in_python({executor.id for executor in chosen})
        return CrashedPythonWorkers(f"Python workers of {target}", 0.0, app, chosen, before)


class PausePythonWorker(PythonFault):
    """The Python workers of executors are frozen by SIGSTOP: their tasks hang, and with ``speculation: true`` are copied."""

    provokes = "a task that stands still in the middle of a transaction; a speculative copy beside it"
    proved_by = "the workers are stopped while they have a connection to a broker"
    kind: Literal["pause_python_worker"]
    for_s: SomeSeconds = Field(alias="for")

    def describe(self) -> str:
        return f"pause_python_worker of {self.target} for {spoken_seconds(self.for_s)}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        chosen, target = resolve_in_tasks(self.target, context, rng)
        app = context.spark_app()
        before = app.speculative_tasks() if app.speculates() else None
        return PausedPythonWorkers(f"Python workers of {target}", self.for_s, context, app, chosen, before)


@dataclass(slots=True)
class CrashedPythonWorkers(Injection):
    """Python workers that died in the middle of their tasks; the executors live on, and fork others."""

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
            return Proof(effective=False, facts={"workers": pids_of(self.victims), "problem": str(error)})
        return Proof(effective=bool(self.victims), facts={"workers": pids_of(self.victims), "failed_tasks": self._failed()})

    def heal(self) -> None:
        """Nothing to do: an executor forks the workers that it needs."""

    def _failed(self) -> int:
        return self.app.failed_in_python({executor.id for executor in self.executors}) - self.failed_before


@dataclass(slots=True)
class CrashedPythonDaemons(Injection):
    """Daemons that died: no worker can be forked, those that are there finish their tasks as orphans."""

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
class PausedPythonWorkers(Injection):
    """Python workers that stand still: their tasks hang. With speculation, copies are started on another worker."""

    context: FaultContext
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
        busy = in_tasks(self.victims, self.context)
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
            return Proof(effective=False, facts=facts | {"problem": str(error)})
        return Proof(effective=True, facts=facts | {"speculative_tasks": copies})

    def heal(self) -> None:
        """Let those run on that Spark has not ended meanwhile."""
        resume(self.victims)

    def _copies(self) -> int:
        return self.app.speculative_tasks() - (self.copies_before or 0)


def resolve_in_tasks(target: ExecutorTarget, context: FaultContext, rng: Random) -> tuple[list[Executor], str]:
    """The executors meant that have Python workers in the middle of a task of the sink.

    Raises:
        InjectionError: there is none, not even after a while.
    """
    return resolve_working(target, context, rng, lambda executor: len(in_tasks(executor.python_workers(), context)))


def workers(executors: list[Executor]) -> list[psutil.Process]:
    """The Python workers of executors, in a task or not."""
    return [worker for executor in executors for worker in executor.python_workers()]


def in_tasks(workers: list[psutil.Process], context: FaultContext) -> list[int]:
    """Pids of those that are connected to brokers: a worker that waits for a task has no client."""
    port = context.system.addresses.client_port(context.client)
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


class ZombieExecutor(PythonFault):
    """Python workers are frozen, their JVM dies, retried tasks commit, and the workers wake up: producers of an old epoch."""

    provokes = "producers of an old epoch that write after their successors (KIP-360)"
    proved_by = "the frozen workers are alive, and every partition of theirs is done by another producer"
    kind: Literal["zombie_executor"]
    for_s: SomeSeconds = Field(alias="for")

    def describe(self) -> str:
        return f"zombie_executor {self.target}, woken up after {spoken_seconds(self.for_s)}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        chosen, target = resolve_in_tasks(self.target, context, rng)
        app = context.spark_app()
        return ZombieExecutors(target, self.for_s, context, app, chosen, len(running(context, app)))


@dataclass(slots=True)
class ZombieExecutors(Injection):
    """Executors whose JVM is dead and whose Python workers sleep in the middle of a transaction.

    The daemon dies first, and its JVM has waited for it. Frozen processes whose group loses its last outer parent get SIGHUP
    and SIGCONT from the kernel (``kill_orphaned_pgrp``): the workers must be orphans before they are frozen. And a daemon that
    sees its JVM end takes its workers with it (``pyspark.daemon``, ``shutdown``).
    """

    context: FaultContext
    app: SparkApp
    executors: list[Executor]
    running_before: int
    zombies: list[psutil.Process] = field(default_factory=list)
    before: Mapping[int, int] = field(default_factory=dict)

    def inject(self) -> None:
        """Daemon dead, workers frozen, JVM dead; all within milliseconds."""
        self.zombies = workers(self.executors)
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
        busy = in_tasks(self.zombies, self.context)
        facts: dict[str, Any] = {"executors": pids(self.executors), "zombies": pids_of(self.zombies), "in_tasks": busy}
        try:
            self.before = clock.wait_until(
                self.context.positions, within_s=_RETRIED_WITHIN_S, reason="the group's positions", ignore=(KafkaException,)
            )
            clock.wait_until(
                self._all_moved,
                within_s=_RETRIED_WITHIN_S,
                reason="every partition to commit again",
                every_s=0.2,
                ignore=(KafkaException,),
                seen=self.context.positions,
            )
        except DeadlineError as error:
            return Proof(effective=False, facts=facts | {"problem": str(error)})
        dead = not any(executor.lives() for executor in self.executors)
        alive = [zombie.pid for zombie in self.zombies if lives(zombie)]
        facts |= {"outlived_their_jvm": alive, "committed_since": self._moved()}
        return Proof(dead and bool(busy) and set(busy) <= set(alive), facts)

    def heal(self) -> Mapping[str, Any]:
        """Wake them up, and see them end: they are refused by the brokers, or have nobody to report to.

        Raises:
            DeadlineError: one lives on; it is killed first.
        """
        resume(self.zombies)
        if all(executor.lives() for executor in self.executors):
            return {}  # it got no further than their daemons
        wait_until_back(self.context, self.app, self.running_before)
        try:
            clock.wait_until(
                lambda: not any(map(lives, self.zombies)), within_s=_ENDS_WITHIN_S, reason="the zombies to end", every_s=0.1
            )
        finally:
            for zombie in filter(lives, self.zombies):
                zombie.kill()
        return {"woken_up": pids_of(self.zombies)}

    def _all_moved(self) -> bool:
        return set(self._moved()) >= set(self.before)

    def _moved(self) -> dict[int, int]:
        """Partition -> rows committed since."""
        now = self.context.positions()
        return {partition: now[partition] - then for partition, then in self.before.items() if now.get(partition, 0) > then}


def _waited_for(processes: list[psutil.Process]) -> None:
    """Return when they are no longer even dead children of somebody.

    Raises:
        DeadlineError: their parent does not wait for them.
    """
    clock.wait_until(
        lambda: not any(process.is_running() for process in processes),
        within_s=_REAPED_WITHIN_S,
        reason="dead daemons to be waited for",
        every_s=0.001,
    )
