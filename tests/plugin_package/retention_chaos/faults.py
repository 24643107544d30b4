"""A partition whose oldest records are deleted while others are written, as its retention would do."""

from dataclasses import dataclass
from random import Random
from typing import Annotated, Literal

from confluent_kafka import KafkaException, TopicPartition
from pydantic import Field

from chaos.cluster.kafka import Kafka
from chaos.common.errors import InjectionError
from chaos.faults.base import BrokerFault, FaultContext, Injection, Proof
from chaos.faults.targets import partition_of
from chaos.runtime.capabilities import Capability
from verifiers.base import Bounds

_WITHIN_S = 60.0


class TrimLog(BrokerFault):
    """The oldest records of a partition are deleted: a reader that had not come so far will never see them."""

    needs = frozenset({Capability.CLUSTER_STATE})
    provokes = "a reader whose position is gone: auto.offset.reset decides what it reads next (KIP-107)"
    proved_by = "the log begins later than before"
    roles = ("leader",)
    kind: Literal["trim_log"]
    keep: Annotated[int, Field(strict=True, ge=0)] = 0
    """how many stay."""

    def describe(self) -> str:
        return f"trim_log {self.target}, {self.keep} records stay"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        topic, partition = partition_of(self.target, context)
        return TrimmedLog(f"{topic}-{partition}", 0.0, context.system.kafka, topic, partition, self.keep)


@dataclass(slots=True)
class TrimmedLog(Injection):
    """Records that are gone for good, so there is nothing to heal."""

    kafka: Kafka
    topic: str
    partition: int
    keep: int
    before: int = 0

    def inject(self) -> None:
        ends = self._ends()
        self.before = ends.low
        first = max(ends.low, ends.hw - self.keep)
        asked = TopicPartition(self.topic, self.partition, first)
        try:
            self.kafka.admin.delete_records([asked], request_timeout=_WITHIN_S)[asked].result(_WITHIN_S)
        except KafkaException as error:
            raise InjectionError(f"{self.target}: its first records cannot be deleted ({error})") from error

    def proof(self) -> Proof:
        after = self._ends().low
        return Proof(after > self.before, {"began_at": self.before, "begins_at": after})

    def _ends(self) -> Bounds:
        return self.kafka.settled_offsets(self.topic, self.partition + 1)[self.partition]
