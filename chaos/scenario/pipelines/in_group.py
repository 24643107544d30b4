"""Keys and checks of programs with positions in a consumer group: `command` and `container`."""

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from chaos.contract.placeholders import names_in
from chaos.grammar.base import Problem, WrongValueError
from chaos.grammar.units import SomeSeconds
from chaos.runtime.capabilities import Capability
from chaos.scenario import expected as said
from chaos.scenario.pipelines.base import Word
from chaos.scenario.pipelines.program import Program, Restarts
from chaos.scenario.sinks import TopicSink
from chaos.scenario.texts import Template

_IN_GROUP = frozenset({Capability.PIPELINE, Capability.CONSUMER_GROUP, Capability.GROUP_MEMBERS})
Variables = dict[str, Annotated[Word, Template()]]


class ProgramInGroup(Program):
    """A program with positions in a consumer group, or with none."""

    client: ClassVar[str] = "app"
    has_instances: ClassVar[bool] = True

    sink: TopicSink
    """the topic that it writes."""
    group: Annotated[Word | Literal[""], Template()] = ""
    """the consumer group that holds its positions; required, unless there are none."""
    positions: Literal["none"] | None = None
    """``none`` if it has no positions that can be read; in place of ``group``."""
    transactional_ids: tuple[Annotated[Word, Template(more=("partition",))], ...] = ()
    """its transactional ids by source partition, or one with ``{partition}`` in it, for the target
    ``transaction_coordinator``; without them, the target is the coordinator of the id that was last on the wire.
    """
    restarts: Restarts = 3
    """the number of times that a copy is started again after it has ended with an error."""
    environment: Variables = Field(default_factory=dict)
    """environment variables of the command."""
    speaks: tuple[Literal["started", "transactions", "deliveries"], ...] = ()
    """the kinds of reports on its standard output (docs/adapters.md)."""
    session_timeout_s: SomeSeconds | None = Field(alias="session_timeout", default=None)
    """the silence after which its group excludes a member, for ``outlasts`` of a pause."""
    transaction_timeout_s: SomeSeconds | None = Field(alias="transaction_timeout", default=None)
    """the time after which the coordinator aborts its transaction, for ``outlasts`` of a pause."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        return _IN_GROUP if self.has_positions else frozenset({Capability.PIPELINE})

    @property
    def has_positions(self) -> bool:
        return self.positions is None

    @property
    def statements(self) -> frozenset[str]:
        return frozenset(self.speaks)

    @property
    def timeouts(self) -> Mapping[str, float]:
        declared = {"session_timeout": self.session_timeout_s, "transaction_timeout": self.transaction_timeout_s}
        return {name: seconds for name, seconds in declared.items() if seconds is not None}

    @property
    def says_started(self) -> bool:
        """Whether it reports ``started`` itself, when it is ready and not only begun. Only then are its events believed."""
        return "started" in self.speaks

    def problems(self) -> Iterator[Problem]:
        return said.of_pipeline(self)

    @field_validator("group")
    @classmethod
    def _one_group(cls, group: str) -> str:
        if "partition" in names_in(group):
            raise WrongValueError(
                "group-with-partition",
                "the group must not contain {partition}: its positions in all partitions are read at once",
            )
        return group

    @model_validator(mode="after")
    def _positions_are_somewhere(self) -> Self:
        if self.has_positions and not self.group:
            raise WrongValueError(
                "positions-nowhere", "group is missing; name the consumer group of its positions, or write positions: none"
            )
        if self.group and not self.has_positions:
            raise WrongValueError(
                "positions-denied",
                "group and positions: none contradict each other; leave one of them out",
            )
        return self
