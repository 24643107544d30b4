"""Faults of brokers."""

from typing import Literal

from pydantic import Field

from chaos.scenario.faults.base import FaultBase
from chaos.scenario.targets import Broker
from chaos.scenario.units import Seconds, SomeSeconds, spoken_seconds


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
