"""Faults of brokers that only a container makes possible: its network, its processors, its memory, its disk.

Where there is no container they are refused when the file is read, with what comes next to them there.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from chaos.faults.declared.base import FaultBase, LastingFault
from chaos.grammar.targets import Broker
from chaos.grammar.units import Seconds, Size, spoken_seconds, text_of_size

Cpus = Annotated[float, Field(ge=0.01, le=4)]


class Disconnect(LastingFault):
    """A broker's machine is taken off the network: packets to it vanish, the first of a connection too, and nobody is told."""

    needs: ClassVar[str] = "containers"
    because: ClassVar[str] = "here a broker has no network of its own; partition_network breaks its links"
    kind: Literal["disconnect"]
    target: Broker

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"disconnect {self.target} {self.lasts}"


class Freeze(LastingFault):
    """Brokers are taken off the processor by the kernel (cgroup freezer): a SIGSTOP that leaves no trace in their state."""

    needs: ClassVar[str] = "containers"
    because: ClassVar[str] = "here a broker has no control group of its own; pause_broker stops it by SIGSTOP"
    kind: Literal["freeze"]
    target: Broker

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"freeze {self.target} {self.lasts}"


class OutOfMemory(FaultBase):
    """A broker's memory is limited to less than it needs, until the kernel kills it; it is started again without the limit."""

    needs: ClassVar[str] = "containers"
    because: ClassVar[str] = "here a broker shares the memory of the whole machine; kill_broker ends it as suddenly"
    kind: Literal["out_of_memory"]
    target: Broker
    restart_after_s: Seconds = Field(alias="restart_after", default=3.0)

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"out_of_memory on {self.target}, restarted after {spoken_seconds(self.restart_after_s)}"


class LimitCpu(LastingFault):
    """Brokers get a share of a processor only, e.g. ``cpus: 0.1``: they answer late, as on a machine that others keep busy."""

    needs: ClassVar[str] = "containers"
    because: ClassVar[str] = "here a broker has no control group of its own; delay_link makes its answers late"
    kind: Literal["limit_cpu"]
    target: Broker
    cpus: Cpus

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"limit_cpu of {self.target} to {self.cpus:g} processors {self.lasts}"


class LimitDisk(FaultBase):
    """A broker comes back on a disk with little room, fills it, and gives up; when it has, it gets its own disk back.

    Unlike `log_dir_full` this is a real ``No space left on device``: the log directory is on a file system of that size.
    """

    needs: ClassVar[str] = "containers"
    because: ClassVar[str] = "here a broker shares the disk of the whole machine; log_dir_full lets no file of it grow"
    kind: Literal["limit_disk"]
    target: Broker
    room_bytes: Size = Field(alias="room", default=500_000)
    restart_after_s: Seconds = Field(alias="restart_after", default=3.0)

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        restarted = f"restarted after {spoken_seconds(self.restart_after_s)}"
        return f"limit_disk of {self.target} to {text_of_size(self.room_bytes)} more, {restarted}"
