"""Bring your own Spark job: any script or jar that spark-submit starts is a pipeline, unchanged.

    spark-submit  settings that lead it to the system  configuration  APPLICATION  arguments

The arguments, and the values of settings and variables, may contain placeholders (`chaos.subject.placeholders`).
Group and transactional ids may contain topics, {suffix} and {prefix}, and the ids {partition}. How far the job is, is
read from its checkpoint, or asked of its group; its application is found at the page of its driver.

Its own settings are kept, but for those that lead it to the system: the master, the address of its driver and the port of its
page. To the Java options and the class path, ours are added; to its jars, those of its packages. Memory of driver and executors
is small unless it says otherwise. What an external system demands of an application has the last word, and may be secret: it is
in a file in memory.
"""

import json
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame

from chaos.common import files
from chaos.subject import clients, models
from chaos.subject.base import CHECKPOINT, DRIVER_PORT, Command, Endpoints, Topics
from chaos.subject.checkpoint import checkpointed, of_query
from chaos.subject.placeholders import by_partition, of_topics, substituted
from chaos.subject.supervisor import IN_MEMORY, supervised
from chaos.subject.tables import READER, SPEC, Table

OF_NAMES = ("source", "sink", "prefix", "suffix")
PLACEHOLDERS = ("bootstrap", "source", "sink", "checkpoint", "folder", "prefix", "suffix", "project")
_SUBMITTED = "SPARK_SUBMIT_SETTINGS"
_BEFORE_SPARK_4 = "2.12"
_SMALL = {"spark.driver.memory": "512m", "spark.executor.memory": "512m"}
_ADDED = ("driver", "executor")
_JARS = "spark.jars"
_OF_READING = {"spark.master": "local[2]", "spark.sql.session.timeZone": "UTC"}
"""Of the process that reads a table: no worker is needed, and the text of times must not depend on the machine."""


