"""The topics that are filled, one or several: do a partition and an offset identify the record that demands a row?"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

from pyspark.sql import DataFrame

from chaos.expectation.base import NOWHERE, Views, all_of
from chaos.matching.demanded import Demanded
from verifiers.findings import by_partition


@dataclass(frozen=True, slots=True)
class OneTopic:
    """One topic is filled; other topics that are read are empty, or their partitions have numbers of their own.

    Attributes:
        called: the filled topics, in a sentence.
        unordered: why the order of rows from these records is unknown; "" if it may be known.
    """

    called: ClassVar[str] = "its source"
    unordered: ClassVar[str] = ""

    def left(self, sources: Views, positions: Mapping[int, int]) -> int:
        """Count the records that the pipeline has not passed."""
        return all_of(sources).where(f"offset >= {by_partition(positions)}").count()

    def copied(self, _sources: Views) -> Demanded | None:
        """Return the records as rows without places; None if a copy can be compared with the source itself."""
        return None

    def fingerprint(self, sources: Views) -> Mapping[str, int]:
        """Identify these records, whatever their order."""
        return fingerprint(all_of(sources))

    def refused_place(self, _name: str) -> str:
        """Explain why rows may not have this column of a record's place; "" if they may."""
        return ""

    def undue(self, _called: str) -> str:
        """Explain why it is unknown which rows are due while records are left; "" if the places of rows decide."""
        return ""


@dataclass(frozen=True, slots=True)
class SeveralTopics(OneTopic):
    """Several topics are filled, so a partition and an offset do not identify the record that demands a row.

    Attributes:
        firsts: topic -> the number of its partition 0 in the positions of the pipeline.
    """

    firsts: Mapping[str, int]
    called: ClassVar[str] = "all of its topics"
    unordered: ClassVar[str] = "rows combine several topics, so their order in the source is unknown"

    def left(self, sources: Views, positions: Mapping[int, int]) -> int:
        def in_topic(topic: str) -> DataFrame:
            first = self.firsts.get(topic, 0)
            own = {number - first: reached for number, reached in positions.items() if number >= first}
            return sources[topic].where(f"offset >= {by_partition(own)}")

        return reduce(DataFrame.unionByName, map(in_topic, sources)).count()

    def copied(self, sources: Views) -> Demanded | None:
        held = all_of(sources).selectExpr("key", "value", *NOWHERE).localCheckpoint()
        return Demanded(held, held.count(), self.unordered, placed=False)

    def fingerprint(self, sources: Views) -> Mapping[str, int]:
        return fingerprint_of(sources)

    def refused_place(self, name: str) -> str:
        why = "but several topics are filled, so partition and offset do not identify a source record"
        return f"has a column {name}, {why}; remove both"

    def undue(self, called: str) -> str:
        return f"{called} does not say which records of which topic a row comes from, so it is unknown which rows are due"


def fingerprint(records: DataFrame, topic: str = "") -> Mapping[str, int]:
    """Return the number of records and the sum of their hashes, whatever their order.

    Args:
        topic: the topic of the records, if equal records of another topic must get another hash.
    """
    of_topic = f"'{topic}', " if topic else ""
    hashed = f"coalesce(sum(CAST(xxhash64({of_topic}partition, key, value) AS DECIMAL(38, 0))), 0)"
    count, total = records.selectExpr("count(*)", hashed).collect()[0]
    return {"records": count, "hash": int(total)}


def fingerprint_of(topics: Views) -> Mapping[str, int]:
    """Add up the fingerprints of several topics."""
    each = [fingerprint(records, topic) for topic, records in topics.items()]
    return {name: sum(one[name] for one in each) for name in ("records", "hash")}
