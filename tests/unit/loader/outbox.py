"""A stand-in for the loader's producer: it records what is sent, and answers as it was told."""

from collections.abc import Callable
from dataclasses import dataclass, field

from confluent_kafka import KafkaError


@dataclass
class Report:
    """The message of a delivery report."""

    of_key: bytes
    of_partition: int
    of_offset: int | None = None

    def key(self) -> bytes:
        return self.of_key

    def partition(self) -> int:
        return self.of_partition

    def offset(self) -> int | None:
        return self.of_offset


@dataclass
class Outbox:
    """A producer for the loader: it answers a record when polled, unless it is silent."""

    answer: Callable[[bytes], KafkaError | None] = lambda _key: None
    silent: bool = False
    full: int = 0
    on_poll: Callable[[], None] = lambda: None
    sent: list[tuple[bytes, bytes, int]] = field(default_factory=list)
    due: list[Callable[[], None]] = field(default_factory=list)

    def produce(self, _topic: str, *, key: bytes, value: bytes, partition: int, on_delivery: Callable[..., None]) -> None:
        if self.full:
            self.full -= 1
            raise BufferError
        offset = sum(where == partition for _, _, where in self.sent)
        self.sent.append((key, value, partition))
        error = self.answer(key)
        self.due.append(lambda: on_delivery(error, Report(key, partition, None if error else offset)))

    def poll(self, _timeout_s: float) -> None:
        self.on_poll()
        while self.due and not self.silent:
            self.due.pop(0)()
