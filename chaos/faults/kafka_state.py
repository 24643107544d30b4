"""Faults of the pipeline's consumer group: strangers join and leave it, or what it has committed is deleted."""

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from random import Random
from threading import Event as Flag
from threading import Thread
from typing import Annotated, Any, Literal

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from pydantic import AfterValidator, Field

from chaos.cluster.kafka import PARTITIONS
from chaos.common import clock
from chaos.common.errors import DeadlineError, InjectionError
from chaos.faults.base import (
    FaultBase,
    FaultContext,
    Injection,
    LastingFault,
    PipelineUnderTest,
    Proof,
)
from chaos.grammar.units import Seconds, SomeSeconds, spoken_seconds
from chaos.runtime.capabilities import Capability
from verifiers.base import Bounds

_ASK_S = 10.0
_POLL_S = 0.1
_JOIN_S = 30.0
_DELETED_WITHIN_S = 60.0
_ENOUGH = 2


class DeleteGroupOffsets(FaultBase):
    """The pipeline dies, its consumer group's offsets are deleted, and it is started again.

    With ``repair: seeded`` the positions are put back from outside before it starts, as from a backup.
    """

    needs = frozenset({Capability.CLUSTER_STATE, Capability.PIPELINE, Capability.CONSUMER_GROUP})
    provokes = "a start without a position: auto.offset.reset decides what is lost or read again"
    proved_by = "there were positions, and there are none"
    kind: Literal["delete_group_offsets"]
    repair: Literal["none", "seeded"] = "none"
    restart_after_s: Seconds = Field(alias="restart_after", default=1.0)

    def describe(self) -> str:
        repaired = ", then put back" if self.repair == "seeded" else ""
        return f"delete_group_offsets{repaired}, restarted after {spoken_seconds(self.restart_after_s)}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        return DeletedOffsets(
            f"the group {context.group}", self.restart_after_s, context, context.pipeline(), seeds=self.repair == "seeded"
        )


class RebalanceStorm(LastingFault):
    """Members join the pipeline's consumer group and leave it again, over and over: each of them is a new generation."""

    needs = frozenset({Capability.CLUSTER_STATE, Capability.PIPELINE, Capability.CONSUMER_GROUP})
    provokes = "generations that change in the middle of a transaction (KIP-447)"
    proved_by = "two generations at least had a member of ours"
    kind: Literal["rebalance_storm"]
    every_s: SomeSeconds = Field(alias="every", default=1.0)

    def describe(self) -> str:
        return f"rebalance_storm every {spoken_seconds(self.every_s)} {self.lasts}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        return Storm(f"the group {context.group}", self.for_s, self.every_s, context)


@dataclass(slots=True)
class Storm(Injection):
    """Members that join the group, are given what the pipeline had, and leave; they read, and commit nothing."""

    every_s: float
    context: FaultContext
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
            return Proof(effective=False, facts={"joined": len(self.rounds), "problem": str(error)})
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
        with closing(_member(self.context)) as member:
            member.subscribe(
                [self.context.topics["datasource"]], on_assign=lambda _member, partitions: given.append(len(partitions))
            )
            while not given and not self.stop.is_set():
                answer = member.poll(_POLL_S)
                if answer is not None and answer.error() is not None:
                    raise KafkaException(answer.error())
        self.rounds.extend(given)


@dataclass(slots=True)
class DeletedOffsets(Injection):
    """A group that has forgotten where its pipeline was; nobody was a member when that happened."""

    context: FaultContext
    pipeline: PipelineUnderTest
    seeds: bool
    pids: Mapping[str, int] = field(default_factory=dict)
    before: Mapping[int, int] = field(default_factory=dict)

    def inject(self) -> None:
        """Kill the pipeline: a group that has members keeps its offsets."""
        self.pids = self.pipeline.crash()

    def complete(self) -> None:
        """Delete the group once the last commit underway has ended and its members that died have been given up."""
        self._wait(self._no_task_runs, "the tasks of the pipeline to end")
        self.before = self._wait(self.context.positions, "positions to delete")
        self._wait(self._deleted, "the group to be empty, and deleted")

    def proof(self) -> Proof:
        """The pipeline was killed; there were positions, and there are none now."""
        after = self.context.positions()
        return Proof(bool(self.pids and self.before) and not after, {"pids": self.pids, "before": self.before, "after": after})

    def heal(self) -> Mapping[str, Any]:
        """Put the positions back, if that was declared, and start the pipeline."""
        seeded, self.before = (self.before if self.seeds else {}), {}
        if seeded:
            _seed(self.context, seeded)
        self.pipeline.restart()
        return {"seeded": seeded} if seeded else {}

    def _wait(self, condition: Callable[[], Any], reason: str) -> Any:
        return clock.wait_until(
            condition, within_s=_DELETED_WITHIN_S, reason=reason, every_s=0.2, ignore=(KafkaException,), seen=None
        )

    def _no_task_runs(self) -> bool:
        """Executors live on for a moment when their driver has died, and commit."""
        return not any(executor.lives() for executor in self.context.system.spark.executors())

    def _deleted(self) -> bool:
        """Tried until the members that died have been given up (session.timeout.ms)."""
        group = self.context.group
        try:
            self.context.system.kafka.admin.delete_consumer_groups([group], request_timeout=_ASK_S)[group].result(_ASK_S + 1)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
                raise
        return not self.context.positions()


