"""Bring your own Spark job: any script or jar that spark-submit starts is a pipeline, unchanged.

    spark-submit  settings that lead it to the system  configuration  APPLICATION  arguments

The arguments may contain placeholders:

    {bootstrap}    bootstrap servers, of the pipeline's own listener   {folder}  for the files of this run
    {source}       the topic to read                                   {suffix}  what the topics of this run end with
    {sink}         the topic to write                                  {prefix}  what every name begins with on a shared cluster
    {checkpoint}   where the query keeps its position

Nothing else is known of the job: how far it is, is read from its checkpoint, and its application is found at Spark's master.

Its own settings are kept, but for those that lead it to the system: the master, the address of its driver and the port of its
page. To the Java options and the class path, ours are added. Memory of driver and executors is small unless it says otherwise.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame

from chaos.subject import models
from chaos.subject.base import CHECKPOINT, DRIVER_PORT, Command, Endpoints, Topics
from chaos.subject.checkpoint import checkpointed
from chaos.subject.placeholders import of_topics, substituted
from chaos.subject.supervisor import supervised

PLACEHOLDERS = ("bootstrap", "source", "sink", "checkpoint", "folder", "prefix", "suffix")
_SMALL = {"spark.driver.memory": "512m", "spark.executor.memory": "512m"}
_ADDED = ("driver", "executor")


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
        restarts: how often a driver that ended with an error is started again.
        spark_home: whose ``bin/spark-submit`` starts it.
        java_home: of its JVMs.
    """

    application: str
    arguments: tuple[str, ...]
    main_class: str = ""
    configuration: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    model: str = "identity"
    restarts: int = 3
    spark_home: str = ""
    java_home: str = ""

    def command(self, endpoints: Endpoints, topics: Topics, folder: Path) -> Command:
        places = {"folder": str(folder), "checkpoint": str(folder / CHECKPOINT)}
        known = {**of_topics(topics), **places, "bootstrap": endpoints.kafka}
        settings = (word for name, value in self._settings(endpoints).items() for word in ("--conf", f"{name}={value}"))
        words = [
            str(Path(self.spark_home) / "bin" / "spark-submit"),
            *(("--class", self.main_class) if self.main_class else ()),
            *settings,
            self.application,
            *(substituted(word, known) for word in self.arguments),
        ]
        of_spark = {
            "SPARK_HOME": self.spark_home,
            "SPARK_LOCAL_IP": endpoints.host,
            "SPARK_SCALA_VERSION": "2.13",
            "PYSPARK_PYTHON": sys.executable,  # the executors' too
            "JAVA_HOME": self.java_home,
        }
        return Command(supervised([words], self.restarts), {**self.environment, **of_spark}, has_events=False)

    def prepare(self, endpoints: Endpoints, topics: Topics) -> None:
        """Nothing is to be done: it makes its checkpoint itself."""

    def positions(self, endpoints: Endpoints, topics: Topics, folder: Path) -> Mapping[int, int]:  # noqa: ARG002
        return checkpointed(folder / CHECKPOINT, topics.source)

    def expected(self, source: DataFrame) -> DataFrame:
        return models.expected(source, self.model)

    def consumer_group(self, topics: Topics) -> str:  # noqa: ARG002
        """None: Spark's Kafka source commits no positions."""
        return ""

    def transactional_ids(self, topics: Topics) -> tuple[str, ...]:  # noqa: ARG002
        """None that are known."""
        return ()

    def _settings(self, endpoints: Endpoints) -> Mapping[str, str]:
        own = {**_SMALL, **self.configuration}
        leading = {
            "spark.master": endpoints.spark_master,
            "spark.driver.host": endpoints.host,
            "spark.driver.bindAddress": endpoints.host,
            "spark.ui.enabled": "true",
            "spark.ui.port": str(DRIVER_PORT),
            "spark.ui.showConsoleProgress": "false",
        }
        for end in _ADDED:
            added = {"extraJavaOptions": (endpoints.java_options, " "), "extraClassPath": (":".join(endpoints.jars), ":")}
            for setting, (ours, between) in added.items():
                name = f"spark.{end}.{setting}"
                leading[name] = between.join(filter(None, (own.get(name, ""), ours)))
        return {**own, **leading}
