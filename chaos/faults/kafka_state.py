"""Faults of the pipeline's consumer group: strangers join and leave it, or what it has committed is deleted."""

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from random import Random
from threading import Event as Flag
from threading import Thread
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from chaos.common import clock
from chaos.common.errors import DeadlineError, InjectionError
from chaos.faults.base import Injection, PipelineUnderTest, Prepare, Proof, Scene
from chaos.faults.declared.client import DeleteGroupOffsets, RebalanceStorm

_ASK_S = 10.0
_POLL_S = 0.1
_JOIN_S = 30.0
_DELETED_WITHIN_S = 60.0
_ENOUGH = 2


def prepare_storm(fault: RebalanceStorm, scene: Scene, _rng: Random) -> Injection:
    """Aim a `RebalanceStorm`."""
    return Storm(f"the group {scene.group}", fault.for_s, fault.every_s, scene)


def prepare_delete(fault: DeleteGroupOffsets, scene: Scene, _rng: Random) -> Injection:
    """Aim a `DeleteGroupOffsets`."""
    return DeletedOffsets(
        f"the group {scene.group}", fault.restart_after_s, scene, scene.pipeline(), seeds=fault.repair == "seeded"
    )


@dataclass(slots=True)
class Storm:
    """Members that join the group, are given what the pipeline had, and leave; they read, and commit nothing."""

    target: str
    hold_s: float
    every_s: float
    scene: Scene
    rounds: list[int] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    stop: Flag = field(default_factory=Flag)
    thread: Thread | None = None

    def inject(self) -> None:
        """Begin."""
        self.thread = Thread(target=self._rage, name="rebalance-storm", daemon=True)
        self.thread.start()

    def proof(self) -> Proof:
        """The coordinator has made two generations at least with a stranger in them: it said so to the stranger."""
        try:
            clock.wait_until(
                lambda: len(self.rounds) >= _ENOUGH or self.problems, within_s=self.hold_s, reason="two more generations"
            )
        except DeadlineError as error:
            return Proof(bit=False, facts={"joined": len(self.rounds), "problem": str(error)})
        return Proof(len(self.rounds) >= _ENOUGH, {"joined": len(self.rounds), "problems": self.problems})

    def heal(self) -> Mapping[str, Any]:
        """End it: the last stranger leaves.

        Raises:
            InjectionError: it does not.
        """
        self.stop.set()
        if self.thread is not None:
            self.thread.join(_JOIN_S)
            if self.thread.is_alive():
                raise InjectionError("the last member of the rebalance storm does not leave its group")
        return {"generations_joined": len(self.rounds), "partitions_taken": sum(self.rounds)}

    def _rage(self) -> None:
        while not self.stop.is_set() and not self.problems:
            began_s = clock.monotonic_s()
            try:
                self._join_and_leave()
            except KafkaException as error:
                self.problems.append(str(error))
            clock.pause(max(0.0, self.every_s - (clock.monotonic_s() - began_s)), self.stop)

    def _join_and_leave(self) -> None:
        given: list[int] = []
        with closing(_member(self.scene)) as member:
            member.subscribe(
                [self.scene.topics["datasource"]], on_assign=lambda _member, partitions: given.append(len(partitions))
            )
            while not given and not self.stop.is_set():
                answer = member.poll(_POLL_S)
                if answer is not None and answer.error() is not None:
                    raise KafkaException(answer.error())
        self.rounds.extend(given)


@dataclass(slots=True)
class DeletedOffsets:
    """A group that has forgotten where its pipeline was; nobody was a member when that happened."""

    target: str
    hold_s: float
    scene: Scene
    pipeline: PipelineUnderTest
    seeds: bool
    pids: Mapping[str, int] = field(default_factory=dict)
    before: Mapping[int, int] = field(default_factory=dict)

    def inject(self) -> None:
        """Kill the pipeline: a group that has members keeps its offsets."""
        self.pids = self.pipeline.crash()

    def proof(self) -> Proof:
        """There were positions once the last commit underway had ended, and there are none now."""
        try:
            self._wait(self._nobody_writes, "the tasks of the pipeline to end")
            self.before = self._wait(self.scene.positions, "positions to delete")
            self._wait(self._deleted, "the group to be empty, and deleted")
        except DeadlineError as error:
            return Proof(bit=False, facts={"pids": self.pids, "before": self.before, "problem": str(error)})
        return Proof(bool(self.pids), {"pids": self.pids, "before": self.before, "after": self.scene.positions()})

    def heal(self) -> Mapping[str, Any]:
        """Put the positions back, if that was declared, and start the pipeline."""
        seeded, self.before = (self.before if self.seeds else {}), {}
        if seeded:
            _seed(self.scene, seeded)
        self.pipeline.restart()
        return {"seeded": seeded} if seeded else {}

    def _wait(self, condition: Callable[[], Any], reason: str) -> Any:
        return clock.wait_until(
            condition, within_s=_DELETED_WITHIN_S, reason=reason, every_s=0.2, ignore=(KafkaException,), seen=None
        )

    def _nobody_writes(self) -> bool:
        """Executors live on for a moment when their driver has died, and commit."""
        return not any(executor.lives() for executor in self.scene.system.spark.executors())

    def _deleted(self) -> bool:
        """Tried until the members that died have been given up (session.timeout.ms)."""
        group = self.scene.group
        try:
            self.scene.system.kafka.admin.delete_consumer_groups([group], request_timeout=_ASK_S)[group].result(_ASK_S + 1)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
                raise
        return not self.scene.positions()


def _member(scene: Scene) -> Consumer:
    """With the assignment strategy that librdkafka and Java's clients have in common."""
    return Consumer(
        {
            "bootstrap.servers": scene.system.kafka.bootstrap,
            "group.id": scene.group,
            "client.id": "chaos-storm",
            "partition.assignment.strategy": "range",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            "log_level": 0,
        }
    )


def _seed(scene: Scene, positions: Mapping[int, int]) -> None:
    topic = scene.topics["datasource"]
    wanted = [TopicPartition(topic, partition, position) for partition, position in positions.items()]
    with closing(_member(scene)) as asker:
        asker.commit(offsets=wanted, asynchronous=False)


CATALOGUE: Mapping[type, Prepare] = {
    DeleteGroupOffsets: prepare_delete,
    RebalanceStorm: prepare_storm,
}
