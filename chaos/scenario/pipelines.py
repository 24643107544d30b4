"""Pipelines under test, as they are declared; their programs are in the package `pipelines`."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, StringConstraints, field_validator, model_validator

from chaos.grammar.base import Declared
from chaos.grammar.units import SomeSeconds
from chaos.runtime.capabilities import Capability
from pipelines.command.pipeline import check, placeholders

_IN_GROUP = frozenset({Capability.PIPELINE, Capability.CONSUMER_GROUP})
_ON_SPARK = frozenset({Capability.PIPELINE, Capability.SPARK, Capability.CHECKPOINT})
_EXACTLY_ONCE = frozenset({Capability.CONSUMER_GROUP, Capability.PYTHON_WORKERS, Capability.COMMITTING_TASKS})

Records = Annotated[int, Field(strict=True, ge=1)]


class SparkSquarePipeline(Declared):
    """Spark Structured Streaming: datasource -> square -> datasink.

    With ``speculation``, a task that takes much longer than the others is started a second time on another worker.
    """

    kind: Literal["spark_square"]
    delivery: Literal["exactly_once", "at_least_once"] = "exactly_once"
    batch_records: Records = 3000
    speculation: Annotated[bool, Field(strict=True)] = False

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What this pipeline offers to faults."""
        return _ON_SPARK | (_EXACTLY_ONCE if self.delivery == "exactly_once" else frozenset())


class FillSourcePipeline(Declared):
    """Only the loader: the source topic is judged against the loader's ledger of acknowledgements.

    ``batch_records: 1`` puts one record into each request, and ``in_flight: 1`` waits for its answer, so that the counts of
    anomalies are exact.
    """

    kind: Literal["fill_source"]
    idempotence: Annotated[bool, Field(strict=True)] = True
    acks: Literal["all", 1] = "all"
    batch_records: Records | None = None
    in_flight: Annotated[int, Field(strict=True, ge=1, le=5)] = 5

    @property
    def capabilities(self) -> frozenset[Capability]:
        """None: the loader offers nothing that a fault may need."""
        return frozenset()

    @model_validator(mode="after")
    def _idempotent_needs_all(self) -> Self:
        if self.idempotence and self.acks != "all":
            raise ValueError("an idempotent producer needs acks: all; write that, or idempotence: false")
        return self


class ConsumeTransformProducePipeline(Declared):
    """A transactional application without Spark; `pipelines.transactional.pipeline` explains the fields."""

    kind: Literal["consume_transform_produce"]
    delivery: Literal["exactly_once", "at_least_once", "at_most_once"] = "exactly_once"
    workers: Annotated[int, Field(strict=True, ge=1, le=9)] = 3
    batch_records: Records = 500
    interval_s: SomeSeconds = Field(alias="interval", default=0.1)
    transaction_failure_probability: Annotated[float, Field(ge=0, le=1)] = 0.0
    producer_per: Literal["unanswered", "process"] = "unanswered"
    auto_offset_reset: Literal["error", "earliest", "latest"] = "error"
    socket_timeout_s: SomeSeconds = Field(alias="socket_timeout", default=3.0)
    transaction_timeout_s: SomeSeconds = Field(alias="transaction_timeout", default=20.0)
    session_timeout_s: SomeSeconds = Field(alias="session_timeout", default=6.0)

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What this pipeline offers to faults."""
        return _IN_GROUP


def _placed(text: Any) -> Any:
    if isinstance(text, str):
        check(text)
    return text


Word = Annotated[str, StringConstraints(min_length=1), BeforeValidator(_placed)]


class CommandPipeline(Declared):
    """Any command that copies one topic to the other; `pipelines.command.pipeline` explains the fields and placeholders."""

    kind: Literal["command"]
    run: Annotated[tuple[Word, ...], Field(min_length=1)]
    group: Word
    model: Literal["identity", "square"] = "identity"
    transactional_ids: tuple[Word, ...] = ()
    restarts: Annotated[int, Field(strict=True, ge=0, le=100)] = 3
    repeat: Annotated[bool, Field(strict=True)] = False

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What this pipeline offers to faults."""
        return _IN_GROUP

    @field_validator("group")
    @classmethod
    def _one_group(cls, group: str) -> str:
        if "partition" in placeholders(group):
            raise ValueError("the group must not contain {partition}: its positions in all partitions are read at once")
        return group


Pipeline = Annotated[
    SparkSquarePipeline | FillSourcePipeline | ConsumeTransformProducePipeline | CommandPipeline, Field(discriminator="kind")
]
