"""A function of an installed package that reads a table: ``{reader: shop_table, with: {region: north}}`` (docs/plugins.md).

An entry point of the group ``chaos.sinks`` names the function, and scenarios files name the entry point. The function gets the
session of the job's Spark, a mapping from placeholders to their values, and further arguments from ``with``; it returns a
DataFrame.
"""

import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field, JsonValue

from chaos.common.plugins import UnfitError, installed
from chaos.grammar.base import Problem, within
from chaos.scenario.functions import of_function
from chaos.scenario.sinks.base import TableSink
from chaos.scenario.texts import Written


@dataclass(frozen=True, slots=True)
class Reader:
    """A function that another package has added.

    Attributes:
        place: ``module:function``, with which the job's Spark imports it.
        folder: the folder of that module: the package is installed beside this one, and perhaps not beside that Spark.
    """

    function: Callable[..., Any]
    place: str
    folder: str


def _made(name: str, thing: Any) -> Reader:  # noqa: ARG001 - a function may have another name than its entry point
    """Check the function that an entry point names.

    Raises:
        UnfitError: it is not a function, cannot be imported by its name, or does not accept a session and places.
    """
    if not inspect.isfunction(thing) or not thing.__qualname__.isidentifier():
        raise UnfitError("it is not a function of a module; name one like def read(spark, places): …")
    try:
        inspect.signature(thing).bind_partial(None, {})
    except TypeError:
        raise UnfitError(
            "it does not accept a session and places as its first arguments; declare def read(spark, places): …"
        ) from None
    top = sys.modules[thing.__module__.partition(".")[0]]
    inside = Path(next(iter(top.__path__))) if hasattr(top, "__path__") else Path(str(top.__file__))
    return Reader(thing, f"{thing.__module__}:{thing.__qualname__}", str(inside.resolve().parent))


READERS = installed("chaos.sinks", (), _made)


class ReaderSink(TableSink):
    """Rows that a function of an installed package reads."""

    FORMAT: ClassVar[str] = "python"

    reader: Written
    """the name of a function that an installed package has added (docs/plugins.md)."""
    arguments: dict[str, Annotated[JsonValue, Field(title="value")]] = Field(alias="with", default_factory=dict)
    """further arguments of the reader, by name."""

    @property
    def readers(self) -> tuple[str, ...]:
        return (self.reader,)

    @property
    def spec(self) -> dict[str, Any]:
        reader = READERS.things[self.reader]
        return super().spec | {"place": reader.place, "options": {"folder": reader.folder}, "arguments": self.arguments}

    def problems(self, pipeline: Any) -> Iterator[Problem]:
        functions = {name: reader.function for name, reader in READERS.things.items()}
        yield from within(("sink",), of_function("reader", self.reader, functions, 2, self.arguments))
        yield from super().problems(pipeline)
