"""A replica that moves to another broker under load, and back.

With more brokers than replicas, one that has none of the partition gets it, and fetches all of it. With as many as replicas it
is thrown away, the partition lives on two, and the heal builds it anew.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from confluent_kafka import KafkaException

from chaos.cluster import leadership
from chaos.cluster.kafka import Kafka
from chaos.common import clock
from chaos.common.errors import DeadlineError
from chaos.faults.base import Injection, Prepare, Proof, Scene
from chaos.faults.declared.broker import ReassignPartition
from chaos.faults.leadership import Partition, partition_of
from chaos.faults.targets import resolve_brokers

_MOVES_WITHIN_S = 30.0
_BACK_WITHIN_S = 60.0
_NOT_YET = (KafkaException, LookupError)


def prepare_reassignment(fault: ReassignPartition, scene: Scene, rng: Random) -> Injection:
    """Aim a `ReassignPartition`."""
    kafka, partition = scene.system.kafka, partition_of(fault.target, scene)
    victim = resolve_brokers(fault.target, scene, rng)[0][0]
    replicas = kafka.replicas(*partition)
    spare = [number for number in kafka.broker_ids if number not in replicas]
    wanted = [*(replica for replica in replicas if replica != victim), *([rng.choice(spare)] if spare else [])]
    target = f"{partition[0]}-{partition[1]} on broker-{victim} ({fault.target})"
    return ReassignedPartition(target, fault.for_s, kafka, partition, replicas, wanted, victim)


@dataclass(slots=True)
class ReassignedPartition:
    """A partition whose replica is elsewhere until the heal."""

    target: str
    hold_s: float
    kafka: Kafka
    partition: Partition
    replicas: list[int]
    wanted: list[int]
    victim: int

    def inject(self) -> None:
        """Ask the controller for it."""
        leadership.reassign(self.kafka, *self.partition, self.wanted)

    def proof(self) -> Proof:
        """The wanted replicas are in sync, one of them leads, and the broker has none of it on its disk any more."""
        try:
            clock.wait_until(self._moved, within_s=_MOVES_WITHIN_S, reason="the replica to move", ignore=_NOT_YET)
        except DeadlineError as error:
            return Proof(bit=False, facts={"problem": str(error)})
        leader = self.kafka.leader(*self.partition)
        return Proof(bit=True, facts={"before": self.replicas, "now": self.wanted, "leader": f"broker-{leader}"})

    def heal(self) -> None:
        """Give it back, and return when it is in sync again."""
        if self.kafka.replicas(*self.partition) != self.replicas:
            leadership.reassign(self.kafka, *self.partition, self.replicas)
        clock.wait_until(
            self._is_back, within_s=_BACK_WITHIN_S, reason="the replica to be back in sync", every_s=0.1, ignore=_NOT_YET
        )

    def _moved(self) -> bool:
        topic, number = self.partition
        gone = not (self.kafka.brokers.data(self.victim) / f"{topic}-{number}").exists()
        in_sync = self.kafka.in_sync(topic, number) == sorted(self.wanted)
        return gone and in_sync and self.kafka.leader(topic, number) in self.wanted

    def _is_back(self) -> bool:
        same = self.kafka.replicas(*self.partition) == self.replicas
        return same and self.kafka.in_sync(*self.partition) == sorted(self.replicas)


CATALOGUE: Mapping[type, Prepare] = {ReassignPartition: prepare_reassignment}
