"""The zombie: a Python worker that sleeps through the death of its JVM, and wakes up when another has done its task."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import psutil
from confluent_kafka import KafkaException

from chaos.cluster.spark import Executor, SparkApp, lives
from chaos.common import clock
from chaos.common.errors import DeadlineError
from chaos.faults.base import Approach, Injection, Prepare, Proof, Scene
from chaos.faults.declared.spark import ZombieExecutor
from chaos.faults.executors import pids, running, wait_until_back, warm_up
from chaos.faults.spark_python_workers import in_tasks, pids_of, resolve_in_tasks, resume, workers

_REAPED_WITHIN_S = 2.0
_RETRIED_WITHIN_S = 40.0
_ENDS_WITHIN_S = 40.0


def approach(_fault: ZombieExecutor, scene: Scene) -> None:
    """Have the driver answer quickly later."""
    warm_up(scene)


def prepare(fault: ZombieExecutor, scene: Scene, rng: Random) -> Injection:
    """Aim a `ZombieExecutor`."""
    chosen, target = resolve_in_tasks(fault.target, scene, rng)
    app = scene.spark_app()
    return ZombieExecutors(target, fault.for_s, scene, app, chosen, len(running(scene, app)))


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
        busy = in_tasks(self.zombies, self.scene)
        facts: dict[str, Any] = {"executors": pids(self.executors), "zombies": pids_of(self.zombies), "in_tasks": busy}
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
        return Proof(dead and bool(busy) and set(busy) <= set(alive), facts)

    def heal(self) -> Mapping[str, Any]:
        """Wake them up, and see them end: they are refused by the brokers, or have nobody to report to.

        Raises:
            DeadlineError: one lives on; it is killed first.
        """
        resume(self.zombies)
        if all(executor.lives() for executor in self.executors):
            return {}  # it got no further than their daemons
        wait_until_back(self.scene, self.app, self.running_before)
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
        now = self.scene.positions()
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


CATALOGUE: Mapping[type, Prepare] = {ZombieExecutor: prepare}
APPROACHES: Mapping[type, Approach] = {ZombieExecutor: approach}
