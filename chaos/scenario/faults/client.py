"""Faults of the pipeline itself."""

from typing import Literal

from pydantic import Field

from chaos.scenario.faults.base import FaultBase
from chaos.scenario.units import Seconds, SomeSeconds, spoken_seconds


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
