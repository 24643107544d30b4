"""The base of every kind of pipeline, and the data that a run adds to its declaration."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Self

from pydantic import BeforeValidator, StringConstraints

from chaos.contract.base import Command, Endpoints, Topics
from chaos.contract.placeholders import of_topics
from chaos.grammar.base import Declared, Location, Problem
from chaos.grammar.units import text_of_setting
from chaos.install.artifacts import Parts
from chaos.install.packages import NO_PACKAGES, Fetched, Registry
from chaos.runtime.capabilities import Capability
from chaos.scenario import texts
from chaos.scenario.expected import Way, way_of
from chaos.scenario.sinks import TableSink


@dataclass(frozen=True, slots=True)
class Tools:
    """Programs of this machine for running a pipeline.

    Attributes:
        kafka_tools: the class path of Kafka's own programs.
        spark_home: the Spark whose ``bin/spark-submit`` starts a job.
        scala: the Scala version of that Spark.
        packages: where the pipeline's packages are: jars, or one folder.
        python: the interpreter of a pipeline in Python.
    """

    java: str = "java"
    kafka_tools: str = ""
    spark_home: str = ""
    scala: str = "2.13"
    packages: tuple[str, ...] = ()
    python: str = sys.executable

    @classmethod
    def of(cls, parts: Parts, packages: Fetched = NO_PACKAGES) -> Self:
        """Choose the tools of a system, with the packages of a pipeline."""
        spark, paths = parts.spark, tuple(map(str, packages.paths))
        python = packages.python or sys.executable
        return cls(str(parts.java), parts.tools_class_path, str(spark.home), spark.scala, paths, python)

    @property
    def java_home(self) -> str:
        return str(Path(self.java).parent.parent)


@dataclass(frozen=True, slots=True)
class Site:
    """The data that a run adds to the declaration of its pipeline.

    Attributes:
        folder: the folder of the run.
    """

    tools: Tools
    endpoints: Endpoints
    topics: Topics
    folder: Path


class Kind(Declared):
    """A kind of pipeline. The defaults are for a kind that has nothing; a kind overrides what it has."""

    PLACEHOLDERS: ClassVar[tuple[str, ...]] = ()
    """Placeholders of its texts, beside the names of topics."""
    GROUP: ClassVar[Location] = ("group",)
    """The place of the consumer group in its declaration."""
    client: ClassVar[str]
    """The client group whose links its connections take (`chaos.cluster.addresses.CLIENTS`)."""
    joins_network: ClassVar[bool] = False
    """Whether it only runs in the network of a system in containers."""
    has_instances: ClassVar[bool] = False
    """Whether a fault can start further instances of it."""

    @property
    def way(self) -> Way:
        """The definition of the expected rows of its sink."""
        return way_of(getattr(self, "expected", None))

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities that it offers to faults."""
        return frozenset()

    @property
    def has_positions(self) -> bool:
        """Whether its positions can be read."""
        return False

    @property
    def statements(self) -> frozenset[str]:
        """The kinds of reports on its standard output (docs/adapters.md)."""
        return frozenset()

    @property
    def timeouts(self) -> Mapping[str, float]:
        """Name -> seconds of silence after which a broker gives up on it; only declared timeouts."""
        return {}

    @property
    def required_packages(self) -> Registry | None:
        """Packages that must be fetched before it can run."""
        return None

    @property
    def runs_in(self) -> str:
        """Its working directory; "" for the folder of the run."""
        return ""

    @property
    def texts(self) -> Mapping[Location, texts.Text]:
        """Texts with placeholders: place -> the text, and its known placeholders beside topics."""
        return texts.texts_of(self, self.PLACEHOLDERS)

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths that its declaration names."""
        return texts.paths_of(self)

    def below(self, folder: Path) -> Self:
        """Resolve paths, and replace ``{project}`` by the folder of the scenarios file."""
        return texts.below(self, folder, self.PLACEHOLDERS)

    def problems(self) -> Iterator[Problem]:
        """Find mistakes beside its topics and placeholders, with places in its declaration."""
        yield from ()

    def missing(self, folder: Path) -> Iterator[Problem]:  # noqa: ARG002 - it needs no files
        """Report files that do not exist; paths begin at this folder."""
        yield from ()

    def names(self, tools: Tools, topics: Topics) -> dict[str, str]:  # noqa: ARG002 - it names no programs
        """Return the values of placeholders that are known before the system starts."""
        return of_topics(topics)

    def process(self, site: Site, instance: int) -> Command:
        """Return the process to start; it runs until it is told to stop, and reports its steps (docs/adapters.md).

        Args:
            instance: 1, or the number of a further instance.
        """
        raise NotImplementedError

    def checkpoint_positions(self, site: Site) -> Mapping[int, int]:  # noqa: ARG002 - it has none
        """Read the committed position in each source partition, if no consumer group has it."""
        return {}

    def table(self, site: Site) -> TableSink | None:  # noqa: ARG002 - it writes none
        """Return the table that it writes in this run; None if it writes a topic."""
        return None

    def reader(self, site: Site, place: Path) -> Command:
        """Return the process that reads its table.

        Args:
            place: a folder for the result (`chaos.contract.read_table`).
        """
        raise NotImplementedError


# types of keys that several kinds have --------------------------------------------------------------------------------------


Setting = Annotated[str, BeforeValidator(text_of_setting)]
Word = Annotated[str, StringConstraints(min_length=1)]