def _member(context: FaultContext) -> Consumer:
    """With the assignment strategy that librdkafka and Java's clients have in common."""
    return Consumer(
        {
            "bootstrap.servers": context.system.kafka.bootstrap,
            "group.id": context.group,
            "client.id": "chaos-storm",
            "partition.assignment.strategy": "range",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            "log_level": 0,
        }
    )


def _seed(context: FaultContext, positions: Mapping[int, int]) -> None:
    topic = context.topics["datasource"]
    wanted = [TopicPartition(topic, partition, position) for partition, position in positions.items()]
    with closing(_member(context)) as asker:
        asker.commit(offsets=wanted, asynchronous=False)


_WITHIN_S = 20.0
_BLOCKS_WITHIN_S = 15.0
_LONGEST_TRANSACTION_S = 900.0  # transaction.max.timeout.ms


def _allowed(value: float) -> float:
    if value > _LONGEST_TRANSACTION_S:
        raise ValueError("brokers allow no transaction to be open for longer than 15m")
    return value


class HangingTransaction(LastingFault):
    """A stranger's transaction is open in the sink: nobody reads committed rows beyond it, until it ends.

    It is aborted after ``for``, or left ``open``: then only the broker ends it, after ``transaction_timeout``.
    """

    needs = frozenset({Capability.CLUSTER_STATE, Capability.PIPELINE})
    provokes = "a last stable offset that stands still: committed rows that cannot be read (KIP-664)"
    proved_by = "the last stable offset stands at our record, below the high watermark"
    kind: Literal["hanging_transaction"]
    partition: Annotated[int, Field(strict=True, ge=0, le=2)] = 0
    transaction_timeout_s: Annotated[SomeSeconds, AfterValidator(_allowed)] = Field(alias="transaction_timeout", default=600.0)
    end: Literal["aborted", "open"] = "aborted"

    def describe(self) -> str:
        end = ", then aborted" if self.end == "aborted" else ", never ended"
        return f"hanging_transaction in datasink-{self.partition} {self.lasts}{end}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        target = f"datasink-{self.partition}"
        return OpenTransaction(target, self.for_s, self, context)


@dataclass(slots=True)
class OpenTransaction(Injection):
    """A transaction with one record, by a producer of its own; its record is never committed."""

    fault: HangingTransaction
    context: FaultContext
    offsets: list[int] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    producer: Producer | None = None

    def inject(self) -> None:
        """Begin it and write one record.

        Raises:
            InjectionError: the record was not written.
        """
        self.producer = self._new_producer()
        self.producer.begin_transaction()
        self.producer.produce(
            self.context.topics["datasink"], key=b"-1", value=b"1", partition=self.fault.partition, on_delivery=self._delivered
        )
        self.producer.flush(_WITHIN_S)
        if not self.offsets:
            raise InjectionError(f"the record of the hanging transaction was not written: {'; '.join(self.failures)}")

    def proof(self) -> Proof:
        """The partition is stable up to our record and not beyond."""
        (offset,) = self.offsets
        try:
            clock.wait_until(
                lambda: self._ends().lso == offset,
                within_s=_BLOCKS_WITHIN_S,
                reason="the last stable offset to stand before the open transaction",
                ignore=(KafkaException,),
                seen=self._ends,
            )
        except DeadlineError as error:
            return Proof(effective=False, facts={"offset": offset, "problem": str(error)})
        ends = self._ends()
        return Proof(ends.lso == offset < ends.hw, {"offset": offset, "lso": ends.lso, "hw": ends.hw})

    def heal(self) -> Mapping[str, Any]:
        """Have the coordinator abort it, by a producer with the same name; nothing to do for one that is left open.

        Raises:
            DeadlineError: the partition does not become stable.
        """
        if self.fault.end == "open" or self.producer is None:
            return {"left_open_at": self.offsets}
        self._new_producer()
        if self.offsets:
            clock.wait_until(
                lambda: self._ends().lso > self.offsets[0],
                within_s=_WITHIN_S,
                reason="the last stable offset to move on",
                ignore=(KafkaException,),
                seen=self._ends,
            )
        return {"aborted_at": self.offsets}

    def _new_producer(self) -> Producer:
        """Its start ends what an earlier one has left open."""
        producer = Producer(
            {
                "bootstrap.servers": self.context.system.kafka.bootstrap,
                "transactional.id": f"chaos-hanging-{self.context.topics['datasink']}-{self.fault.partition}",
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
        return self.context.system.kafka.offsets(self.context.topics["datasink"], PARTITIONS)[self.fault.partition]
