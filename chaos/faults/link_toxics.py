"""Faults within the connections of a link: reset, throttled, sliced, cut after so many bytes.

    reset      a connection is reset (RST) as soon as its client sends something (Toxiproxy ``reset_peer``)
    throttle   so many KB/s pass a connection in each direction (``bandwidth``)
    slice      bytes arrive in small pieces with time between them (``slicer``)
    cut after  a connection is closed once so many bytes have passed it (``limit_data``)

The proof is a transfer of our own through each link, and the same past it, straight to the broker: the first must fare as
declared, the second well. Where time decides, the quickest of a few on either side counts: a busy machine can make anything
slow, and nothing quick.

These toxics write to their connection without heeding an interrupt. If one were taken away while its receiver has died, the
API of the whole server would wait for ever (as toxiproxy/delay.go says of ``latency``). So the heal breaks the connections
first, lets them end, and takes the toxics away then: clients do not get a faster connection, but connect anew.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Literal

from pydantic import Field

from chaos.cluster import protocol
from chaos.cluster.addresses import Address
from chaos.cluster.links import Link
from chaos.cluster.protocol import Transfer
from chaos.cluster.toxiproxy import ProxySpec
from chaos.common import clock
from chaos.faults.base import FaultContext, Injection, LinkFault, Proof
from chaos.faults.links import STREAMS, await_traffic, bytes_seen, for_each, heal_each, name_of
from chaos.faults.targets import resolve_links
from chaos.grammar.base import Stream
from chaos.grammar.units import Size, SomeSeconds, Speed, spoken_seconds, text_of_size, text_of_speed
from chaos.runtime.capabilities import Capability

_SETTLE_S = 0.3  # longer than any of these toxics sleeps
_THROTTLED_S = 0.5  # what a transfer over a throttled link is to take
_SLICED_S = 0.1  # and over a sliced one
_LEAST_BYTES = 1000
_MOST_BYTES = 100_000
_PIECES = 4
_EARLY = 0.9  # a transfer that took so much of its time was slow
_DIFFERENCE = 0.5  # and so much slower than the one past the link
_WITHIN_S = 10.0
_ROUNDS = 5
Fares = Callable[[Transfer, Transfer], bool]


class ConnectionFault(LinkFault):
    """A fault of the connections of links, proved by connections of our own."""

    needs = frozenset({Capability.LINKS, Capability.PLAIN_CONNECTIONS})


class ResetLink(ConnectionFault):
    """Every connection of a link, and every new one, is reset (RST) as soon as its client sends something."""

    provokes = "connections that end with RST in the middle of a request"
    proved_by = "a connection of our own was reset, and traffic passed"
    kind: Literal["reset_link"]

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        links, target = resolve_links(self.link, context, rng)
        toxic = Toxics(name_of(self), "reset_peer", "up", {"timeout": 0})
        return DisturbedLinks(target, self.for_s, links, toxic, Trial(1, is_reset), breaks=True)


class ThrottleLink(ConnectionFault):
    """A link is slow: each of its connections passes at most so many KB/s, in one direction or in each."""

    provokes = "requests that take longer than request.timeout.ms to send"
    proved_by = "traffic passed, and a transfer of our own took as long as the rate says"
    kind: Literal["throttle_link"]
    rate_kb_per_s: Speed = Field(alias="rate")
    stream: Stream = "both"

    def describe(self) -> str:
        return f"throttle_link {self.link} to {text_of_speed(self.rate_kb_per_s)}, {STREAMS[self.stream]}, {self.lasts}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        links, target = resolve_links(self.link, context, rng)
        toxic = Toxics(name_of(self), "bandwidth", self.stream, {"rate": self.rate_kb_per_s})
        size = min(_MOST_BYTES, max(_LEAST_BYTES, round(1000 * self.rate_kb_per_s * _THROTTLED_S)))
        trial = Trial(size, slower_by(size / (1000 * self.rate_kb_per_s)), _ROUNDS)
        return DisturbedLinks(f"{target}, {self.stream}", self.for_s, links, toxic, trial)


class SliceLink(ConnectionFault):
    """What passes a link arrives in small pieces with time between them, so that a read ends in the middle of a message."""

    provokes = "readers that get a message in many pieces"
    proved_by = "traffic passed, and a transfer of our own arrived in pieces"
    kind: Literal["slice_link"]
    size_bytes: Size = Field(alias="size", le=1000)
    every_s: SomeSeconds = Field(alias="every", default=0.001, le=0.1)
    stream: Stream = "both"

    def describe(self) -> str:
        pieces = f"pieces of {text_of_size(self.size_bytes)}, one every {spoken_seconds(self.every_s)}"
        return f"slice_link {self.link} into {pieces}, {STREAMS[self.stream]}, {self.lasts}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        links, target = resolve_links(self.link, context, rng)
        attributes = {"average_size": self.size_bytes, "size_variation": 0, "delay": round(1e6 * self.every_s)}
        pieces = max(_PIECES, round(_SLICED_S / self.every_s)) + 1
        trial = Trial(pieces * self.size_bytes, slower_by((pieces - 1) * self.every_s), _ROUNDS)
        toxic = Toxics(name_of(self), "slicer", self.stream, attributes)
        return DisturbedLinks(f"{target}, {self.stream}", self.for_s, links, toxic, trial)


class CutAfterBytes(ConnectionFault):
    """Each connection of a link is closed once so many bytes have passed it: most likely in the middle of a message."""

    provokes = "connections that end in the middle of a message"
    proved_by = "traffic passed, and a transfer of our own of twice that size was cut off"
    kind: Literal["cut_after_bytes"]
    size_bytes: Size = Field(alias="bytes")
    stream: Stream = "both"

    def describe(self) -> str:
        return f"cut_after_bytes {self.link}, after {text_of_size(self.size_bytes)}, {STREAMS[self.stream]}, {self.lasts}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        links, target = resolve_links(self.link, context, rng)
        toxic = Toxics(name_of(self), "limit_data", self.stream, {"bytes": self.size_bytes})
        trial = Trial(2 * self.size_bytes, ends_within(self.size_bytes, down=self.stream != "up"))
        return DisturbedLinks(f"{target}, {self.stream}", self.for_s, links, toxic, trial)


@dataclass(frozen=True, slots=True)
class Toxics:
    """One toxic, as it is put on every link of a fault."""

    name: str
    type: str
    stream: str
    attributes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Trial:
    """A transfer over a link and past it.

    Attributes:
        size: bytes, in each direction that the fault disturbs.
        fares: whether the transfer through the link fared as declared, compared with the one past it.
        rounds: how often it is tried at most, until the quickest through it and the quickest past it fare so.
    """

    size: int
    fares: Fares
    rounds: int = 1


@dataclass(slots=True)
class DisturbedLinks(Injection):
    """Links with a toxic of their connections.

    Attributes:
        breaks: living connections are broken once the toxic is there, because it works on new ones only.
    """

    links: list[Link]
    toxics: Toxics
    trial: Trial
    breaks: bool = False
    bytes_before: int = 0

    def inject(self) -> None:
        for link in self.links:
            link.add(self.toxics.name, self.toxics.type, self.toxics.stream, self.toxics.attributes)
        self.bytes_before = bytes_seen(self.links)
        for link in self.links if self.breaks else ():
            link.cut(self.toxics.name)
            link.mend(self.toxics.name)

    def proof(self) -> Proof:
        """Clients use these links; what we send through each fares as declared, and past it well."""
        missing = await_traffic(self.links, self.bytes_before, self.hold_s)
        if missing:
            return Proof(effective=False, facts={"bytes_seen": 0, **missing})
        passed = bytes_seen(self.links) - self.bytes_before
        tried = for_each(self.links, self._try)
        facts = {"bytes_seen": passed, "trials": {name: facts for name, (_, facts) in tried.items()}}
        return Proof(all(fared for fared, _ in tried.values()), facts)

    def heal(self) -> None:
        """Break the connections, take the toxics away, and let clients connect anew."""
        heal_each(self.links, lambda link: link.cut(self.toxics.name))
        clock.pause(_SETTLE_S)
        heal_each(self.links, lambda link: link.remove(self.toxics.name, self.toxics.stream))
        heal_each(self.links, lambda link: link.mend(self.toxics.name))

    def _try(self, link: Link) -> tuple[bool, Mapping[str, object]]:
        """One transfer in each direction that is disturbed, through a link and past it."""
        facts, all_fared = {}, True
        for way, move in {"up": protocol.upload, "down": protocol.download}.items():
            if self.toxics.stream in (way, "both"):
                transfer = partial(move, size=self.trial.size, within_s=_WITHIN_S)
                through, past, fared = compared(transfer, link.proxies[0], self.trial)
                facts[way] = {"through": through.facts, "past": past.facts}
                all_fared = all_fared and fared
        return all_fared, facts


def compared(move: Callable[[Address], Transfer], proxy: ProxySpec, trial: Trial) -> tuple[Transfer, Transfer, bool]:
    """The quickest transfers through a proxy and past it, and whether they fared as declared."""
    through, past = move(proxy.listen), move(proxy.upstream)
    for _ in range(trial.rounds - 1):
        if trial.fares(through, past):
            break
        through, past = _quicker(through, move(proxy.listen)), _quicker(past, move(proxy.upstream))
    return through, past, past.end == "answered" and trial.fares(through, past)


def is_reset(through: Transfer, _past: Transfer) -> bool:
    """It was accepted, and reset when it sent something."""
    return through.end == "reset" and not through.received


def slower_by(least_s: float) -> Fares:
    """All of it arrives, late, and much later than past the link: on a busy machine everything is late."""

    def fares(through: Transfer, past: Transfer) -> bool:
        late = through.took_s >= _EARLY * least_s and through.took_s - past.took_s >= _DIFFERENCE * least_s
        return late and through.end == "answered"

    return fares


def ends_within(size: int, *, down: bool) -> Fares:
    """It ends before all was answered; where the way down is limited, no more bytes arrived than that."""

    def fares(through: Transfer, _past: Transfer) -> bool:
        return through.end in ("closed", "reset") and not (down and through.received > size)

    return fares


def _quicker(one: Transfer, other: Transfer) -> Transfer:
    """The quicker of two transfers; one that was not answered is never the quicker one."""
    return min(one, other, key=lambda transfer: (transfer.end != "answered", transfer.took_s))
