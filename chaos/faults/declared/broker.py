"""Faults of broker processes and of their disks."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from chaos.faults.declared.base import FaultBase
from chaos.grammar.targets import Broker, BrokerTarget
from chaos.grammar.units import Seconds, SomeSeconds, spoken_seconds


class KillBroker(FaultBase):
    """Brokers die by SIGKILL, and are started again."""

    kind: Literal["kill_broker"]
    target: Broker
    restart_after_s: Seconds = Field(alias="restart_after", default=3.0)

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"kill_broker {self.target}, restarted after {spoken_seconds(self.restart_after_s)}"


class PauseBroker(FaultBase):
    """Brokers are frozen by SIGSTOP, and wake up as zombies."""

    kind: Literal["pause_broker"]
    target: Broker
    for_s: SomeSeconds = Field(alias="for")

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"pause_broker {self.target} for {spoken_seconds(self.for_s)}"


class TerminateBroker(FaultBase):
    """Brokers are asked to end (SIGTERM): they hand over what they lead, flush, and leave; and are started again."""

    kind: Literal["terminate_broker"]
    target: Broker
    restart_after_s: Seconds = Field(alias="restart_after", default=3.0)

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"terminate_broker {self.target}, restarted after {spoken_seconds(self.restart_after_s)}"

    @model_validator(mode="after")
    def _somebody_stays(self) -> Self:
        if self.target.role == "all":
            raise ValueError("the last brokers would wait for minutes for a controller that has ended; write kind: kill_broker")
        return self


class RollingRestart(FaultBase):
    """One broker after the other is ended and started; each is back in sync before the next one's turn."""

    kind: Literal["rolling_restart"]
    how: Literal["kill", "terminate"] = "terminate"
    restart_after_s: Seconds = Field(alias="restart_after", default=0.0)

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        later = f", restarted after {spoken_seconds(self.restart_after_s)}" if self.restart_after_s else ""
        return f"rolling_restart by {self.how}, one broker after the other{later}"


class ChaseLeader(FaultBase):
    """Whoever leads dies, then whoever has followed it, and so on.

    Each victim is started after ``restart_after``, and is back in sync before its successor dies: one broker is down at a time.
    """

    kind: Literal["chase_leader"]
    target: Broker
    times: Annotated[int, Field(strict=True, ge=2, le=10)] = 3
    restart_after_s: Seconds = Field(alias="restart_after", default=1.0)

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"chase_leader {self.target}, {self.times} times, restarted after {spoken_seconds(self.restart_after_s)}"

    @model_validator(mode="after")
    def _is_handed_over(self) -> Self:
        _must_be(self.kind, self.target, ("leader", "transaction_coordinator", "group_coordinator", "controller"))
        return self


class PowerLoss(FaultBase):
    """Brokers die, and with them all that they had not flushed: each log ends at its recovery point."""

    kind: Literal["power_loss"]
    target: Broker
    restart_after_s: Seconds = Field(alias="restart_after", default=3.0)

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"power_loss of {self.target}, restarted after {spoken_seconds(self.restart_after_s)}"


class LogDirFull(FaultBase):
    """No file of a broker can grow any more, as on a full disk; it is started again when there is room."""

    kind: Literal["log_dir_full"]
    target: Broker
    restart_after_s: Seconds = Field(alias="restart_after", default=3.0)

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"log_dir_full on {self.target}, room again after {spoken_seconds(self.restart_after_s)}"


class UncleanElection(FaultBase):
    """The followers fall behind, the leader writes on alone and dies, and one of them becomes leader all the same.

    The partition's guard is taken away for that: its topic gets ``min.insync.replicas=1`` until the heal, or the leader would
    refuse what it alone has, and the followers would stay eligible (KIP-966). What it alone had is lost, acknowledged or not.
    """

    kind: Literal["unclean_election"]
    target: Broker
    restart_after_s: Seconds = Field(alias="restart_after", default=3.0)

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"unclean_election after {self.target} was alone, restarted after {spoken_seconds(self.restart_after_s)}"

    @model_validator(mode="after")
    def _is_of_a_partition(self) -> Self:
        _must_be(self.kind, self.target, ("leader",))
        return self


class PreferLeader(FaultBase):
    """Leadership of a partition moves to another replica by a preferred leader election; nobody dies."""

    kind: Literal["prefer_leader"]
    target: Broker

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"prefer_leader: another replica than {self.target} leads"

    @model_validator(mode="after")
    def _is_of_a_partition(self) -> Self:
        _must_be(self.kind, self.target, ("leader", "transaction_coordinator", "group_coordinator"))
        return self


class ReassignPartition(FaultBase):
    """A replica moves to another broker under load; with three brokers it is thrown away, and built anew at the heal."""

    kind: Literal["reassign_partition"]
    target: Broker
    for_s: SomeSeconds = Field(alias="for")

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"reassign_partition: the replica on {self.target} is elsewhere for {spoken_seconds(self.for_s)}"

    @model_validator(mode="after")
    def _is_of_a_partition(self) -> Self:
        _must_be(self.kind, self.target, ("leader", "follower", "transaction_coordinator", "group_coordinator"))
        return self


def _must_be(kind: str, target: BrokerTarget, roles: tuple[str, ...]) -> None:
    if target.role not in roles:
        raise ValueError(f"{kind} is about a role that somebody has, {target} is none; it can be {' or '.join(roles)}")