@dataclass(frozen=True, slots=True)
class SparkSubmit:
    """The pipeline.

    Attributes:
        application: a Python script or a jar.
        arguments: of the application, with placeholders.
        main_class: of a jar.
        configuration: settings of Spark.
        environment: variables of the driver.
        model: ``identity`` (the value is copied) or ``square``.
        group: the consumer group that holds its positions; "" if they are in its checkpoint, or nowhere.
        has_checkpoint: whether it keeps one where it is told to.
        ids: its transactional ids by source partition, or one with ``{partition}`` in it, or none.
        restarts: how often a driver that ended with an error is started again.
        packages: jars that driver and executors need beside it.
        working_directory: where the driver runs; "" for the folder of the run.
        spark_home: whose ``bin/spark-submit`` starts it.
        scala: of that Spark.
        java_home: of its JVMs.
        table: where it writes, if that is not a topic.
    """

    application: str
    arguments: tuple[str, ...]
    main_class: str = ""
    configuration: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    model: str = "identity"
    group: str = ""
    has_checkpoint: bool = True
    ids: tuple[str, ...] = ()
    restarts: int = 3
    packages: tuple[str, ...] = ()
    working_directory: str = ""
    spark_home: str = ""
    scala: str = "2.13"
    java_home: str = ""
    table: Table | None = None

    def command(self, endpoints: Endpoints, topics: Topics, folder: Path) -> Command:
        known = self._known(endpoints, topics, folder)
        of_class = ("--class", self.main_class) if self.main_class else ()
        application = (self.application, *(substituted(word, known) for word in self.arguments))
        settings = self._settings(endpoints, known)
        argv, environment = self._submitted(endpoints, known, settings, of_class, application, self.restarts)
        environment |= clients.option_variables(endpoints)
        if not self.has_checkpoint:
            return Command(argv, environment, has_events=False)
        has_begun, begins_by = (
            partial(_has_begun, folder / CHECKPOINT),
            f"a query to begin its checkpoint in {folder / CHECKPOINT}",
        )
        return Command(argv, environment, has_events=False, has_begun=has_begun, begins_by=begins_by)

    def reader(self, endpoints: Endpoints, topics: Topics, folder: Path, place: Path, identity: str) -> Command:
        """What reads the table, with the packages and settings of the job, in one process: no worker is needed.

        Args:
            place: a folder for what is read (`chaos.subject.tables`).
            identity: SQL over the columns, by which its rows are told apart; "" for none.
        """
        known = self._known(endpoints, topics, folder)
        table = self.of_run(endpoints, topics, folder)
        assert table is not None  # noqa: S101 - a slip of ours, not of the user
        spec = table.spec | {"identity": identity, "places": known}
        place.mkdir(parents=True, exist_ok=True)
        files.write_atomically(place / SPEC, json.dumps(spec, indent=1))
        settings = {**self._settings(endpoints, known), **_OF_READING}
        argv, environment = self._submitted(endpoints, known, settings, (), (str(READER), str(place)), restarts=0)
        return Command(argv, environment, has_events=False)

    def of_run(self, endpoints: Endpoints, topics: Topics, folder: Path) -> Table | None:
        """The table of this run, if it writes one."""
        return None if self.table is None else self.table.of_run(self._places(endpoints, topics, folder))

    def _known(self, endpoints: Endpoints, topics: Topics, folder: Path) -> dict[str, str]:
        """What stands in place of placeholders."""
        known = self._places(endpoints, topics, folder)
        return known if self.table is None else {**known, "sink": self.table.of_run(known).place}

    def _places(self, endpoints: Endpoints, topics: Topics, folder: Path) -> dict[str, str]:
        places = {"folder": str(folder), "checkpoint": str(folder / CHECKPOINT)}
        return {**of_topics(topics), **places, "bootstrap": endpoints.kafka, **endpoints.services}

    def _submitted(
        self,
        endpoints: Endpoints,
        known: Mapping[str, str],
        settings: Mapping[str, str],
        options: tuple[str, ...],
        application: tuple[str, ...],
        restarts: int,
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        """The words of spark-submit below a supervisor, and its environment."""
        demanded = endpoints.spark_options
        words = [
            str(Path(self.spark_home) / "bin" / "spark-submit"),
            *(("--properties-file", IN_MEMORY) if demanded else ()),
            *(("--load-spark-defaults",) if demanded and self.scala != _BEFORE_SPARK_4 else ()),  # 3.5 does not know it
            *options,
            *(word for name, value in settings.items() if name not in demanded for word in ("--conf", f"{name}={value}")),
            *application,
        ]
        environment = {name: substituted(value, known) for name, value in self.environment.items()}
        environment |= {
            "SPARK_HOME": self.spark_home,
            "SPARK_LOCAL_IP": endpoints.host,
            "SPARK_SCALA_VERSION": self.scala,
            "PYSPARK_PYTHON": sys.executable,  # the executors' too
            "JAVA_HOME": self.java_home,
        }
        if demanded:
            environment[_SUBMITTED] = properties(demanded)
        argv = supervised([words], restarts, in_memory=_SUBMITTED if demanded else "", folder=self.working_directory)
        return argv, environment

    def prepare(self, endpoints: Endpoints, topics: Topics) -> None:
        """Seed the group, if it has one: position 0 in every source partition. It makes its checkpoint itself."""
        if self.group:
            clients.seed(endpoints, self.consumer_group(topics), topics)

    def positions(self, endpoints: Endpoints, topics: Topics, folder: Path) -> Mapping[int, int]:
        if self.group:
            return clients.positions(endpoints, self.consumer_group(topics), topics)
        return checkpointed(of_query(folder / CHECKPOINT, topics.source), topics.source)

    def expected(self, source: DataFrame) -> DataFrame:
        return models.expected(source, self.model)

    def consumer_group(self, topics: Topics) -> str:
        """Its group; "" if its positions are in the checkpoint: Spark's Kafka source commits none."""
        return substituted(self.group, of_topics(topics))

    def transactional_ids(self, topics: Topics) -> tuple[str, ...]:
        return by_partition(self.ids, of_topics(topics), topics.partitions)

    def _settings(self, endpoints: Endpoints, known: Mapping[str, str]) -> Mapping[str, str]:
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
        if self.packages:
            leading[_JARS] = ",".join(filter(None, (own.get(_JARS, ""), *self.packages)))
        return {**own, **leading}


def _has_begun(checkpoint: Path) -> bool:
    """Whether a query has its checkpoint: Spark writes ``metadata`` into it when the query begins (`StreamMetadata`)."""
    return next(checkpoint.rglob("metadata"), None) is not None


def properties(settings: Mapping[str, str]) -> str:
    """As `java.util.Properties` reads it; all but letters and digits is escaped, because half of it means something there."""
    return "".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in settings.items())


def _escaped(text: str) -> str:
    codes = (code for (code,) in struct.iter_unpack(">H", text.encode("utf-16-be")))
    return "".join(chr(code) if chr(code).isascii() and chr(code).isalnum() else f"\\u{code:04x}" for code in codes)
