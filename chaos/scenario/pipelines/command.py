"""Pipelines that are commands: any command that reads topics and writes one, unchanged.

The words of the command, its environment, the group and the transactional ids may contain placeholders, the names of topics
among them (`chaos.contract.placeholders`). All other braces stay, and ``{{sink}}`` becomes ``{sink}``. ``{instance}`` is 1 for
the first instance, and a number for each further one that a fault starts.

The command runs under `chaos.contract.supervisor`, which reports ``started`` unless the command does so itself, and goes on
when the command has ended.
"""

import sys
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from chaos.contract import clients
from chaos.contract.base import Command, Topics
from chaos.contract.placeholders import names_in, of_topics, substituted
from chaos.contract.supervisor import supervised
from chaos.contract.variables import held_back
from chaos.grammar.base import WrongValueError
from chaos.scenario.pipelines.base import Site, Tools, Word
from chaos.scenario.pipelines.in_group import ProgramInGroup
from chaos.scenario.pipelines.program import OnThisMachine, Package
from chaos.scenario.texts import Template


class CommandPipeline(ProgramInGroup, OnThisMachine):
    """Any command that reads topics and writes one, in any language."""

    PLACEHOLDERS: ClassVar[tuple[str, ...]] = (
        *("bootstrap", "source", "sink", "folder", "prefix", "suffix"),
        *("java", "kafka_tools", "packages", "partition", "instance", "python", "project"),
    )

    kind: Literal["command"]
    packages: tuple[Package, ...] = ()
    """packages from Maven Central, as ``group:artifact:version``; they are fetched once, with their dependencies, before the
    run. ``{packages}`` is their class path.
    """
    run: Annotated[tuple[Annotated[Word, Template()], ...], Field(min_length=1)]
    """the command, word by word; with ``{partition}`` in it, one copy for each source partition."""
    repeat: Annotated[bool, Field(strict=True)] = False
    """restart a copy that ended without an error, too: some commands stop at the end that the source had when they started."""

    @model_validator(mode="after")
    def _packages_are_used(self) -> Self:
        named = any("packages" in names_in(text) for text in (*self.run, *self.environment.values()))
        if named and not self.packages:
            raise WrongValueError(
                "packages-missing",
                "packages is missing: {packages} is their class path; write packages: [group:artifact:version]",
            )
        if self.packages and not named:
            raise WrongValueError(
                "packages-not-named",
                "nothing here uses {packages}, the class path of packages; write it where it is needed, or leave packages out",
            )
        return self

    def names(self, tools: Tools, topics: Topics) -> dict[str, str]:
        packages = ":".join(tools.packages)
        programs = {"java": tools.java, "kafka_tools": tools.kafka_tools, "packages": packages, "python": sys.executable}
        return {**of_topics(topics), **programs}

    def process(self, site: Site, instance: int) -> Command:
        endpoints = site.endpoints
        places = {"bootstrap": endpoints.kafka, "folder": str(site.folder), "instance": str(instance), **endpoints.services}
        known = self.names(site.tools, site.topics) | places
        has_partition = any("partition" in names_in(word) for word in self.run)
        copies = [
            [substituted(word, known | {"partition": str(number)}) for word in self.run]
            for number in range(site.topics.partitions if has_partition else 1)
        ]
        words = supervised(
            copies,
            self.restarts,
            repeat=self.repeat,
            says_started=self.says_started,
            folder=self.runs_in,
        )
        environment = {name: substituted(value, known) for name, value in self.environment.items()}
        return Command(words, {**held_back(environment), **clients.option_variables(endpoints)}, has_events=self.says_started)
