"""Logs to plant anomalies in.

A clean log holds the squares of 0, 1, 2, … as a transactional pipeline leaves them: a marker after every fourth record of a
partition takes an offset that nobody reads, and only partition 0 begins at offset 0. With three partitions and 24 records::

    partition 0   id      0   3   6   9   -  12  15  18  21   -
                  offset  0   1   2   3   4   5   6   7   8   9   end 10
    partition 1   id      1   4   7  10   -  …                    offsets from 100
    partition 2   id      2   5   8  11   -  …                    offsets from 200
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from pyspark.sql import SparkSession

from verifiers.base import Bounds, Evidence, Finding

BEGAN_MS = 1_795_000_000_000
EXPECTED = "id long, partition int, value string, required boolean, position long"
OBSERVED = "partition int, offset long, timestamp_ms long, key string, value string"


class Expected(NamedTuple):
    id: int
    partition: int
    value: str
    required: bool
    position: int | None


class Record(NamedTuple):
    partition: int
    offset: int
    timestamp_ms: int
    key: str | None
    value: str | None


@dataclass(frozen=True)
class Log:
    """Every change gives another log."""

    expected: tuple[Expected, ...]
    observed: tuple[Record, ...]
    bounds: Mapping[int, Bounds]
    positions: Mapping[int, int]

    def record(self, id_: int) -> Record:
        """The one with this id."""
        return next(record for record in self.observed if record.key == str(id_))

    def without(self, *ids: int) -> "Log":
        """These records are missing."""
        kept = tuple(record for record in self.observed if record.key not in {str(id_) for id_ in ids})
        return replace(self, observed=kept)

    def plus(self, *records: Record) -> "Log":
        """These records are there too."""
        return replace(self, observed=self.observed + records)

    def again(self, id_: int, *offsets: int, partition: int | None = None) -> "Log":
        """The record is there at these offsets too."""
        home = self.record(id_).partition if partition is None else partition
        return self.plus(*(self.record(id_)._replace(partition=home, offset=offset) for offset in offsets))

    def changed(self, id_: int, **changes: str | int | None) -> "Log":
        """The record is another one."""
        return self.without(id_).plus(self.record(id_)._replace(**changes))

    def swapped(self, one: int, other: int) -> "Log":
        """Two records of a partition in each other's place."""
        return self.changed(one, offset=self.record(other).offset).changed(other, offset=self.record(one).offset)

    def demanding(self, *ids: int, **changes: bool | int | str | None) -> "Log":
        """These expected rows are other ones."""
        rows = tuple(row._replace(**changes) if row.id in ids else row for row in self.expected)
        return replace(self, expected=rows)

    def with_positions(self, positions: Mapping[int, int]) -> "Log":
        """The pipeline's committed positions are these."""
        return replace(self, positions=positions)

    def with_open_transaction(self, partition: int) -> "Log":
        """The partition's last marker was not written: read_committed ends one offset early. Its bounds are now named last."""
        ends = self.bounds[partition]
        others = {number: bounds for number, bounds in self.bounds.items() if number != partition}
        return replace(self, bounds={**others, partition: replace(ends, lso=ends.hw - 1)})

    def evidence(self, spark: SparkSession) -> Evidence:
        """As the verifiers are given it, the records in no particular order."""
        observed = spark.createDataFrame(self.observed[::-1], OBSERVED)
        return Evidence("sink", spark.createDataFrame(self.expected, EXPECTED), observed, self.bounds, self.positions)


Judge = Callable[[str, Log], Finding]


def clean(records: int = 24, partitions: int = 3) -> Log:
    """A log in which nothing is wrong."""
    places = [(id_, id_ % partitions, id_ // partitions) for id_ in range(records)]
    expected = tuple(Expected(id_, home, str(id_ * id_), required=True, position=number) for id_, home, number in places)
    observed = tuple(
        Record(home, 100 * home + number + number // 4, BEGAN_MS + id_, str(id_), str(id_ * id_))
        for id_, home, number in places
    )
    lengths = {home: sum(place == home for _, place, _ in places) for home in range(partitions)}
    bounds = {home: _bounds(100 * home, length) for home, length in lengths.items()}
    return Log(expected, observed, bounds, positions=lengths)


def ledger(records: int = 24) -> Log:
    """A source, expected by its loader's ledger: no positions."""
    log = clean(records)
    return log.demanding(*range(records), position=None).with_positions({})


def _bounds(low: int, length: int) -> Bounds:
    end = low + length + -(-length // 4)
    return Bounds(low, end, end)
