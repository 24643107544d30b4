"""A stranger's transaction in the sink: as long as it is open, the last stable offset stands still in front of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from chaos.cluster.kafka import PARTITIONS
from chaos.common import clock
from chaos.common.errors import DeadlineError, InjectionError
from chaos.faults.base import Injection, Prepare, Proof, Scene
from chaos.faults.declared.client import HangingTransaction
from verifiers.base import Bounds

_WITHIN_S = 20.0
_BLOCKS_WITHIN_S = 15.0


def prepare(fault: HangingTransaction, scene: Scene, _rng: Random) -> Injection:
    """Aim a `HangingTransaction`."""
    target = f"datasink-{fault.partition}"
    return OpenTransaction(target, fault.for_s, fault, scene)


@dataclass(slots=True)
class OpenTransaction:
    """A transaction with one record, by a producer of its own; its record is never committed."""

    target: str
    hold_s: float
    fault: HangingTransaction
    scene: Scene
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
            self.scene.topics["datasink"], key=b"-1", value=b"1", partition=self.fault.partition, on_delivery=self._delivered
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
            return Proof(bit=False, facts={"offset": offset, "problem": str(error)})
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
                "bootstrap.servers": self.scene.system.kafka.bootstrap,
                "transactional.id": f"chaos-hanging-{self.scene.topics['datasink']}-{self.fault.partition}",
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
        return self.scene.system.kafka.offsets(self.scene.topics["datasink"], PARTITIONS)[self.fault.partition]


CATALOGUE: Mapping[type, Prepare] = {
    HangingTransaction: prepare,
}
