"""The ways to define the expected output of a run, one class each; a run has one of them, chosen once.

integers       the integers of our own loader are copied; without a pipeline, the filled topics are compared with the ledgers
each record    a query defines the value for each of these integers
a model        a query, a function, a twin, or a copy of the user's own rows (`chaos.expectation.model`)
transactions   no rows are expected, and the transactions that wrote them are judged
a twin itself  the run records the output of the pipeline without faults, for comparison with other runs
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from chaos.expectation import model as models
from chaos.expectation.base import Views, all_of
from chaos.expectation.model import Model
from chaos.matching import row_ids
from chaos.matching.demanded import Columns
from chaos.matching.row_ids import Numbering
from chaos.scenario.model import Scenario

_OF_TWIN = row_ids.unsaid("this run is the twin, which other runs are compared with")
_OF_TRANSACTIONS = row_ids.unsaid("expected: transactions defines no rows")
_OF_NO_TABLE = row_ids.unsaid("nothing defines the rows of the table")
_NOT_SAID = "expected: transactions defines no rows"


@dataclass(frozen=True, slots=True)
class WayContext:
    """The input of a way: topics, positions and options of one sink.

    Attributes:
        views: the topics that the pipeline reads, as landed.
        partitions: the number of partitions of the source.
        positions, lines, anywhere: as in `chaos.matching.row_ids`.
    """

    spark: SparkSession
    views: Callable[[], Views]
    partitions: int
    positions: Mapping[int, int]
    lines: int
    anywhere: bool


class Expectation(ABC):
    """One way to define the expected rows.

    Attributes:
        counts_records: whether progress is counted in records that the pipeline has read, as the number of rows is unknown.
        not_asked: why verifiers that compare rows do not run on the sink; "" if they do.
    """

    counts_records: bool = False
    not_asked: ClassVar[str] = ""

    @property
    def demands_each(self) -> bool:
        """Whether each record of the source is a row of the output."""
        return True

    def recognised(self, _spark: SparkSession, _topics: Sequence[str]) -> "Expectation":
        """Return this way, or a faster one with the same result; Spark reads the definition.

        Args:
            topics: the topics that the pipeline reads.
        """
        return self

    @abstractmethod
    def rows(self, asked: WayContext) -> DataFrame | Numbering:
        """Return the expected rows of a topic, or their numbering."""

    def read(self, _columns: Columns, _asked: WayContext) -> Numbering:
        """Number the expected rows of a table that was read with these columns; a scenarios file always defines them."""
        return _OF_NO_TABLE


class OfIntegers(Expectation):
    """Copied integers are judged by their keys."""

    def rows(self, asked: WayContext) -> DataFrame | Numbering:
        return copied(all_of(asked.views()))


@dataclass(frozen=True)
class OfModel(Expectation):
    """Rows are compared with those of a model."""

    model: Model
    counts_records: bool = False

    @property
    def demands_each(self) -> bool:
        return self.model.said.is_copy

    def recognised(self, spark: SparkSession, topics: Sequence[str]) -> Expectation:
        return OfEachRecord(self.model) if self.model.is_by_record(spark, topics) else self

    def rows(self, asked: WayContext) -> DataFrame | Numbering:
        return self._numbering(self.model, asked)

    def read(self, columns: Columns, asked: WayContext) -> Numbering:
        return self._numbering(self.model.of_columns(columns), asked)

    def _numbering(self, model: Model, asked: WayContext) -> Numbering:
        return model.numbering(asked.spark, asked.views(), asked.positions, asked.lines, anywhere=asked.anywhere)


@dataclass(frozen=True)
class OfEachRecord(OfModel):
    """A model defines the value for each integer, so rows are compared by their keys, as in a copy."""

    @property
    def demands_each(self) -> bool:
        return True

    def rows(self, asked: WayContext) -> DataFrame | Numbering:
        otherwise = partial(self._numbering, self.model, asked)
        return self.model.by_keys(asked.spark, asked.views(), asked.partitions, otherwise, anywhere=asked.anywhere)


class OfTransactions(Expectation):
    """No rows are compared."""

    counts_records = True
    not_asked: ClassVar[str] = _NOT_SAID

    def rows(self, _asked: WayContext) -> DataFrame | Numbering:
        return _OF_TRANSACTIONS


class TheTwin(Expectation):
    """The output of this run is the expectation of others."""

    counts_records = True

    def rows(self, _asked: WayContext) -> DataFrame | Numbering:
        return _OF_TWIN

    def read(self, _columns: Columns, _asked: WayContext) -> Numbering:
        return _OF_TWIN


def of_scenario(scenario: Scenario, folder: Path = Path()) -> Expectation:
    """Choose the way of a scenario.

    Args:
        folder: the folder of the run, which has the rows of a twin.
    """
    if not scenario.pipeline.way.compares_rows:
        return OfTransactions()
    model = models.of_scenario(scenario, folder)
    if model is None:
        return OfIntegers()
    is_open = scenario.workload.has_user_loader and not model.said.is_copy  # its records are not known yet
    return OfModel(model, counts_records=model.form.last_values or is_open)


def copied(source: DataFrame) -> DataFrame:
    """Return each id of the source once, with its value, in the partition of its first record, which demands the row.

    Args:
        source: partition int, offset long, key string, value string.

    Returns:
        id long, partition int, value string, required boolean, position long (the source offset that demands the row).
    """
    first = F.expr("min_by(struct(partition, value, offset), struct(partition, offset)) AS first")
    firsts = source.groupBy(F.expr("CAST(key AS BIGINT) AS id")).agg(first)
    return firsts.selectExpr("id", "first.partition", "first.value", "true AS required", "first.offset AS position")
