"""The rows that a log must hold, whatever defines them (`chaos.expectation`)."""

from dataclasses import dataclass

from pyspark.sql import DataFrame

Columns = tuple[tuple[str, str], ...]
"""Names and types, in Spark's notation."""


@dataclass(frozen=True, slots=True)
class Demanded:
    """The rows that a sink must hold.

    Attributes:
        rows: key string, value string, partition int, offset long; the last two are of the source, and may be null.
        count: number of rows.
        unordered: why their order is not known; "" if each has a place of its own in the source.
        placed: whether each has a place.
        left: number of records of the source that the pipeline has not passed.
    """

    rows: DataFrame
    count: int
    unordered: str
    placed: bool
    left: int = 0
