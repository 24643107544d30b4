"""What is filled, one topic or several: whether a partition and an offset say which record demands a row."""

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
    """One topic is filled; others that are read have no records, or numbers of partitions of their own.

    Attributes:
        called: what is filled, in a sentence.
        unordered: why the order of rows that are made of these records is not known; "" where it may be.
    """

    called: ClassVar[str] = "its source"
    unordered: ClassVar[str] = ""

    def left(self, sources: Views, positions: Mapping[int, int]) -> int:
        """How many records the pipeline is not past."""
        return all_of(sources).where(f"offset >= {by_partition(positions)}").count()

    def copied(self, _sources: Views) -> Demanded | None:
        """The records as rows that have no place; None where a copy is the source itself, with its places."""
        return None

    def fingerprint(self, sources: Views) -> Mapping[str, int]:
        """Which records these are, whatever their order."""
        return fingerprint(all_of(sources))

    def refused_place(self, _name: str) -> str:
        """Why rows may not have this column, of the place of a record; "" if they may."""
        return ""

    def undue(self, _called: str) -> str:
        """Why it is not known which rows are due while records are left; "" where the places of rows tell it."""
        return ""


@dataclass(frozen=True, slots=True)
class SeveralTopics(OneTopic):
    """Several topics are filled, so a partition and an offset do not say which record demands a row.

    Attributes:
        firsts: topic -> what its partition 0 is called in the positions of the pipeline.
    """

    firsts: Mapping[str, int]
    called: ClassVar[str] = "all of its topics"
    unordered: ClassVar[str] = "they are made of the records of several topics, and it is not said of which"

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
        why = "and several topics are filled, so it does not say which record that is"
        return f"has a column {name}, the place of a record of the source, {why}; leave partition and offset out"

    def undue(self, called: str) -> str:
        return f"{called} does not say of which records in which topic a row is made, so it is not known which are due"


def fingerprint(records: DataFrame, topic: str = "") -> Mapping[str, int]:
    """Which records these are, whatever their order: how many, and the sum of their hashes.

    Args:
        topic: where the same records in another topic are others, the name of theirs.
    """
    of_topic = f"'{topic}', " if topic else ""
    hashed = f"coalesce(sum(CAST(xxhash64({of_topic}partition, key, value) AS DECIMAL(38, 0))), 0)"
    count, total = records.selectExpr("count(*)", hashed).collect()[0]
    return {"records": count, "hash": int(total)}


def fingerprint_of(topics: Views) -> Mapping[str, int]:
    """The same of the records of several topics."""
    each = [fingerprint(records, topic) for topic, records in topics.items()]
    return {name: sum(one[name] for one in each) for name in ("records", "hash")}
