"""Faults of leadership: elected from those who are behind (unclean), or moved while everybody lives (preferred).

How an election becomes unclean, on a cluster that is whole at first:

    followers cannot fetch ─▶ in sync: the leader alone ─▶ it acknowledges alone ─▶ it dies ─▶ a follower is elected
    (blackholed replication)  (replica.lag.time.max.ms)    (min.insync.replicas=1)            (ElectLeaders, UNCLEAN)

Only replication is blackholed, not the controller quorum: three voters of which two are dead could not elect anybody.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from threading import Event
from typing import Any, Literal

from confluent_kafka import KafkaException
from pydantic import Field

from chaos.cluster import broker_disk, leadership
from chaos.cluster.kafka import Kafka
from chaos.cluster.links import Link
from chaos.cluster.system import System
from chaos.common import clock
from chaos.common.errors import DeadlineError, InjectionError
from chaos.faults.base import (
    BackgroundSteps,
    BrokerFault,
    FaultContext,
    Injection,
    Proof,
    RestartedBrokerFault,
    until,
)
from chaos.faults.broker_processes import start_again
from chaos.faults.links import heal_each, name_of
from chaos.faults.targets import resolve_brokers
from chaos.grammar.targets import BrokerTarget
from chaos.grammar.units import SomeSeconds, spoken_seconds
from chaos.runtime.capabilities import Capability

_MIN_ISR = "min.insync.replicas"
_WITHIN_S = 30.0
Partition = tuple[str, int]


class UncleanElection(RestartedBrokerFault):
    """The followers fall behind, the leader writes on alone and dies, and one of them becomes leader all the same.

    The partition's guard is taken away for that: its topic gets ``min.insync.replicas=1`` until the heal, or the leader would
    refuse what it alone has, and the followers would stay eligible (KIP-966). What it alone had is lost, acknowledged or not.
    """

    roles = ("leader",)
    needs = frozenset({Capability.BROKER_PROCESSES, Capability.BROKER_DISKS, Capability.ALL_LINKS, Capability.CLUSTER_STATE})
    provokes = "acknowledged records are lost, offsets are given twice (KIP-101, KIP-966)"
    proved_by = "a follower leads whose log ended before that of the old leader"
    kind: Literal["unclean_election"]

    def describe(self) -> str:
        return f"unclean_election after {self.target} was alone, {self.restarted}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        kafka, (topic, number) = context.system.kafka, partition_of(self.target, context)
        leader, followers = kafka.leader(topic, number), kafka.followers(topic, number)
        links = [
            link.replication for link in context.system.links if link.broker == leader and link.source in _names(followers)
        ]
        target = f"broker-{leader} ({self.target})"
        return UncleanlyElected(
            target, self.restart_after_s, name_of(self), context.system, (topic, number), leader, followers, links
        )


class PreferLeader(BrokerFault):
    """Leadership of a partition moves to another replica by a preferred leader election; nobody dies."""

    roles = ("leader", "transaction_coordinator", "group_coordinator")
    needs = frozenset({Capability.CLUSTER_STATE})
    provokes = "NOT_LEADER_OR_FOLLOWER and a new coordinator while all brokers live (KIP-460)"
    proved_by = "another replica leads, and the old leader is still in sync"
    kind: Literal["prefer_leader"]

    def describe(self) -> str:
        return f"prefer_leader: another replica than {self.target} leads"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        """Resolve the target.

        Raises:
            InjectionError: no other replica is in sync.
        """
        kafka, (topic, number) = context.system.kafka, partition_of(self.target, context)
        leader = kafka.leader(topic, number)
        others = [replica for replica in kafka.in_sync(topic, number) if replica != leader]
        if not others:
            raise InjectionError(f"no replica of {topic}-{number} but broker-{leader} is in sync: nobody else can lead it")
        replicas = kafka.replicas(topic, number)
        chosen = replicas[0] if replicas[0] in others else rng.choice(others)
        target = f"broker-{leader} to broker-{chosen} ({self.target})"
        return PreferredLeader(target, 0.0, kafka, (topic, number), replicas, leader, chosen)


def partition_of(target: BrokerTarget, context: FaultContext) -> Partition:
    """The partition behind a role: a leader's or follower's own, or that which makes its leader a coordinator."""
    kafka = context.system.kafka
    match target.role:
        case "transaction_coordinator":
            return kafka.transaction_partition(context.transactional_ids[target.partition])
        case "group_coordinator":
            return kafka.group_partition(context.group)
        case _:
            return context.topics[target.topic], target.partition


@dataclass(slots=True)
class UncleanlyElected(Injection):
    """A partition whose leader was alone, and has died.

    Attributes:
        links: the ways on which the followers fetch from it.
        ends: broker -> end of its log when the leader had died.
        elected: the new leader, 0 while there is none.
    """

    name: str
    system: System
    partition: Partition
    leader: int
    followers: list[int]
    links: list[Link]
    ends: dict[int, int] = field(default_factory=dict)
    elected: int = 0
    background: BackgroundSteps = field(init=False)

    def __post_init__(self) -> None:
        self.background = BackgroundSteps(self._go_on)

    def inject(self) -> None:
        """Let the followers fall behind, and go on from there."""
        leadership.set_topic(self.system.kafka, self.partition[0], _MIN_ISR, "1")
        for link in self.links:
            link.add(self.name, "blackhole", "both", {})
        self.background.begin()

    def proof(self) -> Proof:
        """One of the followers leads, and its log ended before that of the one who had led."""
        missing = self.background.missing(4 * _WITHIN_S)
        behind = self.ends.get(self.leader, 0) - self.ends.get(self.elected, 0)
        effective = not missing and self.elected in self.followers and behind > 0
        return Proof(effective, self._facts | {"records_behind": behind} | missing)

    def heal(self) -> Mapping[str, Any]:
        """Let the old leader come back as a follower, which truncates its log; and give the topic its guard back."""
        self.background.end()
        heal_each(self.links, lambda link: link.remove(self.name, "both"))
        start_again(self.system, [self.leader])
        clock.wait_until(self._guarded, within_s=_WITHIN_S, reason=f"{_MIN_ISR} to be taken back", ignore=(KafkaException,))
        return self._facts

    @property
    def _facts(self) -> dict[str, Any]:
        ends = {f"broker-{number}": end for number, end in sorted(self.ends.items())}
        return {"log_ends": ends, "elected": f"broker-{self.elected}" if self.elected else ""}

    def _go_on(self, stop: Event) -> None:
        kafka = self.system.kafka
        alone = until(lambda: kafka.in_sync(*self.partition) == [self.leader], stop, _WITHIN_S, "the leader to be alone")
        if not alone or not until(self._acknowledges_alone, stop, _WITHIN_S, "the leader to acknowledge something alone"):
            return
        kafka.processes[self.leader].kill()
        self.ends = {number: self._end(number) for number in (self.leader, *self.followers)}
        if until(self._elects, stop, _WITHIN_S, "an unclean election"):
            self.elected = kafka.leader(*self.partition)

    def _acknowledges_alone(self) -> bool:
        """Its high watermark is beyond what the followers have: so much is acknowledged, and only one has it."""
        topic, number = self.partition
        high = self.system.kafka.offsets(topic, number + 1)[number].hw
        return high > max(self._end(follower) for follower in self.followers)

    def _end(self, number: int) -> int:
        return broker_disk.log_end(self.system.kafka.data(number), *self.partition)

    def _elects(self) -> bool:
        """Refused until the controller knows that the leader is dead, and once there is a new one."""
        kafka = self.system.kafka
        with suppress(InjectionError):
            leadership.elect(kafka, *self.partition, unclean=True)
        return kafka.leader(*self.partition) in self.followers

    def _guarded(self) -> bool:
        leadership.set_topic(self.system.kafka, self.partition[0], _MIN_ISR, None)
        return True


@dataclass(slots=True)
class PreferredLeader(Injection):
    """A partition that another replica leads, although nobody died.

    Attributes:
        replicas: as they were, the preferred one first.
    """

    kafka: Kafka
    partition: Partition
    replicas: list[int]
    leader: int
    chosen: int

    def inject(self) -> None:
        """Make it the preferred one, if it is not, and elect."""
        if self.replicas[0] != self.chosen:
            order = [self.chosen, *(replica for replica in self.replicas if replica != self.chosen)]
            leadership.reassign(self.kafka, *self.partition, order)
        leadership.elect(self.kafka, *self.partition)

    def proof(self) -> Proof:
        """It leads, and the one who led before is in sync still."""
        try:
            clock.wait_until(self._leads, within_s=_WITHIN_S, reason="the leader to move", ignore=(KafkaException, LookupError))
        except DeadlineError as error:
            return Proof(effective=False, facts={"problem": str(error)})
        return Proof(effective=True, facts={"led": f"broker-{self.leader}", "leads": f"broker-{self.chosen}"})

    def heal(self) -> None:
        """Put the replicas in their old order. Leadership is left where it is: it is as good as it was."""
        if self.kafka.replicas(*self.partition) != self.replicas:
            leadership.reassign(self.kafka, *self.partition, self.replicas)

    def _leads(self) -> bool:
        in_sync = self.kafka.in_sync(*self.partition)
        return self.kafka.leader(*self.partition) == self.chosen and self.leader in in_sync


def _names(numbers: list[int]) -> set[str]:
    return {f"broker-{number}" for number in numbers}


_MOVES_WITHIN_S = 30.0
_BACK_WITHIN_S = 60.0
_NOT_YET = (KafkaException, LookupError)


class ReassignPartition(BrokerFault):
    """A replica moves to another broker under load; with three brokers it is thrown away, and built anew at the heal."""

    roles = ("leader", "follower", "transaction_coordinator", "group_coordinator")
    needs = frozenset({Capability.CLUSTER_STATE, Capability.BROKER_DISKS})
    provokes = "a partition that moves under load (KIP-455)"
    proved_by = "the wanted replicas are in sync, one of them leads, and the old one is gone from its disk"
    kind: Literal["reassign_partition"]
    for_s: SomeSeconds = Field(alias="for")

    def describe(self) -> str:
        return f"reassign_partition: the replica on {self.target} is elsewhere for {spoken_seconds(self.for_s)}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        kafka, partition = context.system.kafka, partition_of(self.target, context)
        victim = resolve_brokers(self.target, context, rng)[0][0]
        replicas = kafka.replicas(*partition)
        spare = [number for number in kafka.numbers if number not in replicas]
        wanted = [*(replica for replica in replicas if replica != victim), *([rng.choice(spare)] if spare else [])]
        target = f"{partition[0]}-{partition[1]} on broker-{victim} ({self.target})"
        return ReassignedPartition(target, self.for_s, kafka, partition, replicas, wanted, victim)


@dataclass(slots=True)
class ReassignedPartition(Injection):
    """A partition whose replica is elsewhere until the heal."""

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
            return Proof(effective=False, facts={"problem": str(error)})
        leader = self.kafka.leader(*self.partition)
        return Proof(effective=True, facts={"before": self.replicas, "now": self.wanted, "leader": f"broker-{leader}"})

    def heal(self) -> None:
        """Give it back, and return when it is in sync again."""
        if self.kafka.replicas(*self.partition) != self.replicas:
            leadership.reassign(self.kafka, *self.partition, self.replicas)
        clock.wait_until(
            self._is_back, within_s=_BACK_WITHIN_S, reason="the replica to be back in sync", every_s=0.1, ignore=_NOT_YET
        )

    def _moved(self) -> bool:
        topic, number = self.partition
        gone = not (self.kafka.data(self.victim) / f"{topic}-{number}").exists()
        in_sync = self.kafka.in_sync(topic, number) == sorted(self.wanted)
        return gone and in_sync and self.kafka.leader(topic, number) in self.wanted

    def _is_back(self) -> bool:
        same = self.kafka.replicas(*self.partition) == self.replicas
        return same and self.kafka.in_sync(*self.partition) == sorted(self.replicas)
