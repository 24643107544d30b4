"""``topic:NAME``: a topic, with the columns partition int, offset long, timestamp_ms long, key string and value string.

Committed records are read up to the ends of the log when the topic is opened. The report names these ends.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from pyspark.sql import SparkSession

from chaos.audit import logs
from chaos.audit.logs import Fixed, Topics
from chaos.audit.tables.addresses.base import Address, Reading

_SOURCE = "source"  # `Fixed` has two sides; a single topic is its source


class TopicAddress(Address):
    """A topic of the cluster that ``--bootstrap`` or ``--external`` names."""

    KIND = "topic"
    FORM: ClassVar[str] = "topic:NAME"
    OF_CLUSTER: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.where.check({}, {}, "", "")

    def look(self, master: str) -> int | None:  # noqa: ARG002 - the topic is wherever Spark is
        return logs.fix(self._topics()).records

    def open(self, spark: SparkSession, jars: Sequence[Path]) -> Reading:  # noqa: ARG002 - the session has the connector
        topics = self._topics()
        fixed = logs.fix(topics)
        with self.refused():
            frame = logs.read(spark, topics, self.place, fixed.source)
        return Reading(frame, f"{self}, {_extent(fixed)}", fixed.records, "; ".join(_lacking(self.place, fixed)))

    def _topics(self) -> Topics:
        found = self.where.connected(Topics("", (self.place,), ()))
        assert found is not None  # noqa: S101 - it was not landed
        return found


def _extent(fixed: Fixed) -> str:
    ends = ", ".join(f"{partition}: {one.low} to {one.lso}" for partition, one in sorted(fixed.source.items()))
    return f"offsets by partition, the last exclusive: {ends}"


def _lacking(topic: str, fixed: Fixed) -> Iterator[str]:
    """Yield why committed records may be missing from what is read."""
    begun = sorted(partition for partition, one in fixed.source.items() if one.low > 0)
    held = sorted(partition for partition, one in fixed.source.items() if one.lso < one.hw)
    if begun:
        first = fixed.source[begun[0]].low
        yield f"records of {topic} were removed by retention (partition {begun[0]} begins at offset {first})"
    if _SOURCE in fixed.compacted:
        yield f"{topic} {fixed.compacted[_SOURCE]}"
    if held:
        yield f"a transaction is open in partition {held[0]} of {topic}, and nothing behind it is read"
