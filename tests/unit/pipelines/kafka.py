"""Stand-ins for Kafka's clients: they record their calls in order, and answer as they were told."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition


@dataclass
class Broker:
    """Both clients of the sink. `position` and `metadata` are the group's answer, `calls` are recorded.

    `log` has the offsets of the committed records of the source; other offsets are markers. Of the rows that are sent with a
    function, those whose keys are in `refused` are not acknowledged. The first commits get the errors of `commits_answered`.
    A coordinator that has not replicated its log says that it is none, after so long; `now_s` is the time.
    """

    position: int = 0
    metadata: str = ""
    log: tuple[int, ...] = ()
    fails_at: str = ""
    refused: tuple[bytes, ...] = ()
    no_coordinator_after_s: float = -1
    now_s: float = 0
    commits_answered: list[int] = field(default_factory=list)
    calls: list[tuple[Any, ...]] = field(default_factory=list)

    def note(self, name: str, *what: Any) -> None:
        self.calls.append((name, *what))
        if name == self.fails_at:
            raise RuntimeError(name)

    def producer(self, settings: dict[str, Any]) -> "SinkProducer":
        self.note("producer", settings.get("transactional.id"))
        return SinkProducer(self)

    def consumer(self, settings: dict[str, Any]) -> "SinkConsumer":
        self.note("consumer", settings["group.id"], settings["isolation.level"])
        return SinkConsumer(self)

    @property
    def names(self) -> list[str]:
        return [call[0] for call in self.calls]

    @property
    def produced(self) -> list[tuple[Any, ...]]:
        return [call[1:] for call in self.calls if call[0] == "produce"]


@dataclass
class SinkProducer:
    broker: Broker

    def list_topics(self, *, timeout: float) -> None:
        assert timeout > 0

    def init_transactions(self, _within_s: float) -> None:
        self.broker.note("init_transactions")

    def begin_transaction(self) -> None:
        self.broker.note("begin_transaction")

    def produce(self, topic: str, *, key: bytes, value: bytes, partition: int, on_delivery: Any = None) -> None:
        self.broker.note("produce", topic, partition, key, value)
        if on_delivery:
            on_delivery(KafkaError(KafkaError._TRANSPORT) if key in self.broker.refused else None, None)

    def flush(self, _within_s: float) -> int:
        self.broker.note("flush")
        return 0

    def send_offsets_to_transaction(self, positions: list[TopicPartition], group: str, _within_s: float) -> None:
        self.broker.note("send_offsets", [(one.topic, one.partition, one.offset, one.metadata) for one in positions], group)

    def commit_transaction(self, _within_s: float) -> None:
        self.broker.note("commit_transaction")

    def abort_transaction(self, _within_s: float) -> None:
        self.broker.note("abort_transaction")


@dataclass
class SinkConsumer:
    broker: Broker

    def committed(self, asked: list[TopicPartition], *, timeout: float) -> list[TopicPartition]:
        assert timeout > 0
        self.broker.note("committed")
        if self.broker.no_coordinator_after_s >= 0:
            self.broker.now_s += self.broker.no_coordinator_after_s
            raise KafkaException(KafkaError(KafkaError.NOT_COORDINATOR))
        return [TopicPartition(one.topic, one.partition, self.broker.position, self.broker.metadata) for one in asked]

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> list[TopicPartition]:
        assert not asynchronous
        self.broker.note("commit", [(one.topic, one.partition, one.offset) for one in offsets])
        if self.broker.commits_answered:
            raise KafkaException(KafkaError(self.broker.commits_answered.pop(0)))
        return [TopicPartition(one.topic, one.partition, one.offset) for one in offsets]

    def assign(self, places: list[TopicPartition]) -> None:
        self.broker.note("assign", [(one.topic, one.partition, one.offset) for one in places])

    def poll(self, _timeout_s: float) -> Any:
        after = [offset for offset in self.broker.log if offset >= self.broker.position]
        end = KafkaError(KafkaError._PARTITION_EOF)
        return SimpleNamespace(error=lambda: None if after else end, offset=lambda: after[0] if after else None)

    def consumer_group_metadata(self) -> str:
        return "metadata of the group"

    def close(self) -> None:
        self.broker.note("close")
