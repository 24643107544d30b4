"""Faults of links."""

from typing import Literal

from pydantic import Field

from chaos.scenario.declared import Stream
from chaos.scenario.faults.base import LinkFault
from chaos.scenario.units import Seconds, SomeSeconds, spoken_seconds

_STREAMS = {"up": "upstream", "down": "downstream", "both": "both ways"}


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
