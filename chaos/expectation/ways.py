"""The ways to say what the output of a run must hold, one class each; a run has one of them, chosen once.

integers       records of our own loader are integers, and are copied; and where there is no pipeline, what was filled is held
               against the ledgers of the loaders
each record    the same, where a query says what becomes of each integer
a model        a query, a function, a twin, or a copy of rows of one's own (`chaos.expectation.model`)
transactions   it is not said which rows there must be, and the transactions that wrote them are judged
a twin itself  the run shows what the pipeline writes while nothing is broken, so that others can be held against it
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

_OF_TWIN = row_ids.unsaid("this run is the twin that says it")
_OF_TRANSACTIONS = row_ids.unsaid("transactions are asked, and no rows")
_OF_NO_TABLE = row_ids.unsaid("nothing says what the table must hold")
_NOT_SAID = "expected: transactions: which rows there should be is not said"


@dataclass(frozen=True, slots=True)
class WayContext:
    """What a way needs to say which rows of a sink are expected.

    Attributes:
        views: the topics that the pipeline reads, as they were landed.
        partitions: of the source.
        positions, lines, anywhere: as in `chaos.matching.row_ids`.
    """

    spark: SparkSession
    views: Callable[[], Views]
    partitions: int
    positions: Mapping[int, int]
    lines: int
    anywhere: bool


class Expectation(ABC):
    """One way to say it.

    Attributes:
        counts_records: whether progress is counted in records that the pipeline has read, as how many rows come is not known.
        not_asked: why verifiers that compare rows with others are not asked of the sink; "" where they are.
    """

    counts_records: bool = False
    not_asked: ClassVar[str] = ""

    @property
    def demands_each(self) -> bool:
        """Whether each record of the source is a row of the output."""
        return True

    def recognised(self, _spark: SparkSession, _topics: Sequence[str]) -> "Expectation":
        """The same, or a way that finds the same sooner; Spark reads what is said.

        Args:
            topics: those that the pipeline reads.
        """
        return self

    @abstractmethod
    def rows(self, asked: WayContext) -> DataFrame | Numbering:
        """Which rows of a topic are expected."""

    def read(self, _columns: Columns, _asked: WayContext) -> Numbering:
        """Which rows of a table are, with the columns with which it was read; a scenarios file always says it."""
        return _OF_NO_TABLE


class OfIntegers(Expectation):
    """Integers that are copied are judged by their keys."""

    def rows(self, asked: WayContext) -> DataFrame | Numbering:
        return copied(all_of(asked.views()))


@dataclass(frozen=True)
class OfModel(Expectation):
    """Rows are held against those of a model."""

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
    """A model that says of each integer what becomes of it: rows are held against it by their keys, as those of a copy are."""

    @property
    def demands_each(self) -> bool:
        return True

    def rows(self, asked: WayContext) -> DataFrame | Numbering:
        otherwise = partial(self._numbering, self.model, asked)
        return self.model.by_keys(asked.spark, asked.views(), asked.partitions, otherwise, anywhere=asked.anywhere)


class OfTransactions(Expectation):
    """No row is held against another one."""

    counts_records = True
    not_asked: ClassVar[str] = _NOT_SAID

    def rows(self, _asked: WayContext) -> DataFrame | Numbering:
        return _OF_TRANSACTIONS


class TheTwin(Expectation):
    """What this run writes is what is expected of others."""

    counts_records = True

    def rows(self, _asked: WayContext) -> DataFrame | Numbering:
        return _OF_TWIN

    def read(self, _columns: Columns, _asked: WayContext) -> Numbering:
        return _OF_TWIN


def of_scenario(scenario: Scenario, folder: Path = Path()) -> Expectation:
    """The way of a scenario.

    Args:
        folder: of the run, where the rows of a twin are.
    """
    if not scenario.pipeline.way.compares_rows:
        return OfTransactions()
    model = models.of_scenario(scenario, folder)
    if model is None:
        return OfIntegers()
    is_open = scenario.workload.has_user_loader and not model.said.is_copy  # it asks for rows of records that are not known yet
    return OfModel(model, counts_records=model.form.last_values or is_open)


def copied(source: DataFrame) -> DataFrame:
    """Each id of the source once, with its value, in the partition of its first record; that record demands the row.

    Args:
        source: partition int, offset long, key string, value string.

    Returns:
        id long, partition int, value string, required boolean, position long (the source offset that demands the row).
    """
    first = F.expr("min_by(struct(partition, value, offset), struct(partition, offset)) AS first")
    firsts = source.groupBy(F.expr("CAST(key AS BIGINT) AS id")).agg(first)
    return firsts.selectExpr("id", "first.partition", "first.value", "true AS required", "first.offset AS position")
