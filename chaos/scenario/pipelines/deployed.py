"""A pipeline in a run: its declaration, and the programs for running it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from chaos.contract import clients
from chaos.contract.base import Command, Endpoints, Topics
from chaos.contract.placeholders import by_partition, substituted
from chaos.scenario.pipelines import Pipeline
from chaos.scenario.pipelines.base import Site, Tools
from chaos.scenario.sinks import TableSink


@dataclass(frozen=True, slots=True)
class Deployed:
    """Does what all kinds have in common; the kind does the rest."""

    declared: Pipeline
    tools: Tools = field(default_factory=Tools)

    def command(self, endpoints: Endpoints, topics: Topics, folder: Path, instance: int = 1) -> Command:
        """Return the process to start; its files go into the folder."""
        return self.declared.process(self._site(endpoints, topics, folder), instance)

    def prepare(self, endpoints: Endpoints, topics: Topics) -> None:
        """Deploy once, before the first start: set position 0 in every source partition, if the pipeline has a group."""
        if self.declared.group:
            clients.seed(endpoints, self.consumer_group(topics), topics)

    def positions(self, endpoints: Endpoints, topics: Topics, folder: Path) -> Mapping[int, int]:
        """Read the committed position in each source partition, exclusive; a partition without one is left out."""
        if self.declared.group:
            return clients.positions(endpoints, self.consumer_group(topics), topics)
        return self.declared.checkpoint_positions(self._site(endpoints, topics, folder))

    def consumer_group(self, topics: Topics) -> str:
        """Return the consumer group; "" if the pipeline has none."""
        return substituted(self.declared.group, self.declared.names(self.tools, topics))

    def transactional_ids(self, topics: Topics) -> tuple[str, ...]:
        """Return the transactional ids by source partition; empty without transactions."""
        ids, names = self.declared.transactional_ids, self.declared.names(self.tools, topics)
        return by_partition(ids, names, topics.partitions)

    @property
    def writes_table(self) -> bool:
        """Whether the pipeline writes a table in place of a topic."""
        return self.declared.sink is not None and self.declared.sink.table is not None

    def table(self, endpoints: Endpoints, topics: Topics, folder: Path) -> TableSink | None:
        """Return the table that the pipeline writes in this run; None if it writes a topic."""
        return self.declared.table(self._site(endpoints, topics, folder))

    def reader(self, endpoints: Endpoints, topics: Topics, folder: Path, place: Path) -> Command:
        """Return the process that reads the table.

        Args:
            place: a folder for the result (`chaos.contract.read_table`).
        """
        return self.declared.reader(self._site(endpoints, topics, folder), place)

    def _site(self, endpoints: Endpoints, topics: Topics, folder: Path) -> Site:
        return Site(self.tools, endpoints, topics, folder)
