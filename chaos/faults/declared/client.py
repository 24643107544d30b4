"""Faults of the pipeline itself, of its consumer group, and of the company it keeps in the sink."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from chaos.faults.declared.base import FaultBase, LastingFault
from chaos.grammar.units import Seconds, SomeSeconds, spoken_seconds

_LONGEST_TRANSACTION_S = 900.0  # transaction.max.timeout.ms


def _allowed(value: float) -> float:
    if value > _LONGEST_TRANSACTION_S:
        raise ValueError("brokers allow no transaction to be open for longer than 15m")
    return value


class CrashPipeline(FaultBase):
    """The pipeline's process dies by SIGKILL (the driver, where it runs on Spark), and is started again."""

    kind: Literal["crash_pipeline"]
    restart_after_s: Seconds = Field(alias="restart_after", default=1.0)

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"crash_pipeline, restarted after {spoken_seconds(self.restart_after_s)}"


class PausePipeline(FaultBase):
    """The pipeline's processes are frozen by SIGSTOP, past its session and transaction timeouts or not, and wake up again."""

    kind: Literal["pause_pipeline"]
    for_s: SomeSeconds = Field(alias="for")

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"pause_pipeline for {spoken_seconds(self.for_s)}"


class ZombiePipeline(FaultBase):
    """The pipeline is frozen, a second instance with the same names takes over, and the first wakes up as a zombie."""

    kind: Literal["zombie_pipeline"]
    for_s: SomeSeconds = Field(alias="for")

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"zombie_pipeline, woken up after {spoken_seconds(self.for_s)}"


class RebalanceStorm(LastingFault):
    """Members join the pipeline's consumer group and leave it again, over and over: each of them is a new generation."""

    kind: Literal["rebalance_storm"]
    every_s: SomeSeconds = Field(alias="every", default=1.0)

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"rebalance_storm every {spoken_seconds(self.every_s)} {self.lasts}"


class DeleteGroupOffsets(FaultBase):
    """The pipeline dies, its consumer group's offsets are deleted, and it is started again.

    With ``repair: seeded`` the positions are put back from outside before it starts, as from a backup.
    """

    kind: Literal["delete_group_offsets"]
    repair: Literal["none", "seeded"] = "none"
    restart_after_s: Seconds = Field(alias="restart_after", default=1.0)

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        repaired = ", then put back" if self.repair == "seeded" else ""
        return f"delete_group_offsets{repaired}, restarted after {spoken_seconds(self.restart_after_s)}"


class HangingTransaction(LastingFault):
    """A stranger's transaction is open in the sink: nobody reads committed rows beyond it, until it ends.

    It is aborted after ``for``, or left ``open``: then only the broker ends it, after ``transaction_timeout``.
    """

    kind: Literal["hanging_transaction"]
    partition: Annotated[int, Field(strict=True, ge=0, le=2)] = 0
    transaction_timeout_s: Annotated[SomeSeconds, AfterValidator(_allowed)] = Field(alias="transaction_timeout", default=600.0)
    end: Literal["aborted", "open"] = "aborted"

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        end = ", then aborted" if self.end == "aborted" else ", never ended"
        return f"hanging_transaction in datasink-{self.partition} {self.lasts}{end}"


OF_GROUP = (RebalanceStorm, DeleteGroupOffsets)
OF_PIPELINE = (CrashPipeline, PausePipeline, ZombiePipeline, *OF_GROUP, HangingTransaction)
