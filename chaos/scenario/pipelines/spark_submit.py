"""Pipelines that are Spark jobs: any script or jar that spark-submit starts, unchanged.

    spark-submit  settings that lead it to the system  configuration  APPLICATION  arguments

The arguments, and the values of settings and variables, may contain placeholders (`chaos.contract.placeholders`).
Group and transactional ids may contain topics, {suffix} and {prefix}, and the ids {partition}. The job's positions are in its
checkpoint or in its group; the page of its driver names its application.

The job keeps its own settings, except those that lead it to the system: the master, the address of its driver and the port of
its page. Ours are added to its Java options and class path, and its packages to its jars. Driver and executors get little
memory unless the job asks for more. Settings that an external system demands override all others, and may be secret: they are
in a file in memory.

It imports more than fifteen modules: its keys are of as many types, and a kind is one file.
"""

import json
import os
import struct
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from chaos.common import files
from chaos.common.errors import one_line
from chaos.contract import clients, read_table
from chaos.contract.base import CHECKPOINT, DRIVER_PORT, Command
from chaos.contract.checkpoint import checkpointed, of_query
from chaos.contract.placeholders import names_in, substituted
from chaos.contract.supervisor import IN_MEMORY, supervised
from chaos.contract.variables import held_back
from chaos.grammar.base import Declared, Location, Message, Problem, WrongValueError, shown
from chaos.install.packages import Registry
from chaos.install.registries import MavenCentral
from chaos.runtime.capabilities import Capability
from chaos.scenario import expected as said
from chaos.scenario.pipelines.base import Setting, Site, Word
from chaos.scenario.pipelines.packages import Jar
from chaos.scenario.pipelines.program import OnThisMachine, Restarts
from chaos.scenario.sinks import Sink, TableSink
from chaos.scenario.texts import ProjectPath, Template, Written

OF_NAMES = ("source", "sink", "prefix", "suffix")
"""Placeholders in names that a job chooses itself."""
_ON_SPARK = frozenset({Capability.PIPELINE, Capability.SPARK, Capability.CHECKPOINT})
_IN_PYTHON = frozenset({Capability.PYTHON_WORKERS, Capability.COMMITTING_TASKS})
_SUBMITTED = "SPARK_SUBMIT_SETTINGS"
_BEFORE_SPARK_4 = "2.12"
_SMALL = {"spark.driver.memory": "512m", "spark.executor.memory": "512m"}
_ADDED = ("driver", "executor")
_JARS = "spark.jars"
_OF_READING = {"spark.master": "local[2]", "spark.sql.session.timeZone": "UTC"}
"""Settings of the process that reads a table: it needs no worker, and times as text must not depend on the machine."""


class InGroup(Declared):
    """Positions that the job commits itself, in a consumer group."""

    group: Annotated[Word, Template(OF_NAMES)]
    """the name of the group."""


def _positions(value: Any) -> Any:
    """Refuse other types first, so that an error inside a mapping is not reported against the whole union."""
    if value in ("checkpoint", "none") or isinstance(value, Mapping | InGroup):
        return value
    known = "write checkpoint, a consumer group: {group: NAME}, or none"
    raise WrongValueError("not-positions", f"{shown(value)} does not say where positions are; {known}")


