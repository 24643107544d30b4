"""What programs have in common whose positions are in a consumer group: those of `command` and of `container`."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from chaos.grammar.base import Problem, WrongValueError
from chaos.grammar.units import SomeSeconds
from chaos.runtime.capabilities import Capability
from chaos.scenario import expected as said
from chaos.scenario.expected import Expected, HowManyRows
from chaos.scenario.pipelines.base import Delivery, Kind, Model, Restarts, Word, parts_missing
from chaos.scenario.rows import Written
from chaos.scenario.texts import Template
from chaos.scenario.topics import Reads, TopicSink
from chaos.subject.placeholders import names_in

_IN_GROUP = frozenset({Capability.PIPELINE, Capability.CONSUMER_GROUP, Capability.GROUP_MEMBERS})


class ProgramInGroup(Kind):
    """A program whose positions are in a consumer group, if it has any.

    Attributes:
        kind: which kind of pipeline it is.
        reads: topics; of several, the workload fills one or more, and the others stay empty.
        sink: where it writes.
        group: the consumer group that holds its positions; it is needed, unless there are none.
        positions: ``none`` if it has none that can be asked for; in place of ``group``.
        delivery: what it promises: ``exactly_once``, ``at_least_once`` or ``at_most_once``. A pipeline that promises at most
            once may commit a position before its rows are there (`precedence`).
        model: what it makes of a value, by name: the same, which is the default, or its square.
        expected: what the sink must hold, in place of ``model``: ``source`` (a copy), or by a query or a function; or
            ``transactions``, where that is not said.
        rows_per_record: how many rows of the sink one record makes, at least and at most, or always; with it, transactions are
            asked too, also beside a model.
        timers: true if it writes rows that no record causes, by a timer or when a window closes by the clock; then transactions
            may write rows without moving a position, and more rows than their records make.
        identity: SQL over ``key`` and ``value``, beside the key: a row with both of a row that is expected, and not its value,
            is a wrong value. The default is the key alone.
        keeps_headers: false if it does not promise to copy the headers of a record; then they are not compared.
        transactional_ids: by source partition, or one with ``{partition}`` in it, for ``transaction_coordinator``; without them
            that is the coordinator of the id that was on the wire last.
        restarts: how often a copy that ended with an error is started again.
        environment: variables of the command.
        transactions: false if it uses none; then no fault may wait for their requests.
        speaks: what it reports on its standard output (docs/adapters.md).
        session_timeout_s: after which its group excludes a member that is silent, for ``outlasts`` of a pause.
        transaction_timeout_s: after which the coordinator aborts its transaction, for ``outlasts`` of a pause.
    """

    client: ClassVar[str] = "app"
    has_instances: ClassVar[bool] = True

    kind: str
    reads: Reads
    sink: TopicSink
    group: Annotated[Word | Literal[""], Template()] = ""
    positions: Literal["none"] | None = None
    delivery: Delivery = "exactly_once"
    model: Model | None = None
    expected: Expected | None = None
    rows_per_record: HowManyRows | None = None
    timers: Annotated[bool, Field(strict=True)] = False
    identity: Written | None = None
    keeps_headers: Annotated[bool, Field(strict=True)] = True
    transactional_ids: tuple[Annotated[Word, Template(more=("partition",))], ...] = ()
    restarts: Restarts = 3
    environment: dict[str, Annotated[Word, Template()]] = Field(default_factory=dict)
    transactions: Annotated[bool, Field(strict=True)] = True
    speaks: tuple[Literal["started", "transactions", "deliveries"], ...] = ()
    session_timeout_s: SomeSeconds | None = Field(alias="session_timeout", default=None)
    transaction_timeout_s: SomeSeconds | None = Field(alias="transaction_timeout", default=None)

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

    def missing(self, folder: Path) -> Iterator[Problem]:
        return parts_missing(self.runs_in, self.expected, folder)

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
