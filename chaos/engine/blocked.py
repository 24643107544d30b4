"""Times in which readers of the output were blocked, because a transaction is open in a partition.

A read_committed reader gets the records below the last stable offset of a partition, which is the first offset of its oldest
open transaction. Other partitions go on meanwhile, so each is watched by itself.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from confluent_kafka import IsolationLevel, KafkaException

from chaos.cluster.kafka import Kafka
from chaos.common import clock
from chaos.common.clock import Poller
from chaos.common.events import ReadersBlocked
from chaos.common.history import History
from chaos.contract.base import Topic

_EVERY_S = 0.2
_WORTH_TELLING_S = 1.0
_ENDS_WITHIN_S = 15.0


class Block(NamedTuple):
    """A last stable offset that stands still with records above it, and the time since when it does."""

    end: int
    since_s: float


class Blocks:
    """The partitions that are blocked now; each block is reported once, when it is over."""

    def __init__(self) -> None:
        self._open: dict[int, Block] = {}

    def look(self, now_s: float, ends: Mapping[int, int], highs: Mapping[int, int]) -> Iterator[ReadersBlocked]:
        """Take in a look at a topic.

        Args:
            now_s: time of the request for the ends.
            ends: partition -> its last stable offset.
            highs: partition -> its high watermark, requested at the same time or later.

        Yields:
            Blocks of a second or more that are over.
        """
        for partition, end in ends.items():
            block = self._open.get(partition)
            if block is not None and block.end == end:
                continue
            yield from self._over(partition, now_s)
            if highs.get(partition, end) > end:
                self._open[partition] = Block(end, now_s)

    def rest(self, now_s: float) -> Iterator[ReadersBlocked]:
        """Yield the blocks that are not over at the last look."""
        for partition in tuple(self._open):
            yield from self._over(partition, now_s)

    def _over(self, partition: int, now_s: float) -> Iterator[ReadersBlocked]:
        block = self._open.pop(partition, None)
        if block is not None and now_s - block.since_s >= _WORTH_TELLING_S:
            yield ReadersBlocked(partition=partition, end=block.end, seconds=round(now_s - block.since_s, 3))


class BlockWatch(Poller):
    """Records `ReadersBlocked` for each block of a second or more in a topic's partitions, when it is over."""

    def __init__(self, kafka: Kafka, history: History, topic: Topic) -> None:
        super().__init__("block watch", every_s=_EVERY_S, ends_within_s=_ENDS_WITHIN_S)
        self._kafka = kafka
        self._history = history
        self._topic = topic
        self._blocks = Blocks()

    def _run(self) -> None:
        super()._run()
        self._record(self._blocks.rest(clock.monotonic_s()))

    def _look(self) -> None:
        now_s = clock.monotonic_s()
        try:
            ends = self._kafka.ends(*self._topic, IsolationLevel.READ_COMMITTED)
            highs = self._kafka.ends(*self._topic, IsolationLevel.READ_UNCOMMITTED)
        except KafkaException:  # no answer, no news
            return
        self._record(self._blocks.look(now_s, ends, highs))

    def _record(self, told: Iterator[ReadersBlocked]) -> None:
        for one in told:
            self._history.record(one)
