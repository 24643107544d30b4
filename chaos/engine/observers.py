"""Samplers that watch a run while it goes on, each in a thread of its own.

They read the run's progress and the pipeline's positions from the brokers, over the audit listener.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from confluent_kafka import IsolationLevel, KafkaException

from chaos.cluster.kafka import Kafka
from chaos.common import clock
from chaos.common.clock import Poller
from chaos.common.errors import InconclusiveError
from chaos.common.events import LeaderSilent, PipelineSampled, ProgressSampled
from chaos.common.history import History
from chaos.contract.base import Topic, numbered_through
from chaos.engine.ends import Positions, lag_beside
from chaos.engine.record_counts import Counted
from chaos.engine.triggers import refused

_EVERY_S = 0.03
_LOOK_EVERY_S = 0.02
_PIPELINE_EVERY_S = 1.0  # its positions cost a connection
_ENDS_WITHIN_S = 15.0

Executors = Callable[[], Sequence[object]]


class Look(NamedTuple):
    """A row of `verifiers.evidence.LOOKS`."""

    partition: int
    seq: int
    end: int
    asked_at_ms: int
    answered_at_ms: int


class Sampler(Poller):
    """Records `ProgressSampled` whenever something has changed, and `LeaderSilent` when a leader does not answer."""

    def __init__(
        self,
        kafka: Kafka,
        history: History,
        sources: Sequence[Topic],
        output: Callable[[IsolationLevel], int],
        *,
        records: int,
        total: int,
        by_positions: bool = False,
        counted: Counted | None = None,
    ) -> None:
        """Prepare; if the loader itself is under test, its topic is the output.

        Args:
            sources: all filled topics.
            output: requests the end of the output.
            records: number of records in the workload.
            total: number of rows that the output will have.
            by_positions: whether that number is unknown, so that the records that the pipeline has read count instead.
            counted: counts the records of the output; without it, its end does.
        """
        super().__init__("sampler", every_s=_EVERY_S, ends_within_s=_ENDS_WITHIN_S)
        self._kafka = kafka
        self._history = history
        self._sources = sources
        self._output = output
        self._records = records
        self._total = total
        self._by_positions = by_positions
        self._counted = counted
        self._error = ""
        self._before: ProgressSampled | None = None

    def _run(self) -> None:
        super()._run()
        if self._counted is not None:
            self._counted.close()

    def _look(self) -> None:
        sample = self._sample()
        if sample and sample != self._before:
            self._history.record(sample)
            self._before = sample

    def _sample(self) -> ProgressSampled | None:
        """Return a sample; None while a leader does not answer, with the reason in the history."""
        try:
            written = sum(self._kafka.end(*one, IsolationLevel.READ_UNCOMMITTED) for one in self._sources)
            end = self._output(IsolationLevel.READ_COMMITTED)
        except (KafkaException, InconclusiveError) as error:
            if str(error) != self._error:
                self._error = str(error)
                self._history.record(LeaderSilent(error=self._error))
            return None
        self._error = ""
        lacking = refused(self._history)
        records, total = self._records - lacking, self._total - lacking
        return ProgressSampled(written=min(written, records), committed=min(self._passed(end), total), total=total, end=end)

    def _passed(self, end: int) -> int:
        if not self._by_positions:
            return end if self._counted is None else self._counted.records(end)
        pipeline = self._history.latest(PipelineSampled)
        return sum(pipeline.positions.values()) if pipeline else 0


class PipelineSampler(Poller):
    """Records `PipelineSampled` whenever something has changed; nothing while a broker does not answer."""

    def __init__(
        self, kafka: Kafka, history: History, sources: Sequence[Topic], *, positions: Positions, executors: Executors
    ) -> None:
        """Prepare; the positions are the pipeline's, in all filled topics, and executors are counted from outside."""
        super().__init__("pipeline sampler", every_s=_PIPELINE_EVERY_S, ends_within_s=_ENDS_WITHIN_S)
        self._kafka = kafka
        self._history = history
        self._sources = sources
        self._positions = positions
        self._executors = executors
        self._before: PipelineSampled | None = None

    def _look(self) -> None:
        try:
            positions = dict(sorted(self._positions().items()))
            ends = numbered_through(self._sources, lambda one: self._kafka.offsets(*one))
            beside = sum(lag_beside(self._kafka, self._positions).values())
        except (KafkaException, OSError):  # OSError while a fault removes the checkpoint
            return
        except InconclusiveError:  # its format is unknown, which the phases of the run report
            self._stop.set()
            return
        lag = sum(max(0, one.lso - max(one.low, positions.get(number, 0))) for number, one in ends.items())
        sample = PipelineSampled(positions=positions, lag=lag + beside, executors=len(self._executors()))
        if sample != self._before:
            self._history.record(sample)
            self._before = sample


class Lookout(Poller):
    """Looks at the ends of the sink, for `verifiers.precedence`; it keeps its looks, and records nothing.

    The high watermark counts, since an open transaction of another producer does not hold it back.
    """

    def __init__(self, kafka: Kafka, topic: Topic) -> None:
        super().__init__("lookout", every_s=_LOOK_EVERY_S, ends_within_s=_ENDS_WITHIN_S)
        self._kafka = kafka
        self._topic = topic
        self._seen: dict[int, list[Look]] = {number: [] for number in range(topic.partitions)}

    def looks(self) -> Iterator[Look]:
        """Rows of `verifiers.evidence.LOOKS`."""
        return chain.from_iterable(self._seen.values())

    def _look(self) -> None:
        asked_at_ms = clock.now_ms()
        try:
            ends = self._kafka.ends(*self._topic, IsolationLevel.READ_UNCOMMITTED)
        except KafkaException:  # no answer, no news
            return
        answered_at_ms = clock.now_ms()
        for number, end in ends.items():
            seen = self._seen[number]
            if seen and seen[-1].end == end:
                seen[-1] = seen[-1]._replace(asked_at_ms=asked_at_ms)
            else:
                seen.append(Look(number, len(seen), end, asked_at_ms, answered_at_ms))
