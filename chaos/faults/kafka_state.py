"""Faults of Kafka's state for the pipeline: its group's offsets and members, and a transaction that hangs in its output."""

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from random import Random
from threading import Event
from typing import Annotated, Any, Literal, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from pydantic import AfterValidator, Field

from chaos.common import clock
from chaos.common.errors import InjectionError
from chaos.faults.base import (
    BackgroundSteps,
    FaultContext,
    Injection,
    LastingFault,
    PipelineUnderTest,
    Proof,
    RestartedFault,
    unmet,
)
from chaos.grammar.base import WrongValueError
from chaos.grammar.units import SomeSeconds, spoken_seconds
from chaos.runtime.capabilities import Capability
from verifiers.base import Bounds

_ASK_S = 10.0
_POLL_S = 0.1
_DELETED_WITHIN_S = 60.0
_GENERATIONS = 2
_STORM = "chaos-storm"  # range gives partitions in the order of the members' names: mostly before the pipeline's
_WITHIN_S = 20.0
_BLOCKS_WITHIN_S = 15.0
_LONGEST_TRANSACTION_S = 900.0  # transaction.max.timeout.ms
_NOT_YET = (KafkaException,)


class DeleteGroupOffsets(RestartedFault):
    """The pipeline dies, its consumer group's offsets are deleted, and it is started again.

    With ``repair: seeded`` the positions are put back from outside before it starts, as from a backup; with
    ``repair: beginning`` they are set to 0, as by an operator who wants everything read again.
    """

    needs = frozenset({Capability.CLUSTER_STATE, Capability.PIPELINE, Capability.CONSUMER_GROUP})
    provokes = "a start without a position: auto.offset.reset decides whether records are lost or read again"
    proved_by = "the group had positions, and has none now"
    kind: Literal["delete_group_offsets"]
    repair: Literal["none", "seeded", "beginning"] = "none"
    """the change to the positions before the pipeline is started again."""

    def describe(self) -> str:
        repaired = {"none": "", "seeded": ", then put back", "beginning": ", then set to 0"}[self.repair]
        return f"delete_group_offsets{repaired}, {self.restarted}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        return DeletedOffsets(f"the group {context.group}", self.restart_after_s, self, context, context.pipeline())


@dataclass(slots=True)
class DeletedOffsets(Injection):
    """A group that has lost the positions of its pipeline while it had no member."""

    fault: DeleteGroupOffsets
    context: FaultContext
    pipeline: PipelineUnderTest
    pids: Mapping[str, int] = field(default_factory=dict)
    before: Mapping[int, int] = field(default_factory=dict)

    def inject(self) -> None:
        """Kill the pipeline: a group with members keeps its offsets."""
        self.pids = self.pipeline.crash()

    def complete(self) -> None:
        """Delete the group once the last commit under way has ended, and its dead members have expired."""
        self._wait(self._no_task_runs, "the tasks of the pipeline to end")
        self.before = self._wait(self.context.positions, "positions to delete")
        self._wait(self._deleted, "the group to be empty, and deleted")

    def proof(self) -> Proof:
        after = self.context.positions()
        return Proof(bool(self.pids and self.before) and not after, {"pids": self.pids, "before": self.before, "after": after})

    def heal(self) -> Mapping[str, Any]:
        """Put the positions back or set them to 0, if that was declared, and start the pipeline."""
        before, self.before = self.before, {}
        seeded = {"none": {}, "seeded": before, "beginning": dict.fromkeys(before, 0)}[self.fault.repair]
        if seeded:
            _seed(self.context, seeded)
        self.pipeline.restart()
        return {"seeded": seeded} if seeded else {}

    def _wait(self, condition: Callable[[], Any], reason: str) -> Any:
        return clock.wait_until(condition, within_s=_DELETED_WITHIN_S, reason=reason, every_s=0.2, ignore=_NOT_YET)

    def _no_task_runs(self) -> bool:
        """Whether no executor runs: after the death of their driver, executors live on for a moment, and commit."""
        return not any(executor.lives() for executor in self.context.system.spark.executors())

    def _deleted(self) -> bool:
        """Try to delete the group; the broker refuses until the dead members have expired (session.timeout.ms)."""
        group = self.context.group
        try:
            self.context.system.kafka.admin.delete_consumer_groups([group], request_timeout=_ASK_S)[group].result(_ASK_S + 1)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
                raise
        return not self.context.positions()


