"""What the framework asks of every kind of pipeline, and what a run adds to its declaration."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Self

from pydantic import BeforeValidator, StringConstraints

from chaos.contract.base import Command, Endpoints, Topics
from chaos.contract.placeholders import of_topics
from chaos.grammar.base import Declared, Location, Problem
from chaos.grammar.units import text_of_setting
from chaos.install.artifacts import Parts
from chaos.runtime.capabilities import Capability
from chaos.scenario import texts
from chaos.scenario.expected import Way, way_of
from chaos.scenario.sinks import TableSink


@dataclass(frozen=True, slots=True)
class Tools:
    """Programs of this machine that a pipeline may be run with.

    Attributes:
        kafka_tools: the class path of Kafka's own programs.
        spark_home: whose ``bin/spark-submit`` starts a job.
        scala: of that Spark.
        packages: the jars of the pipeline's packages.
    """

    java: str = "java"
    kafka_tools: str = ""
    spark_home: str = ""
    scala: str = "2.13"
    packages: tuple[str, ...] = ()

    @classmethod
    def of(cls, parts: Parts, packages: Sequence[Path] = ()) -> Self:
        """Those of a system."""
        spark, jars = parts.spark, tuple(map(str, packages))
        return cls(str(parts.java), parts.tools_class_path, str(spark.home), spark.scala, jars)

    @property
    def java_home(self) -> str:
        return str(Path(self.java).parent.parent)


@dataclass(frozen=True, slots=True)
class Site:
    """What a run adds to the declaration of its pipeline.

    Attributes:
        folder: of the run.
    """

    tools: Tools
    endpoints: Endpoints
    topics: Topics
    folder: Path


class Kind(Declared):
    """A kind of pipeline. What is said here holds for one that has nothing, and a kind overrides what it has."""

    PLACEHOLDERS: ClassVar[tuple[str, ...]] = ()
    """Those of its texts, beside the names of topics."""
    GROUP: ClassVar[Location] = ("group",)
    """Where its declaration names its consumer group."""
    client: ClassVar[str]
    """The client group whose links its connections take (`chaos.cluster.addresses.CLIENTS`)."""
    joins_network: ClassVar[bool] = False
    """Whether it runs in the network of a system in containers, and nowhere else."""
    has_instances: ClassVar[bool] = False
    """Whether a fault can start further instances of it."""

    @property
    def way(self) -> Way:
        """How it is said what its sink must hold."""
        return way_of(getattr(self, "expected", None))

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What it offers to faults."""
        return frozenset()

    @property
    def has_positions(self) -> bool:
        """Whether it can be asked how far it is."""
        return False

    @property
    def statements(self) -> frozenset[str]:
        """What it reports on its standard output (docs/adapters.md)."""
        return frozenset()

    @property
    def timeouts(self) -> Mapping[str, float]:
        """Name -> seconds after which a broker gives up on it when it is silent; only those that it declares."""
        return {}

    @property
    def required_packages(self) -> tuple[str, ...]:
        """What must be fetched before it can be run."""
        return ()

    @property
    def runs_in(self) -> str:
        """Its working directory; "" for the folder of the run."""
        return ""

    @property
    def texts(self) -> Mapping[Location, texts.Text]:
        """Where placeholders may be: place -> the text, and what may stand there beside topics."""
        return texts.texts_of(self, self.PLACEHOLDERS)

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths that its declaration names."""
        return texts.paths_of(self)

    def below(self, folder: Path) -> Self:
        """The same with whole paths, and the folder of the scenarios file in place of ``{project}``."""
        return texts.below(self, folder, self.PLACEHOLDERS)

    def problems(self) -> Iterator[Problem]:
        """What is wrong with it beside its topics and placeholders, with places in its declaration."""
        yield from ()

    def missing(self, folder: Path) -> Iterator[Problem]:  # noqa: ARG002 - it needs no files
        """Files that are not there. Paths begin at this folder."""
        yield from ()

    def names(self, tools: Tools, topics: Topics) -> dict[str, str]:  # noqa: ARG002 - it names no programs
        """What placeholders stand for before the system is there."""
        return of_topics(topics)

    def process(self, site: Site, instance: int) -> Command:
        """The process to start. It runs until it is told to stop, and reports what it does (docs/adapters.md).

        Args:
            instance: 1, or the number of a further one.
        """
        raise NotImplementedError

    def checkpoint_positions(self, site: Site) -> Mapping[int, int]:  # noqa: ARG002 - it has none
        """Committed position in each source partition, where no consumer group has them."""
        return {}

    def table(self, site: Site) -> TableSink | None:  # noqa: ARG002 - it writes none
        """The table that it writes in this run; None where it writes a topic."""
        return None

    def reader(self, site: Site, place: Path) -> Command:
        """The process that reads its table.

        Args:
            place: a folder for what is read (`chaos.contract.read_table`).
        """
        raise NotImplementedError


# types of keys that several kinds have --------------------------------------------------------------------------------------


Setting = Annotated[str, BeforeValidator(text_of_setting)]
Word = Annotated[str, StringConstraints(min_length=1)]
