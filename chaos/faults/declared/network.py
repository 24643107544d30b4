"""Faults of links."""

from typing import Literal, Self

from pydantic import Field, model_validator

from chaos.faults.declared.base import LinkFault
from chaos.grammar.base import Stream
from chaos.grammar.units import Seconds, Size, SomeSeconds, Speed, spoken_seconds, text_of_size, text_of_speed

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


class ResetLink(LinkFault):
    """Every connection of a link, and every new one, is reset (RST) as soon as its client says something."""

    kind: Literal["reset_link"]

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"reset_link {self.link} {self.lasts}"


class ThrottleLink(LinkFault):
    """A link is slow: each of its connections passes so many KB/s in each direction meant, and no more."""

    kind: Literal["throttle_link"]
    rate_kb_per_s: Speed = Field(alias="rate")
    stream: Stream = "both"

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"throttle_link {self.link} to {text_of_speed(self.rate_kb_per_s)}, {_STREAMS[self.stream]}, {self.lasts}"


class SliceLink(LinkFault):
    """What passes a link arrives in small pieces, with time between them: frames end in the middle of a read."""

    kind: Literal["slice_link"]
    size_bytes: Size = Field(alias="size", le=1000)
    every_s: SomeSeconds = Field(alias="every", default=0.001, le=0.1)
    stream: Stream = "both"

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        pieces = f"pieces of {text_of_size(self.size_bytes)}, one every {spoken_seconds(self.every_s)}"
        return f"slice_link {self.link} into {pieces}, {_STREAMS[self.stream]}, {self.lasts}"


class CutAfterBytes(LinkFault):
    """Each connection of a link is closed once so many bytes have passed it in a direction meant: in the middle of a frame."""

    kind: Literal["cut_after_bytes"]
    size_bytes: Size = Field(alias="bytes")
    stream: Stream = "both"

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"cut_after_bytes {self.link}, after {text_of_size(self.size_bytes)}, {_STREAMS[self.stream]}, {self.lasts}"


class FlappingLink(LinkFault):
    """A link is down for the first half of every period, and up for the second."""

    kind: Literal["flapping_link"]
    period_s: SomeSeconds = Field(alias="period", ge=0.2)

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"flapping_link {self.link}, down and up within {spoken_seconds(self.period_s)}, {self.lasts}"

    @model_validator(mode="after")
    def _flaps(self) -> Self:
        if self.for_s < 2 * self.period_s:
            raise ValueError(
                f"`for` is shorter than two periods: a link that goes down once is cut_link; write at least "
                f"for: {spoken_seconds(2 * self.period_s).replace(' ', '')}"
            )
        return self
