"""The base of every kind of address.

An audit asks an address three times: `look` before Spark starts, so that a mistake is found within a second; `connector` and
`settings` for the session; and `open` in the session. The sink is opened before the source, so that no row of it answers a
record which is not read.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from chaos.audit.logs import AuditUsageError
from chaos.audit.tables.connectors import Connector
from chaos.audit.where import Where
from chaos.common.errors import InconclusiveError, one_line
from chaos.contract import read_table
from chaos.install import spark_versions

_LONGEST = 300


@dataclass(frozen=True, slots=True)
class Reading:
    """A table as one audit reads it.

    Attributes:
        frame: its rows, the same each time.
        address: what names these rows: the address, with the version if the format has versions.
        rows: their number.
        lacking: why some of the rows that were written may be absent; empty if none is.
    """

    frame: DataFrame
    address: str
    rows: int
    lacking: str = ""


@dataclass(frozen=True)
class Address(ABC):
    """An address of one kind.

    Attributes:
        option: ``--source`` or ``--sink``.
        place: the address without its kind.
        where: how the cluster of a topic is reached.
    """

    KIND: ClassVar[str]
    FORM: ClassVar[str]
    """How it is written, for messages."""
    OF_CLUSTER: ClassVar[bool] = False
    """Whether it is on a Kafka cluster, which an option names."""
    ABSENT: ClassVar[tuple[str, ...]] = ()
    """What Spark also says of a table or a version that does not exist."""

    option: str
    place: str
    where: Where = field(default_factory=Where)

    def __post_init__(self) -> None:
        if not self.place.strip():
            raise self.wrong(f"write {self.FORM}")

    def __str__(self) -> str:
        return f"{self.KIND}:{self.place}"

    @property
    def connector(self) -> Connector | None:
        """The jars that Spark needs; None if it needs none."""
        return None

    def settings(self, master: str) -> Mapping[str, str]:  # noqa: ARG002 - most need none
        """Settings of Spark that it needs."""
        return {}

    @abstractmethod
    def look(self, master: str) -> int | None:
        """Look for the table without Spark, where that is possible; return the number of its rows if that is known.

        Raises:
            AuditUsageError: there is no such table.
            InconclusiveError: its server does not answer.
        """

    @abstractmethod
    def open(self, spark: SparkSession, jars: Sequence[Path]) -> Reading:
        """Fix the rows that are read.

        Args:
            jars: the jars of this session.

        Raises:
            AuditUsageError: there is no such table or version, or Spark lacks a reader for it.
            InconclusiveError: its server does not answer, or Spark fails.
        """

    def wrong(self, why: str) -> AuditUsageError:
        """Make the error of wrong usage that names this address."""
        return AuditUsageError(f"{self.option} {self}: {why}")

    def mend(self, kind: str) -> str:
        """Advise on a table that Spark cannot read.

        Args:
            kind: the kind of problem (`chaos.contract.read_table.problem`).
        """
        match kind:
            case "lacking":
                return "name the package that reads it: --packages GROUP:ARTIFACT:VERSION"
            case "other":
                return f"a package is for another Spark than {spark_versions.here()}; name one for this version"
            case "absent":
                return "check the name"
            case _:
                return ""

    @contextmanager
    def refused(self) -> Iterator[None]:
        """Replace errors of Spark by one line with its mend; only a failure that has none makes the audit UNKNOWN."""
        try:
            yield
        except (Py4JJavaError, PySparkException) as error:
            found = read_table.problem(error)
            kind = "absent" if any(sign in str(error) for sign in self.ABSENT) else found["kind"]  # causes are named, too
            said, mend = one_line(found["problem"], _LONGEST), self.mend(kind)
            if kind == "failed":
                raise InconclusiveError(f"{self.option} {self}: {'; '.join(filter(None, (said, mend)))}") from None
            raise self.wrong(f"{said}; {mend}") from None
