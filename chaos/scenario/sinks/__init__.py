"""`sink:` of a pipeline: a topic, or a table that the job's own Spark reads when the job has ended.

A kind of sink is one class in one file here: its keys, its checks, its table in a run, the count of its additions of rows, and
advice for a table that cannot be read. Kinds are found without being registered. The reader of a table runs in another Spark,
and is a function of `chaos.contract.read_table`.
"""

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Union

from chaos.scenario.one_of import OneOf
from chaos.scenario.sinks.base import NOT_ASKED, SinkBase, TableSink
from chaos.scenario.sinks.topic import OF_COMPACTED, TopicSink

_FIRST = ("topic", "parquet")
"""Kinds that errors and the reference name before the others, which follow by their names."""


def kinds() -> tuple[type[SinkBase], ...]:
    """Find the kinds in the modules of this package."""
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        import_module(module.name)
    found = {kind.key(): kind for kind in _below(SinkBase) if kind.key() and kind.__module__.startswith(f"{__name__}.")}
    return tuple(found[key] for key in (*_FIRST, *sorted(found.keys() - {*_FIRST})))


def _below(parent: type[SinkBase]) -> Iterator[type[SinkBase]]:
    for kind in parent.__subclasses__():
        yield kind
        yield from _below(kind)


KINDS = kinds()
OF_JOBS = OneOf(KINDS, "Sink", "The sink of a Spark job", ("not-one-sink", "a sink is one of"))

if TYPE_CHECKING:
    Sink = TopicSink | TableSink
else:
    Sink = Annotated[Union[KINDS], OF_JOBS]  # noqa: UP007 - known at run time only
"""A sink of a Spark job, of any kind."""

__all__ = ["KINDS", "NOT_ASKED", "OF_COMPACTED", "OF_JOBS", "Sink", "SinkBase", "TableSink", "TopicSink"]