class RebalanceStorm(LastingFault):
    """A foreign member joins the pipeline's consumer group and leaves it, over and over: each time the group rebalances."""

    needs = frozenset({Capability.CLUSTER_STATE, Capability.PIPELINE, Capability.CONSUMER_GROUP, Capability.GROUP_MEMBERS})
    provokes = "generations that change in the middle of a transaction (KIP-447)"
    proved_by = "twice the foreign member got partitions that members of the pipeline had"
    kind: Literal["rebalance_storm"]
    every_s: SomeSeconds = Field(alias="every", default=1.0)
    """the time from one rebalance to the next."""

    def describe(self) -> str:
        return f"rebalance_storm every {spoken_seconds(self.every_s)} {self.lasts}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        return Storm(f"the group {context.group}", self.for_s, self.every_s, context)


@dataclass(slots=True)
class Storm(Injection):
    """Members that join the group, get partitions of the pipeline, and leave; they read, and commit nothing.

    Attributes:
        rounds: the generations with our member, and those that it did not join because the group had no other member.
    """

    every_s: float
    context: FaultContext
    rounds: list["_Round"] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    background: BackgroundSteps = field(init=False)

    def __post_init__(self) -> None:
        self.background = BackgroundSteps(self._join_and_leave)

    def inject(self) -> None:
        self.background.begin()

    def proof(self) -> Proof:
        """Show that our member, in two generations, got partitions that others had before."""
        missing = unmet(
            lambda: len(self._moved()) >= _GENERATIONS or self.problems,
            self.hold_s,
            "two generations in which partitions move to the foreign member",
            seen=self._seen,
        )
        moved, facts = self._moved(), {"rounds": [one._asdict() for one in self.rounds], "problems": self.problems}
        return Proof(len(moved) >= _GENERATIONS, facts | missing)

    def heal(self) -> Mapping[str, Any]:
        self.background.end()
        moved = self._moved()
        return {"generations_joined": len(moved), "partitions_taken": sum(one.taken for one in moved)}

    def _moved(self) -> list["_Round"]:
        return [one for one in self.rounds if one.members and one.taken]

    def _seen(self) -> str:
        if not self.rounds:
            return "no round has ended"
        members, taken = self.rounds[-1]
        return f"{taken} partitions moved" if members else "the group has no members whose partitions could move"

    def _join_and_leave(self, stop: Event) -> None:
        while not stop.is_set() and not self.problems:
            began_s = clock.monotonic_s()
            try:
                self._join_once(stop)
            except KafkaException as error:
                self.problems.append(str(error))
            clock.pause(max(0.0, self.every_s - (clock.monotonic_s() - began_s)), stop)

    def _join_once(self, stop: Event) -> None:
        members = _members(self.context)
        if not members:
            self.rounds.append(_Round(0, 0))  # our member would get all partitions, and take them from nobody
        else:
            self.rounds.extend(_Round(members, taken) for taken in self._joined(stop))

    def _joined(self, stop: Event) -> list[int]:
        """Number of partitions that a new member got before it left; empty if it was stopped before."""
        given: list[int] = []
        with closing(_member(self.context)) as member:
            member.subscribe([self.context.source], on_assign=lambda _member, partitions: given.append(len(partitions)))
            while not given and not stop.is_set():
                answer = member.poll(_POLL_S)
                if answer is not None and answer.error() is not None:
                    raise KafkaException(answer.error())
        return given


def _allowed(value: float) -> float:
    if value > _LONGEST_TRANSACTION_S:
        raise WrongValueError("transaction-too-long", "brokers abort a transaction after 15m at the latest; write 15m or less")
    return value


