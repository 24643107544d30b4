"""The base of every kind of rows, and the data that a run adds to their declaration."""

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
        path: the path of the file (`chaos.loader.rows_file`).
        partitions: the number of partitions of the topic.
        records: the number of records that the workload sends.
        wanted: the required number of rows; None for any number.
        folder: the folder of the run.
        spark: starts the judge's Spark.
    """

    path: Path
    partitions: int
    records: int
    wanted: int | None
    seed: int
    folder: Path
    spark: Callable[[], SparkSession]

    def write(self, raw: Iterable[Any], of: str = "") -> int:
        """Write these rows, and return their number.

        Args:
            of: the text behind the number of a row in errors.

        Raises:
            RowsError: one is not a row, or there are too few or too many.
        """
        return rows_file.write(self.path, raw, self.partitions, self.wanted, name=lambda number: f"row {number}{of}")


class RowsBase(KindByKey):
    """The origin of rows. The defaults are for a kind that has nothing; a kind overrides what it has."""

    SENDS_ITSELF: ClassVar[bool] = False
    """Whether it is a user's loader, whose records are not known beforehand."""
    KNOWS_COUNT: ClassVar[bool] = True
    """Whether it knows the number of its rows if the workload does not declare it."""

    @property
    def generators(self) -> tuple[str, ...]:
        """Functions of other packages that it names."""
        return ()

    @property
    def texts(self) -> Mapping[Location, texts.Text]:
        """Texts with placeholders: place -> the text, and its known placeholders beside topics."""
        return texts.texts_of(self)

    def below(self, folder: Path) -> Self:
        """Resolve paths."""
        return texts.below(self, folder)

    def problems(self, folder: Path) -> Iterator[Problem]:  # noqa: ARG002 - it needs nothing
        """Report problems that show without Spark, and without running anything."""
        yield from ()

    def count(self) -> int | None:
        """Count the rows, once paths are resolved; None if their number is not known beforehand."""
        return None

    def make(self, making: Making) -> int:
        """Write the rows to the file of a run, and return their number.

        Raises:
            RowsError: the rows cannot be made.
        """
        raise NotImplementedError

    def loader(self, records: int, rate_per_s: float, seed: int, programs: Mapping[str, str], ledger: str) -> UserLoader:
        """Return the loader that writes to the topic itself; arguments as in `UserLoader`."""
        raise NotImplementedError
