"""The grammar of `workload`: which records loaders write to which topics."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from chaos.grammar.base import Declared, WrongValueError
from chaos.grammar.units import PerSecond
from chaos.scenario.rows import Rows
from chaos.scenario.topics import TopicName

Records = Annotated[int, Field(strict=True, ge=1)]


class Producer(Declared):
    """Settings of the loader's producer.

    With ``batch_records: 1`` and ``in_flight: 1`` the counts of anomalies are exact.
    """

    idempotence: Annotated[bool, Field(strict=True)] = True
    """whether brokers drop a record that a retry sends again; it needs ``acks: all``."""
    acks: Literal["all", 1] = "all"
    """which replicas must have a record before it is acknowledged: all in-sync replicas, or the leader alone."""
    batch_records: Records | None = None
    """the number of records in one request; the default is as many as come within 50 ms."""
    in_flight: Annotated[int, Field(strict=True, ge=1, le=5)] = 5
    """the number of requests that may be unanswered on one connection."""
    transaction_records: Records | None = None
    """the number of records in a transaction; without it, the loader uses no transactions."""

    @model_validator(mode="after")
    def _idempotent_needs_all(self) -> Self:
        if self.idempotence and self.acks != "all":
            raise WrongValueError(
                "idempotence-without-acks", "an idempotent producer needs acks: all; write that, or idempotence: false"
            )
        if self.transaction_records and not self.idempotence:
            raise WrongValueError(
                "transactions-without-idempotence",
                "transaction_records needs idempotence: true and acks: all; write both, or leave transaction_records out",
            )
        return self


class Filling(Declared):
    """The records that a loader writes to one topic."""

    into: TopicName | Literal[""] = ""
    """the topic."""
    records: Annotated[int, Field(strict=True, ge=1, le=10_000_000)] = 30_000
    """the number of records; without it, all rows that the file, function or generator of ``rows`` has."""
    rate_per_s: PerSecond = Field(alias="rate", default=3000.0)
    """the number of records in a second."""
    refused: Annotated[int, Field(strict=True, ge=0, le=10_000_000)] = 0
    """the number of records that brokers reject for good, for example because they are too large. If they reject another
    number, the workload was not the declared one, and the run is UNKNOWN.
    """
    producer: Producer = Producer()
    """settings of the producer."""
    rows: Rows | None = None
    """the content of the records; the default is the integers 0, 1, 2, …, as keys and values, with id i in partition i mod the
    number of partitions.
    """

    @model_validator(mode="after")
    def _some_are_written(self) -> Self:
        if self.refused >= self.records and self.wanted is not None:
            raise WrongValueError(
                "all-refused",
                f"refused: {self.refused} of {self.records} records leaves no record to write; write a smaller number",
            )
        return self

    @model_validator(mode="after")
    def _of_user_loader(self) -> Self:
        if self.rows is None or not self.rows.SENDS_ITSELF:
            return self
        if "records" not in self.model_fields_set:
            raise WrongValueError(
                "own-loader-without-records",
                "records is missing: the run must know how many rows: {command: …} sends; write e.g. records: 20000",
            )
        if self.producer != Producer():
            raise WrongValueError(
                "own-loader-with-producer",
                "producer configures the built-in loader, but rows: {command: …} replaces it; leave producer out",
            )
        return self

    @property
    def wanted(self) -> int | None:
        """The required number of the user's rows; None if a file, a function or a generator decides it."""
        leaves_open = self.rows is not None and self.rows.KNOWS_COUNT and "records" not in self.model_fields_set
        return None if leaves_open else self.records

    def below(self, folder: Path) -> Self:
        """Resolve paths, and take the number of records from a file if none is declared."""
        if self.rows is None:
            return self
        rows = self.rows.below(folder)
        count = rows.count() if self.wanted is None else None
        return self.model_copy(update={"rows": rows, **({"records": count} if count else {})})

    @property
    def sending_s(self) -> float:
        """Seconds for sending the records if nothing is broken."""
        return self.records / self.rate_per_s


class AlsoFilled(Filling):
    """The records that a further loader writes, at the same time, to another topic that the pipeline reads."""

    into: TopicName
    """the topic; it must differ from the topics that are listed before it."""


class Workload(Filling):
    """The records that the loader writes to the source topic, and further loaders to other topics."""

    into: TopicName | Literal[""] = ""
    """the topic; it may be left out if the pipeline reads one topic or, with ``pipeline: none``, if the file declares one."""
    also: tuple[AlsoFilled, ...] = ()
    """further topics that the pipeline reads. A loader with a ledger of its own fills each at the same time, and all topics
    together decide what the sink must hold.
    """

    @property
    def fillings(self) -> tuple[Filling, ...]:
        """The filling of each topic."""
        return (self, *self.also)

    @property
    def has_user_loader(self) -> bool:
        """Whether a user's program fills one of the topics, so that its records are not known beforehand."""
        return any(one.rows is not None and one.rows.SENDS_ITSELF for one in self.fillings)

    @property
    def may_use_transactions(self) -> bool:
        """Whether a loader may write in transactions; a user's program always may."""
        return self.has_user_loader or any(one.producer.transaction_records for one in self.fillings)

    @property
    def total(self) -> int:
        """The number of records in all topics."""
        return sum(one.records for one in self.fillings)

    @property
    def loading_s(self) -> float:
        """Seconds for loading if nothing is broken; all loaders work at once."""
        return max(one.sending_s for one in self.fillings)

    def sending(self, records: Iterable[int]) -> Self:
        """Return this workload with these numbers of records, one for each topic."""
        own, *others = records
        also = tuple(one.model_copy(update={"records": count}) for one, count in zip(self.also, others, strict=True))
        return self.model_copy(update={"records": own, "also": also})

    def below(self, folder: Path) -> Self:
        """Resolve paths, and take the number of records from files where none is declared."""
        return super().below(folder).model_copy(update={"also": tuple(one.below(folder) for one in self.also)})
