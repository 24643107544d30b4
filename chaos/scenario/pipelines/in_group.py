"""What programs have in common whose positions are in a consumer group: those of `command` and of `container`."""

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
    """A program whose positions are in a consumer group, if it has any."""

    client: ClassVar[str] = "app"
    has_instances: ClassVar[bool] = True

    sink: TopicSink
    """where it writes."""
    group: Annotated[Word | Literal[""], Template()] = ""
    """the consumer group that holds its positions; it is needed, unless there are none."""
    positions: Literal["none"] | None = None
    """``none`` if it has none that can be asked for; in place of ``group``."""
    transactional_ids: tuple[Annotated[Word, Template(more=("partition",))], ...] = ()
    """by source partition, or one with ``{partition}`` in it, for ``transaction_coordinator``; without them that is the
    coordinator of the id that was on the wire last.
    """
    restarts: Restarts = 3
    """how often a copy that ended with an error is started again."""
    environment: Variables = Field(default_factory=dict)
    """variables of the command."""
    speaks: tuple[Literal["started", "transactions", "deliveries"], ...] = ()
    """what it reports on its standard output (docs/adapters.md)."""
    session_timeout_s: SomeSeconds | None = Field(alias="session_timeout", default=None)
    """after which its group excludes a member that is silent, for ``outlasts`` of a pause."""
    transaction_timeout_s: SomeSeconds | None = Field(alias="transaction_timeout", default=None)
    """after which the coordinator aborts its transaction, for ``outlasts`` of a pause."""

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
        """Whether it reports ``started`` itself, when it is ready and not only begun. Of no other one are events believed."""
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
                "positions-nowhere", "group is missing: the consumer group that holds its positions; or write positions: none"
            )
        if self.group and not self.has_positions:
            raise WrongValueError(
                "positions-denied",
                "group holds its positions, and positions: none says that there are none; leave one of them out",
            )
        return self