class SparkSubmitPipeline(OnThisMachine):
    """Any Spark job, in Python or in a jar, that reads topics and writes a topic or a table."""

    PLACEHOLDERS: ClassVar[tuple[str, ...]] = (
        *("bootstrap", "source", "sink", "checkpoint", "folder", "prefix", "suffix", "project"),
    )
    GROUP: ClassVar[Location] = ("positions", "group")
    client: ClassVar[str] = "spark"

    kind: Literal["spark_submit"]
    packages: tuple[Jar, ...] = ()
    """packages from Maven Central, as ``group:artifact:version``; they are fetched once, with their dependencies, before the
    run, and put into ``spark.jars``.
    """
    working_directory: Annotated[Word, ProjectPath()] | None = None
    """the working directory of the driver; the path begins at the folder of the scenarios file. The default is the folder of
    the run.
    """
    identity: Written | None = None
    """SQL over ``key`` and ``value`` that identifies a row together with its key. A row with the key and the identity of an
    expected row, but another value, is a wrong value. The default is the key alone. For a table: SQL over its columns that
    identifies a row.
    """
    restarts: Restarts = 3
    """the number of times that the driver is started again after it has ended with an error."""
    sink: Sink
    """the topic or the table that it writes."""
    application: Annotated[Word, ProjectPath()]
    """a Python script or a jar; the path begins at the folder of the scenarios file."""
    positions: Annotated[Literal["checkpoint", "none"] | InGroup, BeforeValidator(_positions)] = "checkpoint"
    """the place of its positions: its checkpoint; a consumer group, if the job commits positions there itself; or ``none``."""
    arguments: tuple[Annotated[str, Template()], ...]
    """arguments of the application; ``{checkpoint}`` must be among them, unless there are no positions."""
    main_class: str = ""
    """the main class of a jar, which needs one."""
    configuration: dict[str, Annotated[Setting, Template()]] = Field(default_factory=dict)
    """settings of Spark."""
    environment: dict[str, Annotated[Setting, Template()]] = Field(default_factory=dict)
    """environment variables of the driver."""
    transactional_ids: tuple[Annotated[Word, Template((*OF_NAMES, "partition"))], ...] = ()
    """its transactional ids by source partition, or one with ``{partition}`` in it, for the target
    ``transaction_coordinator``; without them, the target is the coordinator of the id that was last on the wire.
    """
    python_workers: Annotated[bool, Field(strict=True)] = False
    """true if the tasks of its sink run in Python workers, and commit there."""

    @property
    def required_packages(self) -> Registry | None:
        return MavenCentral(self.packages) if self.packages else None

    @property
    def group(self) -> str:
        """The consumer group; "" if the positions are in the checkpoint."""
        return self.positions.group if isinstance(self.positions, InGroup) else ""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities of a Spark job, whose group has no members."""
        of_group = {Capability.CONSUMER_GROUP} if self.group else set()
        unknown = set() if self.has_positions else {Capability.CHECKPOINT}
        return (_ON_SPARK | of_group | (_IN_PYTHON if self.python_workers else set())) - unknown

    @property
    def has_positions(self) -> bool:
        return self.positions != "none"

    @field_validator("arguments")
    @classmethod
    def _with_checkpoint(cls, arguments: tuple[str, ...], others: ValidationInfo) -> tuple[str, ...]:
        needed = others.data.get("positions") != "none"
        if needed and not any("checkpoint" in names_in(word) for word in arguments):
            raise WrongValueError(
                "checkpoint-missing",
                "{checkpoint} is missing: the job must keep its checkpoint there, so that it can be read and damaged",
            )
        return arguments

    @model_validator(mode="after")
    def _jars_have_a_class(self) -> Self:
        if self.application.endswith(".jar") and not self.main_class:
            raise WrongValueError("main-class-missing", "a jar needs main_class: the class whose main is the job")
        return self

    def problems(self) -> Iterator[Problem]:
        yield from said.of_pipeline(self)
        yield from self.sink.problems(self)

    def missing(self, folder: Path) -> Iterator[Problem]:
        # `Path.is_file` raises OSError for a path that is too long.
        if not os.path.isfile((folder / self.application).resolve()):  # noqa: PTH113
            text = f"{one_line(self.application)} is not a file; a path begins at the folder of this file, {folder.resolve()}"
            yield ("application",), Message("not-a-file", text)
        yield from super().missing(folder)

    def process(self, site: Site, instance: int) -> Command:  # noqa: ARG002 - there is one driver
        known = self._known(site)
        of_class = ("--class", self.main_class) if self.main_class else ()
        application = (self.application, *(substituted(word, known) for word in self.arguments))
        argv, environment = self._submitted(site, known, self._settings(site, known), of_class, application, self.restarts)
        environment |= clients.option_variables(site.endpoints)
        if not self.has_positions:
            return Command(argv, environment, has_events=False)
        checkpoint = site.folder / CHECKPOINT
        begins_by = f"a query to begin its checkpoint in {checkpoint}"
        return Command(argv, environment, has_events=False, has_begun=partial(_has_begun, checkpoint), begins_by=begins_by)

    def checkpoint_positions(self, site: Site) -> Mapping[int, int]:
        """Read the positions from the checkpoint: Spark's Kafka source commits none to a group."""
        return checkpointed(of_query(site.folder / CHECKPOINT, site.topics.source), site.topics.source)

    def table(self, site: Site) -> TableSink | None:
        return None if self.sink.table is None else self.sink.table.of_run(self._places(site))

    def reader(self, site: Site, place: Path) -> Command:
        """Run the job's own Spark, with its packages and settings, in one process, without workers."""
        known, table = self._known(site), self.table(site)
        assert table is not None  # noqa: S101 - an error of ours, not of the user
        spec = table.spec | {"identity": self.identity or "", "places": known}
        place.mkdir(parents=True, exist_ok=True)
        files.write_atomically(place / read_table.SPEC, json.dumps(spec, indent=1))
        settings = {**self._settings(site, known), **_OF_READING}
        argv, environment = self._submitted(site, known, settings, (), (read_table.__file__, str(place)), restarts=0)
        return Command(argv, environment, has_events=False)

    def _known(self, site: Site) -> dict[str, str]:
        """Return the values of placeholders."""
        known, table = self._places(site), self.table(site)
        return known if table is None else {**known, "sink": table.place}

    def _places(self, site: Site) -> dict[str, str]:
        places = {"folder": str(site.folder), "checkpoint": str(site.folder / CHECKPOINT)}
        endpoints = site.endpoints
        return {**self.names(site.tools, site.topics), **places, "bootstrap": endpoints.kafka, **endpoints.services}

    def _submitted(
        self,
        site: Site,
        known: Mapping[str, str],
        settings: Mapping[str, str],
        options: tuple[str, ...],
        application: tuple[str, ...],
        restarts: int,
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        """Return the words of spark-submit below a supervisor, and its environment."""
        demanded, tools = site.endpoints.spark_options, site.tools
        words = [
            str(Path(tools.spark_home) / "bin" / "spark-submit"),
            *(("--properties-file", IN_MEMORY) if demanded else ()),
            *(("--load-spark-defaults",) if demanded and tools.scala != _BEFORE_SPARK_4 else ()),  # 3.5 does not know it
            *options,
            *(word for name, value in settings.items() if name not in demanded for word in ("--conf", f"{name}={value}")),
            *application,
        ]
        environment = held_back({name: substituted(value, known) for name, value in self.environment.items()})
        environment |= {
            "SPARK_HOME": tools.spark_home,
            "SPARK_LOCAL_IP": site.endpoints.host,
            "SPARK_SCALA_VERSION": tools.scala,
            "PYSPARK_PYTHON": sys.executable,  # the executors' too
            "JAVA_HOME": tools.java_home,
        }
        if demanded:
            environment[_SUBMITTED] = properties(demanded)
        argv = supervised([words], restarts, in_memory=_SUBMITTED if demanded else "", folder=self.runs_in)
        return argv, environment

    def _settings(self, site: Site, known: Mapping[str, str]) -> Mapping[str, str]:
        endpoints, packages = site.endpoints, site.tools.packages
        own = {**_SMALL, **{name: substituted(value, known) for name, value in self.configuration.items()}}
        leading = {
            "spark.master": endpoints.spark_master,
            "spark.driver.host": endpoints.host,
            "spark.driver.bindAddress": endpoints.host,
            "spark.ui.enabled": "true",
            "spark.ui.port": str(DRIVER_PORT),
            "spark.ui.showConsoleProgress": "false",
        }
        for end in _ADDED:
            added = {"extraJavaOptions": (endpoints.java_options, " "), "extraClassPath": (endpoints.class_path, ":")}
            for setting, (ours, between) in added.items():
                name = f"spark.{end}.{setting}"
                leading[name] = between.join(filter(None, (own.get(name, ""), ours)))
        if packages:
            leading[_JARS] = ",".join(filter(None, (own.get(_JARS, ""), *packages)))
        return {**own, **leading}


def _has_begun(checkpoint: Path) -> bool:
    """Whether a query has its checkpoint: Spark writes ``metadata`` into it when the query begins (`StreamMetadata`)."""
    return next(checkpoint.rglob("metadata"), None) is not None


def properties(settings: Mapping[str, str]) -> str:
    """Format settings for `java.util.Properties`; all but letters and digits is escaped, as much of it has a meaning there."""
    return "".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in settings.items())


def _escaped(text: str) -> str:
    codes = (code for (code,) in struct.iter_unpack(">H", text.encode("utf-16-be")))
    return "".join(chr(code) if chr(code).isascii() and chr(code).isalnum() else f"\\u{code:04x}" for code in codes)
