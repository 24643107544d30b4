"""Samples the progress of a run several times a second, as the brokers tell it on the audit listener."""

from collections.abc import Mapping

from confluent_kafka import IsolationLevel, KafkaException

from chaos.cluster.kafka import Kafka
from chaos.common.events import LeaderSilent, ProgressSampled
from chaos.common.history import History
from chaos.common.polling import Poller

_EVERY_S = 0.03
_SELDOM = 7
_ENDS_WITHIN_S = 15.0


class Sampler(Poller):
    """Records `ProgressSampled` whenever something has changed, and `LeaderSilent` when a leader does not answer."""

    def __init__(self, kafka: Kafka, history: History, source: str, output: str, *, partitions: int, total: int) -> None:
        """Source and output are the same topic when the loader itself is under test."""
        super().__init__("sampler", every_s=_EVERY_S, ends_within_s=_ENDS_WITHIN_S)
        self._kafka = kafka
        self._history = history
        self._source = source
        self._output = output
        self._partitions = partitions
        self._total = total
        self._samples = 0
        self._high = 0
        self._error = ""
        self._before: Mapping[str, int] = {}

    def _look(self) -> None:
        sample = self._sample()
        if sample and sample != self._before:
            self._history.record(ProgressSampled(**sample))
            self._before = sample

    def _sample(self) -> Mapping[str, int]:
        """Empty while a leader does not answer; the reason is in the history."""
        try:
            written = self._kafka.end(self._source, self._partitions, IsolationLevel.READ_UNCOMMITTED)
            end = self._kafka.end(self._output, self._partitions, IsolationLevel.READ_COMMITTED)
            high = self._high = self._high_now()
        except KafkaException as error:
            self._silent(str(error))
            return {}
        self._error = ""
        known = {"written": min(written, self._total), "committed": min(end, self._total), "total": self._total}
        return {**known, "end": end, "high": max(high, end)}

    def _silent(self, error: str) -> None:
        if error != self._error:
            self._error = error
            self._history.record(LeaderSilent(error=error))

    def _high_now(self) -> int:
        """The high watermark, asked for at every seventh sample only: what is read from it needs seconds, not milliseconds."""
        self._samples += 1
        if self._samples % _SELDOM:
            return self._high
        return self._kafka.end(self._output, self._partitions, IsolationLevel.READ_UNCOMMITTED)
