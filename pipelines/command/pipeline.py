"""Bring your own: any command that copies topic to topic is a pipeline, unchanged.

The words of the command, the group and the transactional ids may hold placeholders:

    {bootstrap}    bootstrap servers of this client's own listener     {folder}       for the files of this run
    {source}       the topic to read                                   {suffix}       of this run, what its topics end with
    {sink}         the topic to write                                  {java}         the Java that runs the system
    {partition}    of the source: one copy of the command for each     {kafka_tools}  class path of Kafka's own programs
    {prefix}       of every name on a cluster that others use; empty on one of our own

A brace that belongs to no such word is left as it is; ``{{sink}}`` is written ``{sink}``. The command runs under
`pipelines.command.supervisor`, which says ``started`` for it and outlives its end.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.functions import expr

from pipelines import kafka
from pipelines.base import Command, Endpoints, Topics
from pipelines.command.placeholders import check, placeholders, substituted
from pipelines.options import variables
from pipelines.spark_square.pipeline import SparkSquare

MODELS = ("identity", "square")


@dataclass(frozen=True, slots=True)
class CommandPipeline:
    """The pipeline.

    Attributes:
        run: the command, word by word; with ``{partition}`` in it, one copy for each source partition.
        model: ``identity`` (the value is copied) or ``square``.
        group: the consumer group that holds its positions.
        ids: its transactional ids by source partition, or one with ``{partition}`` in it, or none.
        java: what ``{java}`` stands for.
        kafka_tools: what ``{kafka_tools}`` stands for.
        restarts: how often a copy that ended with an error is started again, as a supervisor would.
        repeat: start a copy that ended with 0 again as well: some end at the end that the source had when they began.
    """

    run: tuple[str, ...]
    group: str
    model: str = "identity"
    ids: tuple[str, ...] = ()
    java: str = "java"
    kafka_tools: str = ""
    restarts: int = 3
    repeat: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be meant.

        Raises:
            ValueError: an unknown or misplaced placeholder, an unknown model, or no command.
        """
        if not self.run:
            raise ValueError("run must name a command")
        if self.model not in MODELS:
            raise ValueError(f"model {self.model!r} is none of {', '.join(MODELS)}")
        if "partition" in placeholders(self.group):
            raise ValueError("group must not hold {partition}: its positions in all partitions are asked for at once")
        for text in (*self.run, self.group, *self.ids):
            check(text)

    def command(self, endpoints: Endpoints, topics: Topics, folder: Path) -> Command:
        """The supervisor, with a command for each copy."""
        known = self._known(topics) | {"bootstrap": endpoints.kafka, "folder": str(folder)}
        copies = [
            [substituted(word, known | {"partition": str(number)}) for word in self.run]
            for number in range(self._copies(topics))
        ]
        limits = ("--restarts", str(self.restarts), *(("--repeat",) if self.repeat else ()))
        argv = (sys.executable, "-m", "pipelines.command.supervisor", "--copies", json.dumps(copies), *limits)
        return Command(argv, variables(endpoints))

    def prepare(self, endpoints: Endpoints, topics: Topics) -> None:
        """Seed the group."""
        kafka.seed(endpoints, self.consumer_group(topics), topics)

    def positions(self, endpoints: Endpoints, topics: Topics, folder: Path) -> Mapping[int, int]:  # noqa: ARG002
        """Of the group."""
        return kafka.positions(endpoints, self.consumer_group(topics), topics)

    def expected(self, source: DataFrame) -> DataFrame:
        """Each id once, in its own partition, as the model says."""
        if self.model == "square":
            return SparkSquare().expected(source)
        rows = source.selectExpr("CAST(key AS BIGINT) AS id", "struct(partition, offset) AS place", "value")
        firsts = rows.groupBy("id").agg(expr("min(place) AS place"), expr("min_by(value, place) AS value"))
        return firsts.selectExpr("id", "place.partition", "value", "true AS required", "place.offset AS position")

    def consumer_group(self, topics: Topics) -> str:
        """Its consumer group."""
        return substituted(self.group, self._known(topics))

    def transactional_ids(self, topics: Topics) -> tuple[str, ...]:
        """By source partition."""
        known, given = self._known(topics), self.ids
        if len(given) == 1:
            given *= topics.partitions
        return tuple(substituted(text, known | {"partition": str(number)}) for number, text in enumerate(given))

    def _copies(self, topics: Topics) -> int:
        names = {name for word in self.run for name in placeholders(word)}
        return topics.partitions if "partition" in names else 1

    def _known(self, topics: Topics) -> dict[str, str]:
        return {
            "source": topics.source,
            "sink": topics.sink,
            "prefix": topics.prefix,
            "suffix": topics.source.removeprefix(topics.prefix).partition("-")[2],
            "java": self.java,
            "kafka_tools": self.kafka_tools,
        }
