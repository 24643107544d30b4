"""Faults of leadership: moved while every broker lives (preferred), or given to a replica that is behind (unclean).

The way to an unclean election, on a healthy cluster:

    followers cannot fetch ─▶ in sync: the leader alone ─▶ it acknowledges alone ─▶ it dies ─▶ a follower is elected
    (blackholed replication)  (replica.lag.time.max.ms)    (min.insync.replicas=1)            (ElectLeaders, UNCLEAN)

Only replication is blackholed, not the controller quorum: one isolated voter of three cannot elect anything.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from threading import Event
from typing import Any, Literal

from confluent_kafka import KafkaException
from pydantic import Field

from chaos.cluster import broker_disk
from chaos.cluster.kafka import Kafka
from chaos.cluster.links import Link
from chaos.cluster.system import System
from chaos.common import clock
from chaos.common.errors import InjectionError
from chaos.faults.base import (
    BackgroundSteps,
    BrokerFault,
    FaultContext,
    Injection,
    Proof,
    RestartedBrokerFault,
    TimedFault,
    unmet,
    wait_unless_stopped,
)
from chaos.faults.broker_processes import start_again
from chaos.faults.links import heal_each, name_of
from chaos.faults.targets import broker_names, in_words, partition_of, resolve_brokers
from chaos.grammar.targets import Broker
from chaos.grammar.units import Seconds, SomeSeconds, spoken_seconds
from chaos.runtime.capabilities import Capability

_MIN_ISR = "min.insync.replicas"
_WITHIN_S = 30.0
_BACK_WITHIN_S = 180.0
_NOT_YET = (KafkaException, LookupError)
Partition = tuple[str, int]


@dataclass(slots=True)
class PartitionInjection(Injection):
    """A fault of one partition whose replicas may be reassigned.

    Attributes:
        replicas: the old ones, the preferred one first.
    """

    kafka: Kafka
    partition: Partition
    replicas: list[int]

    def put_back(self) -> None:
        """Give the partition its old replicas, in their old order."""
        if self.kafka.replicas(*self.partition) != self.replicas:
            self.kafka.reassign(*self.partition, self.replicas)


class PreferLeader(BrokerFault):
    """Leadership of a partition moves to another replica by a preferred leader election; no broker dies."""

    roles = ("leader", "transaction_coordinator", "group_coordinator")
    needs = frozenset({Capability.CLUSTER_STATE})
    provokes = "NOT_LEADER_OR_FOLLOWER and a new coordinator while all brokers live (KIP-460)"
    proved_by = "another replica leads, and the old leader is still in sync"
    kind: Literal["prefer_leader"]
    target: Broker
    """the broker whose leadership moves."""

    def describe(self) -> str:
        return f"prefer_leader: another replica than {self.target} leads"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        kafka, partition = context.system.kafka, partition_of(self.target, context)
        leader = resolve_brokers(self.target, context, rng)[0][0]
        others = [replica for replica in kafka.in_sync(*partition) if replica != leader]
        if not others:
            name = "-".join(map(str, partition))
            raise InjectionError(f"only broker-{leader} is in sync for {name}, so no other broker can lead it")
        replicas = kafka.replicas(*partition)
        chosen = replicas[0] if replicas[0] in others else rng.choice(others)
        target = f"broker-{leader} to broker-{chosen} ({self.target})"
        return PreferredLeader(target, 0.0, kafka, partition, replicas, leader, chosen)


@dataclass(slots=True)
class PreferredLeader(PartitionInjection):
    """A partition that another replica leads, although no broker died.

    Attributes:
        leader: the old one.
        chosen: the new one.
    """

    leader: int
    chosen: int

    def inject(self) -> None:
        """Make the chosen replica the preferred one, if it is not, and elect."""
        if self.replicas[0] != self.chosen:
            order = [self.chosen, *(replica for replica in self.replicas if replica != self.chosen)]
            self.kafka.reassign(*self.partition, order)
        self.kafka.elect(*self.partition)

    def proof(self) -> Proof:
        missing = unmet(self._leads, _WITHIN_S, "the leader to move", ignore=_NOT_YET)
        return Proof(not missing, missing or {"led": f"broker-{self.leader}", "leads": f"broker-{self.chosen}"})

    def heal(self) -> None:
        """Put the replicas back; leadership stays with the new leader, which serves as well."""
        self.put_back()

    def _leads(self) -> bool:
        in_sync = self.kafka.in_sync(*self.partition)
        return self.kafka.leader(*self.partition) == self.chosen and self.leader in in_sync


class ReassignPartition(BrokerFault, TimedFault):
    """A replica moves to another broker under load; if no other broker is left, it is deleted, and rebuilt at the heal."""

    roles = ("leader", "follower", "transaction_coordinator", "group_coordinator")
    needs = frozenset({Capability.CLUSTER_STATE, Capability.BROKER_DISKS})
    provokes = "a partition that moves under load (KIP-455)"
    proved_by = "the new replicas are in sync, one of them leads, and the old one is gone from its disk"
    kind: Literal["reassign_partition"]
    for_s: SomeSeconds = Field(alias="for")
    """how long the replica is elsewhere."""
    target: Broker
    """the broker whose replica moves."""

    def describe(self) -> str:
        return f"reassign_partition: the replica on {self.target} is elsewhere {self.lasts}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        kafka, partition = context.system.kafka, partition_of(self.target, context)
        moved = resolve_brokers(self.target, context, rng)[0][0]
        replicas = kafka.replicas(*partition)
        spare = [broker for broker in kafka.broker_ids if broker not in replicas]
        wanted = [*(replica for replica in replicas if replica != moved), *([rng.choice(spare)] if spare else [])]
        target = f"{partition[0]}-{partition[1]} on broker-{moved} ({self.target})"
        return ReassignedPartition(target, self.for_s, kafka, partition, replicas, wanted, moved)


@dataclass(slots=True)
class ReassignedPartition(PartitionInjection):
    """A partition one of whose replicas is elsewhere until the heal.

    Attributes:
        wanted: the replicas while the fault is in force.
        moved: the broker that loses its replica.
        leads: the leader after the move, 0 before it.
    """

    wanted: list[int]
    moved: int
    leads: int = 0

    def inject(self) -> None:
        self.kafka.reassign(*self.partition, self.wanted)

    def proof(self) -> Proof:
        missing = unmet(self._has_moved, _WITHIN_S, "the replica to move", ignore=_NOT_YET)
        if missing:
            return Proof(effective=False, facts=missing)
        return Proof(effective=True, facts={"before": self.replicas, "now": self.wanted, "leader": f"broker-{self.leads}"})

    def heal(self) -> None:
        self.put_back()
        reason = "the replica to be back in sync"
        clock.wait_until(self._is_back, within_s=_BACK_WITHIN_S, reason=reason, every_s=0.1, ignore=_NOT_YET)

    def _has_moved(self) -> bool:
        topic, number = self.partition
        gone = not (self.kafka.brokers.data(self.moved) / f"{topic}-{number}").exists()
        in_sync = self.kafka.in_sync(topic, number) == sorted(self.wanted)
        self.leads = self.kafka.leader(topic, number)
        return gone and in_sync and self.leads in self.wanted

    def _is_back(self) -> bool:
        same = self.kafka.replicas(*self.partition) == self.replicas
        return same and self.kafka.in_sync(*self.partition) == sorted(self.replicas)


class UncleanElection(RestartedBrokerFault):
    """The followers fall behind, the leader writes on alone and dies, and one of the followers is made leader all the same.

    The topic gets ``min.insync.replicas=1`` until the heal. Otherwise the lone leader would refuse writes, and the followers
    would stay eligible (KIP-966). Records that only the leader had are lost, acknowledged or not.
    """

    roles = ("leader",)
    needs = frozenset({Capability.BROKER_PROCESSES, Capability.BROKER_DISKS, Capability.ALL_LINKS, Capability.CLUSTER_STATE})
    provokes = "acknowledged records are lost, and their offsets are given to others (KIP-101, KIP-966)"
    proved_by = "the new leader is a follower whose log ended before that of the old leader"
    kind: Literal["unclean_election"]
    target: Broker
    """the leader that dies."""
    alone_for_s: Seconds = Field(alias="alone_for", default=0.0)
    """how long the leader acknowledges records alone before it dies; readers get what it alone has."""

    def describe(self) -> str:
        alone = f" for {spoken_seconds(self.alone_for_s)}" if self.alone_for_s else ""
        return f"unclean_election after {self.target} was alone{alone}, {self.restarted}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        system, partition = context.system, partition_of(self.target, context)
        leader = resolve_brokers(self.target, context, rng)[0][0]
        followers = sorted(replica for replica in system.kafka.replicas(*partition) if replica != leader)
        sources = broker_names(followers)
        links = [link.replication for link in system.links if link.broker == leader and link.source in sources]
        target = in_words(broker_names([leader]), self.target)
        words = (name_of(self), system, partition, leader, followers, links)
        return UncleanlyElected(target, self.restart_after_s, *words, alone_for_s=self.alone_for_s)


@dataclass(slots=True)
class UncleanlyElected(Injection):
    """A partition whose leader was alone in sync, and was killed.

    Attributes:
        links: the links on which the followers fetch from it.
        alone_for_s: from its first acknowledgement alone to its death.
        ends: broker -> end of its log when the leader had died.
        elected: the new leader, 0 while there is none.
    """

    name: str
    system: System
    partition: Partition
    leader: int
    followers: list[int]
    links: list[Link]
    alone_for_s: float = field(default=0.0, kw_only=True)
    ends: dict[int, int] = field(default_factory=dict)
    elected: int = 0
    background: BackgroundSteps = field(init=False)

    def __post_init__(self) -> None:
        self.background = BackgroundSteps(self._isolate_and_kill)

    def inject(self) -> None:
        self.system.kafka.set_topic(self.partition[0], _MIN_ISR, "1")
        for link in self.links:
            link.add(self.name, "blackhole", "both", {})
        self.background.begin()

    def proof(self) -> Proof:
        unfinished = self.background.unfinished(4 * _WITHIN_S + self.alone_for_s)
        behind = self.ends.get(self.leader, 0) - self.ends.get(self.elected, 0)
        effective = not unfinished and self.elected in self.followers and behind > 0
        return Proof(effective, self._facts | {"records_behind": behind} | unfinished)

    def heal(self) -> Mapping[str, Any]:
        """Start the old leader again, as a follower that truncates its log, and reset the topic's setting."""
        self.background.end()
        heal_each(self.links, lambda link: link.remove(self.name, "both"))
        start_again(self.system, [self.leader])
        clock.wait_until(self._guarded, within_s=_WITHIN_S, reason=f"{_MIN_ISR} to be reset", ignore=(KafkaException,))
        return self._facts

    @property
    def _facts(self) -> dict[str, Any]:
        ends = {f"broker-{broker}": end for broker, end in sorted(self.ends.items())}
        return {"log_ends": ends, "elected": f"broker-{self.elected}" if self.elected else ""}

    def _isolate_and_kill(self, stop: Event) -> None:
        kafka = self.system.kafka
        for condition, reason in (
            (lambda: kafka.in_sync(*self.partition) == [self.leader], "the leader to be alone"),
            (self._acknowledges_alone, "the leader to acknowledge records alone"),
        ):
            if not wait_unless_stopped(condition, stop, _WITHIN_S, reason):
                return
        if clock.pause(self.alone_for_s, stop):
            return
        kafka.brokers.processes[self.leader].kill()
        self.ends = {broker: self._log_end(broker) for broker in (self.leader, *self.followers)}
        wait_unless_stopped(self._elects, stop, _WITHIN_S, "an unclean election")

    def _acknowledges_alone(self) -> bool:
        """Whether its high watermark is beyond the followers' ends: it alone has the records between, acknowledged."""
        topic, number = self.partition
        high = self.system.kafka.offsets(topic, number + 1)[number].hw
        return high > max(self._log_end(follower) for follower in self.followers)

    def _log_end(self, broker: int) -> int:
        return broker_disk.log_end(self.system.kafka.brokers.data(broker), *self.partition)

    def _elects(self) -> bool:
        """Try the election; it is refused until the controller knows that the leader is dead, and once there is a new one.

        The leader is kept as it was told: another broker, asked a moment later, may not know of it yet.
        """
        kafka = self.system.kafka
        with suppress(InjectionError):
            kafka.elect(*self.partition, unclean=True)
        leader = kafka.leader(*self.partition)
        if leader in self.followers:
            self.elected = leader
        return self.elected > 0

    def _guarded(self) -> bool:
        self.system.kafka.set_topic(self.partition[0], _MIN_ISR, None)
        return True
