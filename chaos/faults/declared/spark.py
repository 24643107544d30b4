"""Faults of Spark's processes: executors, their Python, workers, the master.

::

    master ── worker-1 ── executor JVM ── pyspark.daemon ─┬─ Python worker   (a task of the sink runs here)
           └─ worker-2 ── …                               └─ Python worker
"""

from typing import Literal

from pydantic import Field

from chaos.faults.declared.base import FaultBase
from chaos.grammar.targets import Executors, ExecutorTarget, Workers, WorkerTarget
from chaos.grammar.units import Seconds, SomeSeconds, spoken_seconds

BUSIEST = ExecutorTarget("busiest")


class ExecutorFault(FaultBase):
    """A fault of executors of the pipeline."""

    target: Executors = BUSIEST


class PythonFault(ExecutorFault):
    """A fault of the Python processes of executors."""


class CrashExecutor(ExecutorFault):
    """Executors of the pipeline die by SIGKILL; Spark replaces them."""

    kind: Literal["crash_executor"]

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"crash_executor {self.target}"


class PauseExecutor(ExecutorFault):
    """Executor JVMs are frozen by SIGSTOP, past their heartbeat or not, and wake up again."""

    kind: Literal["pause_executor"]
    for_s: SomeSeconds = Field(alias="for")

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"pause_executor {self.target} for {spoken_seconds(self.for_s)}"


class CrashPythonWorker(PythonFault):
    """The Python workers of executors die by SIGKILL in the middle of their tasks; their JVMs live on."""

    kind: Literal["crash_python_worker"]

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"crash_python_worker of {self.target}"


class CrashPythonDaemon(PythonFault):
    """``pyspark.daemon`` of executors dies by SIGKILL; its workers live on, their JVM makes another one when it needs it."""

    kind: Literal["crash_python_daemon"]

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"crash_python_daemon of {self.target}"


class PausePythonWorker(PythonFault):
    """The Python workers of executors are frozen by SIGSTOP: their tasks hang, and with ``speculation: true`` are copied."""

    kind: Literal["pause_python_worker"]
    for_s: SomeSeconds = Field(alias="for")

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"pause_python_worker of {self.target} for {spoken_seconds(self.for_s)}"


class ZombieExecutor(PythonFault):
    """Python workers are frozen, their JVM dies, retried tasks commit, and the workers wake up: producers of an old epoch."""

    kind: Literal["zombie_executor"]
    for_s: SomeSeconds = Field(alias="for")

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"zombie_executor {self.target}, woken up after {spoken_seconds(self.for_s)}"


class CrashWorker(FaultBase):
    """Spark workers die by SIGKILL, their executors with them, and are started again."""

    kind: Literal["crash_worker"]
    target: Workers = WorkerTarget("any")
    restart_after_s: Seconds = Field(alias="restart_after", default=2.0)

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"crash_worker {self.target}, restarted after {spoken_seconds(self.restart_after_s)}"


class CrashMaster(FaultBase):
    """Spark's master dies by SIGKILL and is started again, with what it had written down (its recovery directory) or without.

    Without, it knows no application: the workers are told to end its executors, and none is started for it again. That is
    a standalone master as it comes (``spark.deploy.recoveryMode=NONE``); the driver is started again then.
    """

    kind: Literal["crash_master"]
    state: Literal["kept", "lost"] = "kept"
    restart_after_s: Seconds = Field(alias="restart_after", default=2.0)

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"crash_master, its state {self.state}, restarted after {spoken_seconds(self.restart_after_s)}"


OF_SPARK = (ExecutorFault, CrashWorker, CrashMaster)
