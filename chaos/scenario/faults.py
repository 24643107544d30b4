"""Faults, as they are declared. To add one: docs/adding-a-fault.md."""

from typing import Annotated, Literal

from pydantic import Field

from chaos.scenario.declared import Declared, FaultName, Stream
from chaos.scenario.moments import When
from chaos.scenario.targets import Broker, BrokerTarget, Executors, ExecutorTarget, Links
from chaos.scenario.units import Seconds, SomeSeconds, spoken_seconds

_STREAMS = {"up": "upstream", "down": "downstream", "both": "both ways"}


class FaultBase(Declared):
    """What all faults have."""

    name: FaultName = ""
    when: When

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        raise NotImplementedError


class LinkFault(FaultBase):
    """A fault of links, for a declared time, or until another fault of the scenario was proved, if that comes first."""

    link: Links
    for_s: SomeSeconds = Field(alias="for")
    until: FaultName | None = None

    @property
    def lasts(self) -> str:
        """How long, in words."""
        return f"for {spoken_seconds(self.for_s)}" + (f" or until {self.until} is proved" if self.until else "")


class CutLink(LinkFault):
    """Listener and connections of a link are closed: its clients learn at once."""

    kind: Literal["cut_link"]

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"cut_link {self.link} {self.lasts}"


class BlackholeLink(LinkFault):
    """A link swallows bytes: its clients learn by their own timeouts."""

    kind: Literal["blackhole_link"]
    stream: Stream = "both"

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"blackhole_link {self.link}, {_STREAMS[self.stream]}, {self.lasts}"


class DelayLink(LinkFault):
    """Everything on a link arrives later."""

    kind: Literal["delay_link"]
    latency_s: SomeSeconds = Field(alias="latency")
    jitter_s: Seconds = Field(alias="jitter", default=0.0)
    stream: Stream = "both"

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        jitter = f" ± {spoken_seconds(self.jitter_s)}" if self.jitter_s else ""
        late = f"{spoken_seconds(self.latency_s)}{jitter}"
        return f"delay_link {self.link} by {late}, {_STREAMS[self.stream]}, {self.lasts}"


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


class CrashExecutor(FaultBase):
    """Executors of the pipeline die by SIGKILL; Spark replaces them."""

    kind: Literal["crash_executor"]
    target: Executors = ExecutorTarget("busiest")

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"crash_executor {self.target}"


Fault = Annotated[CutLink | BlackholeLink | DelayLink | KillBroker | PauseBroker | CrashExecutor, Field(discriminator="kind")]


def broker_targets(fault: Fault) -> list[BrokerTarget]:
    """The broker targets that a fault names."""
    if isinstance(fault, LinkFault):
        return [end for end in (fault.link.left, fault.link.right) if isinstance(end, BrokerTarget)]
    return [fault.target] if isinstance(fault, KillBroker | PauseBroker) else []
