"""Faults of Spark's processes."""

from typing import Literal

from chaos.scenario.faults.base import FaultBase
from chaos.scenario.targets import Executors, ExecutorTarget


class CrashExecutor(FaultBase):
    """Executors of the pipeline die by SIGKILL; Spark replaces them."""

    kind: Literal["crash_executor"]
    target: Executors = ExecutorTarget("busiest")

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"crash_executor {self.target}"
