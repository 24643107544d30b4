"""A topic: ``{topic: enriched}``."""

from collections.abc import Mapping
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from chaos.grammar.base import Message, WrongValueError
from chaos.scenario.sinks.base import SinkBase
from chaos.scenario.topics import Form, TopicName, TopicSpecs

OF_COMPACTED = "the sink is compacted: rows may be gone that were there"
NOT_OF_COMPACTED = ("atomicity", "stability")
"""Verifiers that would take what compaction has removed for something else."""


class TopicSink(SinkBase):
    """The topic that a pipeline writes."""

    MISPLACED: ClassVar[Mapping[str, Message]] = {
        "routing": Message(
            "routing-of-table", "routing is about the partitions of a topic, and this sink is a table; leave it out"
        ),
        "as": Message(
            "state-of-table",
            "as: state is about the rows of a topic; the rows of a table are its state anyway; leave it out",
        ),
    }

    topic: TopicName
    """one of ``topics``."""
    routing: Literal["same", "any"] | None = None
    """of a topic: ``same`` if a record must be in the partition that it had in the source, ``any`` if the pipeline chooses one.
    Where it is left out: ``same``, if both topics have as many partitions, else ``any``.
    """
    form: Form = Field(alias="as", default="log")
    """of a topic: what it is judged as: a ``log``, all of whose rows count, or a ``state``: of each key the last value, and
    none where that is null.
    """

    @model_validator(mode="after")
    def _of_a_log(self) -> Self:
        if self.form == "state" and self.routing is not None:
            raise WrongValueError(
                "routing-of-state",
                "a key of a state may be in any one partition, and in no other beside; leave routing out",
            )
        return self

    def not_asked(self, topics: TopicSpecs) -> Mapping[str, str]:
        compacted = self.topic in topics and topics[self.topic].is_compacted
        return dict.fromkeys(NOT_OF_COMPACTED, OF_COMPACTED) if compacted else {}
