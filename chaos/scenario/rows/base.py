"""What the framework asks of every kind of rows, and what a run adds to their declaration."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from pyspark.sql import SparkSession

from chaos.grammar.base import Location, Problem
from chaos.loader import rows_file
from chaos.loader.declaration import UserLoader
from chaos.scenario import texts
from chaos.scenario.one_of import KindByKey


@dataclass(frozen=True, slots=True)
class Making:
    """The file of rows that a run makes before anything is sent.

    Attributes:
        path: of the file (`chaos.loader.rows_file`).
        partitions: of the topic.
        records: how many the workload sends.
        wanted: how many there must be; None for as many as there are.
        folder: of the run.
        spark: makes the judge's Spark.
    """

    path: Path
    partitions: int
    records: int
    wanted: int | None
    seed: int
    folder: Path
    spark: Callable[[], SparkSession]

    def write(self, raw: Iterable[Any], of: str = "") -> int:
        """Write these rows, and return how many they are.

        Args:
            of: what people are told behind the number of a row.

        Raises:
            RowsError: one is not a row, or there are too few or too many.
        """
        return rows_file.write(self.path, raw, self.partitions, self.wanted, name=lambda number: f"row {number}{of}")


class RowsBase(KindByKey):
    """Where rows come from. What is said here holds for a kind that has nothing, and a kind overrides what it has."""

    SENDS_ITSELF: ClassVar[bool] = False
    """Whether it is a loader of the user's own: what it sends is not known beforehand."""
    KNOWS_COUNT: ClassVar[bool] = True
    """Whether it says itself how many there are, where the workload does not."""

    @property
    def generators(self) -> tuple[str, ...]:
        """Functions of other packages that it names."""
        return ()

    @property
    def texts(self) -> Mapping[Location, texts.Text]:
        """Where placeholders may be: place -> the text, and what may stand there beside topics."""
        return texts.texts_of(self)

    def below(self, folder: Path) -> Self:
        """The same with whole paths."""
        return texts.below(self, folder)

    def problems(self, folder: Path) -> Iterator[Problem]:  # noqa: ARG002 - it needs nothing
        """Why they cannot be had, as far as that is known without asking Spark or running anything."""
        yield from ()

    def count(self) -> int | None:
        """How many there are, once paths are whole; None where that is not known beforehand."""
        return None

    def make(self, making: Making) -> int:
        """Write them to the file of a run, and return how many they are.

        Raises:
            RowsError: they cannot be had.
        """
        raise NotImplementedError

    def loader(self, records: int, rate_per_s: float, seed: int, programs: Mapping[str, str], ledger: str) -> UserLoader:
        """What writes to the topic itself; arguments as in `UserLoader`."""
        raise NotImplementedError
