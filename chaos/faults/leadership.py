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
from typing import Any

from confluent_kafka import KafkaException

from chaos.cluster import broker_disk, leadership
from chaos.cluster.kafka import Kafka
from chaos.cluster.links import Link
from chaos.cluster.system import System
from chaos.common import clock
from chaos.common.errors import DeadlineError, InjectionError
from chaos.faults.background import Course, until
from chaos.faults.base import Injection, Prepare, Proof, Scene
from chaos.faults.broker_processes import start_again
from chaos.faults.declared.broker import PreferLeader, UncleanElection
from chaos.faults.links import heal_each, name_of
from chaos.grammar.targets import BrokerTarget

_MIN_ISR = "min.insync.replicas"
_WITHIN_S = 30.0

Partition = tuple[str, int]


def prepare_unclean(fault: UncleanElection, scene: Scene, _rng: Random) -> Injection:
    """Aim an `UncleanElection`."""
    kafka, (topic, number) = scene.system.kafka, partition_of(fault.target, scene)
    leader, followers = kafka.leader(topic, number), kafka.followers(topic, number)
    links = [link.replication for link in scene.system.links if link.broker == leader and link.source in _names(followers)]
    target = f"broker-{leader} ({fault.target})"
    return UncleanlyElected(
        target, fault.restart_after_s, name_of(fault), scene.system, (topic, number), leader, followers, links
    )


def prepare_preferred(fault: PreferLeader, scene: Scene, rng: Random) -> Injection:
    """Aim a `PreferLeader`.

    Raises:
        InjectionError: no other replica is in sync.
    """
    kafka, (topic, number) = scene.system.kafka, partition_of(fault.target, scene)
    leader = kafka.leader(topic, number)
    others = [replica for replica in kafka.in_sync(topic, number) if replica != leader]
    if not others:
        raise InjectionError(f"no replica of {topic}-{number} but broker-{leader} is in sync: nobody else can lead it")
    replicas = kafka.replicas(topic, number)
    chosen = replicas[0] if replicas[0] in others else rng.choice(others)
    target = f"broker-{leader} to broker-{chosen} ({fault.target})"
    return PreferredLeader(target, 0.0, kafka, (topic, number), replicas, leader, chosen)


def partition_of(target: BrokerTarget, scene: Scene) -> Partition:
    """The partition behind a role: a leader's or follower's own, or that which makes its leader a coordinator."""
    kafka = scene.system.kafka
    match target.role:
        case "transaction_coordinator":
            return kafka.transaction_partition(scene.transactional_ids[target.partition])
        case "group_coordinator":
            return kafka.group_partition(scene.group)
        case _:
            return scene.topics[target.topic], target.partition


@dataclass(slots=True)
class UncleanlyElected:
    """A partition whose leader was alone, and has died.

    Attributes:
        links: the ways on which the followers fetch from it.
        ends: broker -> end of its log when the leader had died.
        elected: the new leader, 0 while there is none.
    """

    target: str
    hold_s: float
    name: str
    system: System
    partition: Partition
    leader: int
    followers: list[int]
    links: list[Link]
    ends: dict[int, int] = field(default_factory=dict)
    elected: int = 0
    course: Course = field(init=False)

    def __post_init__(self) -> None:
        self.course = Course(self._go_on)

    def inject(self) -> None:
        """Let the followers fall behind, and go on from there."""
        leadership.set_topic(self.system.kafka, self.partition[0], _MIN_ISR, "1")
        for link in self.links:
            link.add(self.name, "blackhole", "both", {})
        self.course.begin()

    def proof(self) -> Proof:
        """One of the followers leads, and its log ended before that of the one who had led."""
        missing = self.course.missing(4 * _WITHIN_S)
        behind = self.ends.get(self.leader, 0) - self.ends.get(self.elected, 0)
        bit = not missing and self.elected in self.followers and behind > 0
        return Proof(bit, self._facts | {"records_behind": behind} | missing)

    def heal(self) -> Mapping[str, Any]:
        """Let the old leader come back as a follower, which truncates its log; and give the topic its guard back."""
        self.course.end()
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
        kafka.brokers.processes[self.leader].kill()
        self.ends = {number: self._end(number) for number in (self.leader, *self.followers)}
        if until(self._elects, stop, _WITHIN_S, "an unclean election"):
            self.elected = kafka.leader(*self.partition)

    def _acknowledges_alone(self) -> bool:
        """Its high watermark is beyond what the followers have: so much is acknowledged, and only one has it."""
        topic, number = self.partition
        high = self.system.kafka.offsets(topic, number + 1)[number].hw
        return high > max(self._end(follower) for follower in self.followers)

    def _end(self, number: int) -> int:
        return broker_disk.log_end(self.system.kafka.brokers.data(number), *self.partition)

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
class PreferredLeader:
    """A partition that another replica leads, although nobody died.

    Attributes:
        replicas: as they were, the preferred one first.
    """

    target: str
    hold_s: float
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
            return Proof(bit=False, facts={"problem": str(error)})
        return Proof(bit=True, facts={"led": f"broker-{self.leader}", "leads": f"broker-{self.chosen}"})

    def heal(self) -> None:
        """Put the replicas in their old order. Leadership is left where it is: it is as good as it was."""
        if self.kafka.replicas(*self.partition) != self.replicas:
            leadership.reassign(self.kafka, *self.partition, self.replicas)

    def _leads(self) -> bool:
        in_sync = self.kafka.in_sync(*self.partition)
        return self.kafka.leader(*self.partition) == self.chosen and self.leader in in_sync


def _names(broker_ids: list[int]) -> set[str]:
    return {f"broker-{number}" for number in broker_ids}


CATALOGUE: Mapping[type, Prepare] = {UncleanElection: prepare_unclean, PreferLeader: prepare_preferred}