class HangingTransaction(LastingFault):
    """A transaction of another producer stays open in the sink: no committed row behind it can be read until it ends.

    It is aborted after ``for``; with ``end: open`` the broker aborts it after ``transaction_timeout``.
    """

    needs = frozenset({Capability.CLUSTER_STATE, Capability.PIPELINE})
    provokes = "a last stable offset that stands still: committed rows that cannot be read (KIP-664)"
    proved_by = "the last stable offset stands at the record of that transaction, below the high watermark"
    kind: Literal["hanging_transaction"]
    partition: Annotated[int, Field(strict=True, ge=0)] = 0
    """the partition of the sink."""
    transaction_timeout_s: Annotated[SomeSeconds, AfterValidator(_allowed)] = Field(alias="transaction_timeout", default=600.0)
    """the time after which the broker aborts it; 900s at most."""
    end: Literal["aborted", "open"] = "aborted"
    """its end: ``aborted`` by this fault, or left ``open`` for the broker."""

    def describe(self) -> str:
        end = ", then aborted" if self.end == "aborted" else ", never ended"
        return f"hanging_transaction in partition {self.partition} of the sink {self.lasts}{end}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        target = f"{context.sink}-{self.partition}"
        return OpenTransaction(target, self.for_s, self, context)


@dataclass(slots=True)
class OpenTransaction(Injection):
    fault: HangingTransaction
    context: FaultContext
    offsets: list[int] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    producer: Producer | None = None

    def inject(self) -> None:
        """Begin it and write one record."""
        self.producer = self._new_producer()
        self.producer.begin_transaction()
        self.producer.produce(
            self.context.sink, key=b"-1", value=b"1", partition=self.fault.partition, on_delivery=self._delivered
        )
        self.producer.flush(_WITHIN_S)
        if not self.offsets:
            raise InjectionError(f"the record of the hanging transaction was not written: {'; '.join(self.failures)}")

    def proof(self) -> Proof:
        (offset,) = self.offsets
        missing = unmet(
            lambda: self._ends().lso == offset,
            _BLOCKS_WITHIN_S,
            "the last stable offset to stand before the open transaction",
            ignore=_NOT_YET,
            seen=self._ends,
        )
        if missing:
            return Proof(effective=False, facts={"offset": offset, **missing})
        ends = self._ends()
        return Proof(ends.lso == offset < ends.hw, {"offset": offset, "lso": ends.lso, "hw": ends.hw})

    def heal(self) -> Mapping[str, Any]:
        """Let the coordinator abort it, by a producer with the same transactional.id, unless it shall stay open."""
        if self.fault.end == "open" or self.producer is None:
            return {"left_open_at": self.offsets}
        self._new_producer()
        if self.offsets:
            clock.wait_until(
                lambda: self._ends().lso > self.offsets[0],
                within_s=_WITHIN_S,
                reason="the last stable offset to move on",
                ignore=_NOT_YET,
                seen=self._ends,
            )
        return {"aborted_at": self.offsets}

    def _new_producer(self) -> Producer:
        """Make a producer, whose start aborts the open transaction of an earlier one."""
        producer = Producer(
            {
                "bootstrap.servers": self.context.system.kafka.bootstrap,
                "transactional.id": f"chaos-hanging-{self.context.sink}-{self.fault.partition}",
                "transaction.timeout.ms": round(1000 * self.fault.transaction_timeout_s),
                "log_level": 0,
            }
        )
        producer.init_transactions(_WITHIN_S)
        return producer

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        offset = message.offset()
        if error is not None or offset is None:
            self.failures.append(str(error))
        else:
            self.offsets.append(offset)

    def _ends(self) -> Bounds:
        number = self.fault.partition
        return self.context.system.kafka.offsets(self.context.sink, number + 1)[number]


class _Round(NamedTuple):
    """The number of members that the group had before ours came, and of partitions that ours got."""

    members: int
    taken: int


def _members(context: FaultContext) -> int:
    """Count the members of the pipeline in its group.

    Raises:
        KafkaException: the coordinator does not answer.
    """
    found = context.system.kafka.described(context.group)
    return sum(member.client_id != _STORM for member in found.members)


def _member(context: FaultContext) -> Consumer:
    """Make a member, with the assignment strategy that librdkafka and Java's clients have in common."""
    return Consumer(
        {
            "bootstrap.servers": context.system.kafka.bootstrap,
            "group.id": context.group,
            "client.id": _STORM,
            "partition.assignment.strategy": "range",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            "log_level": 0,
        }
    )


def _seed(context: FaultContext, positions: Mapping[int, int]) -> None:
    wanted = [TopicPartition(context.source, partition, position) for partition, position in positions.items()]
    with closing(_member(context)) as member:
        member.commit(offsets=wanted, asynchronous=False)
