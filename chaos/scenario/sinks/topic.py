"""A topic: ``{topic: enriched}``."""

from collections.abc import Mapping
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from chaos.grammar.base import Message, WrongValueError
from chaos.scenario.sinks.base import SinkBase
from chaos.scenario.topics import Form, TopicName, TopicSpecs

OF_COMPACTED = "the sink is compacted, so Kafka may have removed rows"
NOT_OF_COMPACTED = ("atomicity", "stability")
"""Verifiers that would misread the removal of rows by compaction."""


class TopicSink(SinkBase):
    """The topic that a pipeline writes."""

    MISPLACED: ClassVar[Mapping[str, Message]] = {
        "routing": Message(
            "routing-of-table", "routing is for the partitions of a topic, but this sink is a table; leave routing out"
        ),
        "as": Message(
            "state-of-table",
            "as: state is for the rows of a topic; the rows of a table are a state anyway; leave `as` out",
        ),
    }

    topic: TopicName
    """one of ``topics``."""
    routing: Literal["same", "any"] | None = None
    """for a topic: ``same`` if a record must keep the number of its partition, ``any`` if the pipeline chooses the partition.
    The default is ``same`` if both topics have the same number of partitions, else ``any``.
    """
    form: Form = Field(alias="as", default="log")
    """for a topic: ``log`` if all rows count, ``state`` if only the last value of each key counts; a null value means that the
    state has no row for the key.
    """

    @model_validator(mode="after")
    def _of_a_log(self) -> Self:
        if self.form == "state" and self.routing is not None:
            raise WrongValueError(
                "routing-of-state",
                "each key of a state is in a single partition, whichever that is; leave routing out",
            )
        return self

    def not_asked(self, topics: TopicSpecs) -> Mapping[str, str]:
        compacted = self.topic in topics and topics[self.topic].is_compacted
        return dict.fromkeys(NOT_OF_COMPACTED, OF_COMPACTED) if compacted else {}
