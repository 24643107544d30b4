"""Pipelines that are commands: any command that reads topics and writes one, unchanged.

The words of the command, its environment, the group and the transactional ids may contain placeholders, the names of topics
among them (`chaos.contract.placeholders`). All other braces stay, and ``{{sink}}`` becomes ``{sink}``. ``{instance}`` is 1 for
the first instance, and a number for each further one that a fault starts.

The command runs under `chaos.contract.supervisor`, which reports ``started`` unless the command does so itself, and goes on
when the command has ended.
"""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from chaos.contract import clients
from chaos.contract.base import Command, Topics
from chaos.contract.placeholders import names_in, of_topics, substituted
from chaos.contract.supervisor import supervised
from chaos.contract.variables import held_back
from chaos.grammar.base import WrongValueError
from chaos.install.packages import Registry
from chaos.scenario.pipelines.base import Site, Tools, Word
from chaos.scenario.pipelines.in_group import ProgramInGroup
from chaos.scenario.pipelines.packages import Packages
from chaos.scenario.pipelines.program import OnThisMachine
from chaos.scenario.texts import Template


class CommandPipeline(ProgramInGroup, OnThisMachine):
    """Any command that reads topics and writes one, in any language."""

    PLACEHOLDERS: ClassVar[tuple[str, ...]] = (
        *("bootstrap", "source", "sink", "folder", "prefix", "suffix"),
        *("java", "kafka_tools", "packages", "partition", "instance", "python", "project"),
    )

    kind: Literal["command"]
    packages: Packages = None
    """packages from one registry; they are fetched once, with their dependencies, before the run. A list names packages from
    Maven Central, and is short for ``{maven: […]}``.
    """
    run: Annotated[tuple[Annotated[Word, Template()], ...], Field(min_length=1)]
    """the command, word by word; with ``{partition}`` in it, one copy for each source partition."""
    repeat: Annotated[bool, Field(strict=True)] = False
    """restart a copy that ended without an error, too: some commands stop at the end that the source had when they started."""

    @model_validator(mode="after")
    def _packages_are_used(self) -> Self:
        texts = (*self.run, *self.environment.values())
        named = {name for text in texts for name in names_in(text)}
        if self.packages is None and "packages" in named:
            raise WrongValueError(
                "packages-missing",
                "packages is missing: {packages} is their class path; write packages: [group:artifact:version]",
            )
        if self.packages is not None and not named & {*self.packages.PLACEHOLDERS}:
            raise WrongValueError("packages-not-named", self.packages.NOT_NAMED)
        return self

    @property
    def required_packages(self) -> Registry | None:
        return None if self.packages is None else self.packages.registry

    def names(self, tools: Tools, topics: Topics) -> dict[str, str]:
        packages = ":".join(tools.packages)
        programs = {"java": tools.java, "kafka_tools": tools.kafka_tools, "packages": packages, "python": tools.python}
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
