"""Bring your own: any command that copies topic to topic is a pipeline, unchanged.

The words of the command, its environment, the group and the transactional ids may contain placeholders, the names of topics
among them (`chaos.subject.placeholders`). All other braces are left as they are, and ``{{sink}}`` becomes ``{sink}``.

The command runs under `chaos.subject.supervisor`, which reports ``started`` for it, unless it does so itself, and goes on when
it has ended.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame

from chaos.subject import clients, models
from chaos.subject.base import Command, Endpoints, Topics
from chaos.subject.placeholders import by_partition, names_in, of_topics, substituted
from chaos.subject.supervisor import supervised

PLACEHOLDERS = (
    *("bootstrap", "source", "sink", "folder", "prefix", "suffix"),
    *("java", "kafka_tools", "packages", "partition", "instance", "python", "project"),
)


@dataclass(frozen=True, slots=True)
class InGroup:
    """A program whose positions are in a consumer group, if it has any.

    Attributes:
        run: what is run, word by word.
        group: the consumer group that holds its positions; "" if it has none.
        model: ``identity`` (the value is copied) or ``square``.
        ids: its transactional ids by source partition, or one with ``{partition}`` in it, or none.
    """

    run: tuple[str, ...]
    group: str
    model: str = "identity"
    ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: a misplaced placeholder, or an unknown model.
        """
        if self.model not in models.MODELS:
            raise ValueError(f"model must be one of {', '.join(models.MODELS)}, not {self.model!r}")
        if "partition" in names_in(self.group):
            raise ValueError("group must not contain {partition}: one group holds the positions in all partitions")

    def prepare(self, endpoints: Endpoints, topics: Topics) -> None:
        if self.group:
            clients.seed(endpoints, self.consumer_group(topics), topics)

    def positions(self, endpoints: Endpoints, topics: Topics, folder: Path) -> Mapping[int, int]:  # noqa: ARG002
        return clients.positions(endpoints, self.consumer_group(topics), topics)

    def expected(self, source: DataFrame) -> DataFrame:
        return models.expected(source, self.model)

    def consumer_group(self, topics: Topics) -> str:
        return substituted(self.group, self.known(topics))

    def transactional_ids(self, topics: Topics) -> tuple[str, ...]:
        return by_partition(self.ids, self.known(topics), topics.partitions)

    def known(self, topics: Topics) -> dict[str, str]:
        """What placeholders stand for before the system is there."""
        return of_topics(topics)


@dataclass(frozen=True, slots=True)
class CommandPipeline(InGroup):
    """The pipeline; with ``{partition}`` in its words, there is one copy for each source partition.

    ``{instance}`` is 1, and the number of the instance where a fault starts further ones.

    Attributes:
        java: what ``{java}`` stands for.
        kafka_tools: what ``{kafka_tools}`` stands for.
        restarts: how often a copy that ended with an error is started again.
        repeat: start a copy that ended with 0 again as well: some commands stop at the end that the source had at their start.
        environment: variables of the command, whose values may have placeholders but ``{partition}``.
        says_started: whether the command reports ``started`` itself, when it is ready and not only begun. Of no other command
            are events believed.
        working_directory: where it runs; "" for the folder of the run.
        packages: the class path that ``{packages}`` stands for.
    """

    java: str = "java"
    kafka_tools: str = ""
    restarts: int = 3
    repeat: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    says_started: bool = False
    working_directory: str = ""
    packages: str = ""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: a misplaced placeholder, an unknown model, or no command.
        """
        InGroup.__post_init__(self)
        if not self.run:
            raise ValueError("run must be a command, not empty")

    def command(self, endpoints: Endpoints, topics: Topics, folder: Path, instance: int = 1) -> Command:
        places = {"bootstrap": endpoints.kafka, "folder": str(folder), "instance": str(instance), **endpoints.services}
        known = self.known(topics) | places
        copies = [
            [substituted(word, known | {"partition": str(number)}) for word in self.run]
            for number in range(self._copies(topics))
        ]
        words = supervised(
            copies,
            self.restarts,
            repeat=self.repeat,
            says_started=self.says_started,
            folder=self.working_directory,
        )
        environment = {name: substituted(value, known) for name, value in self.environment.items()}
        return Command(words, {**environment, **clients.option_variables(endpoints)}, has_events=self.says_started)

    def _copies(self, topics: Topics) -> int:
        names = {name for word in self.run for name in names_in(word)}
        return topics.partitions if "partition" in names else 1

    def known(self, topics: Topics) -> dict[str, str]:
        return {**of_topics(topics), **self._programs()}

    def _programs(self) -> dict[str, str]:
        return {"java": self.java, "kafka_tools": self.kafka_tools, "packages": self.packages, "python": sys.executable}
