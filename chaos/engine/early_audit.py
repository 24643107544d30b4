"""The early audit of a run (`verifiers.single_scan.stream`): duplicates and inversions are told while the output still grows.

It takes a share of the processor from what is broken meanwhile, so it is done where it is asked for: in a long soak, mostly.
The audit at the end is not changed by it, and stays the authority.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict

from confluent_kafka import KafkaException
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from chaos.cluster.kafka import Kafka, Offsets
from chaos.common.history import History
from chaos.common.polling import Poller
from chaos.judging import landing
from verifiers.base import Bounds, Finding, Verdict
from verifiers.single_scan.stream import Stream, TooScatteredError

_EVERY_S = 2.0
_ENDS_WITHIN_S = 60.0
_UNREAD = (KafkaException, Py4JError, PySparkException)


class EarlyAudit(Poller):
    """Writes ``auditor alarm {"verifier", "count", "checked", "example"}`` to the history whenever a count has grown.

    ``auditor unread {"error"}`` says that a part could not be read; it is tried again with the next one.
    ``auditor blind {"error"}`` says that the rest is not looked at before the end.
    """

    def __init__(
        self, spark: Callable[[], SparkSession], kafka: Kafka, history: History, topic: str, *, partitions: int, isolation: str
    ) -> None:
        """Prepare to read a topic."""
        super().__init__("early audit", every_s=_EVERY_S, ends_within_s=_ENDS_WITHIN_S)
        self._spark = spark
        self._kafka = kafka
        self._history = history
        self._topic = topic
        self._partitions = partitions
        self._isolation = isolation
        self._stream = Stream("sink", partitions)
        self._begins: Mapping[int, int] = {}
        self._counts: dict[str, int] = {}

    def _look(self) -> None:
        try:
            self._read_on()
        except _UNREAD as error:
            self._history.record("auditor", "info", "unread", error=str(error).partition("\n")[0])
        except TooScatteredError as error:
            self._history.record("auditor", "info", "blind", error=str(error))
            self._stop.set()

    def _read_on(self) -> None:
        offsets = self._kafka.offsets(self._topic, self._partitions)
        bounds = {home: self._bounds(home, ends) for home, ends in offsets.items()}
        ends = {home: one.lso for home, one in bounds.items()}
        if all(ends[home] <= one.low for home, one in bounds.items()):
            return
        reading = landing.reader(self._spark(), self._kafka.bootstrap, self._kafka.cluster.java)
        for finding in self._stream.add(landing.part(reading, self._topic, bounds, self._isolation)):
            self._tell(finding)
        self._begins = ends

    def _bounds(self, home: int, ends: Offsets) -> Bounds:
        """From where the part before ended to where readers come now, which a new leader may put back for a moment."""
        low = self._begins.get(home, ends.low)
        end = max(low, ends.lso if self._isolation == "read_committed" else ends.hw)
        return Bounds(low, end, end)

    def _tell(self, finding: Finding) -> None:
        if finding.verdict is Verdict.INVALID and finding.count > self._counts.get(finding.verifier, 0):
            self._counts[finding.verifier] = finding.count
            shown = asdict(finding.examples[0])
            told = {"verifier": finding.verifier, "count": finding.count, "checked": finding.checked, "example": shown}
            self._history.record("auditor", "info", "alarm", **told)
