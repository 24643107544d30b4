"""Rows of a function that an installed package has added: ``{generator: skewed, with: {customers: 5}}``."""

from collections.abc import Iterator
from pathlib import Path

from chaos.grammar.base import Problem
from chaos.loader import generators
from chaos.loader.sources import Function
from chaos.scenario.functions import of_function
from chaos.scenario.rows.function import FunctionRows
from chaos.scenario.texts import Written


class GeneratorRows(FunctionRows):
    """Rows of a function that an installed package has added."""

    generator: Written
    """the name of a function that an installed package has added (docs/plugins.md)."""

    @property
    def generators(self) -> tuple[str, ...]:
        return (self.generator,)

    @property
    def function(self) -> Function:
        return Function(self.generator, "", self.arguments)

    def problems(self, folder: Path) -> Iterator[Problem]:  # noqa: ARG002 - a package is installed anywhere
        yield from of_function("generator", self.generator, generators.PLUGINS.things, 1, self.arguments)
