"""The rows that a log must hold, whoever says which they are (`chaos.expectation`)."""

from dataclasses import dataclass

from pyspark.sql import DataFrame

Columns = tuple[tuple[str, str], ...]
"""Names and types, as Spark writes types."""


@dataclass(frozen=True, slots=True)
class Demanded:
    """The rows that a sink must hold.

    Attributes:
        rows: key string, value string, partition int, offset long; the last two are of the source, and may be null.
        count: how many.
        unordered: why their order is not known; "" where each has a place of its own in the source.
        placed: whether each has a place.
        left: how many records of the source the pipeline is not past.
    """

    rows: DataFrame
    count: int
    unordered: str
    placed: bool
    left: int = 0
