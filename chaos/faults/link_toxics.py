"""Faults within the connections of a link: reset, throttled, sliced, cut after so many bytes.

    reset      a connection is reset (RST) as soon as its client sends something (Toxiproxy ``reset_peer``)
    throttle   so many KB/s pass a connection in each direction (``bandwidth``)
    slice      bytes arrive in small pieces with time between them (``slicer``)
    cut after  a connection is closed once so many bytes have passed it (``cut_after``, toxiproxy/cut_after.go)

The proof has two parts. First, the clients of the links must have met the toxic: on one link at least they sent or received
enough to be slowed, or enough at once to be sliced, or the toxic closed one of their connections. Second, we make a transfer of
our own through each link, and another past it, straight to the broker: the first must fare as declared, the second well. The
protocol of a service is unknown, so there the first part alone is the proof. Where time decides, the quickest of a few
transfers on either side counts: a busy machine can make anything slow, and nothing quick.

The stock toxics write to their connection without heeding an interrupt. If one were removed while its receiver has died, the
API of the whole server would wait for ever (toxiproxy/delay.go explains this for ``latency``). So the heal breaks the
connections first, lets them end, and then removes the toxics: clients do not get a faster connection, but connect anew.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Literal, NamedTuple

from pydantic import Field

from chaos.cluster import protocol
from chaos.cluster.addresses import Address
from chaos.cluster.links import Link, Traffic
from chaos.cluster.protocol import Transfer
from chaos.cluster.toxiproxy import ProxySpec
from chaos.common import clock
from chaos.faults.base import FaultContext, Injection, LinkFault, Proof, unmet
from chaos.faults.links import STREAMS, for_each, heal_each, name_of, of_brokers
from chaos.faults.targets import resolve_links
from chaos.grammar.base import Stream
from chaos.grammar.units import Size, SomeSeconds, Speed, spoken_seconds, text_of_size, text_of_speed
from chaos.runtime.capabilities import Capability

_SETTLE_S = 0.3  # longer than any of these toxics sleeps
_THROTTLED_S = 0.5  # intended time of a transfer over a throttled link
_SLICED_S = 0.1  # and over a sliced one
_LEAST_BYTES = 1000
_MOST_BYTES = 100_000
_PIECES = 4
_EARLY = 0.9  # share of its time from which a transfer was slow
_DIFFERENCE = 0.5  # and share by which it must be slower than the one past the link
_WITHIN_S = 10.0
_ROUNDS = 5
_CUT_AFTER = "cut_after"
_HELD_UP_S = 0.1  # least time that clients' bytes on a throttled link must take at its rate, in total
Fares = Callable[[Transfer, Transfer], bool]
Way = tuple[str, str]


class ConnectionFault(LinkFault):
    """A fault of the connections of links, proved by connections of our own."""

    needs = frozenset({Capability.LINKS, Capability.PLAIN_CONNECTIONS})


class ResetLink(ConnectionFault):
    """Every connection of a link, and every new one, is reset (RST) as soon as its client sends something."""

    provokes = "connections that end with RST in the middle of a request"
    proved_by = "clients sent bytes, and a connection of our own was reset"
    kind: Literal["reset_link"]

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        links, target = resolve_links(self.link, context, rng)
        toxic = Toxics(name_of(self), "reset_peer", "up", {"timeout": 0})
        return DisturbedLinks(target, self.for_s, links, toxic, Trial(1, is_reset), sent_something(), breaks=True)


class ThrottleLink(ConnectionFault):
    """A link is slow: each of its connections passes at most so many KB/s, in one direction or in each."""

    provokes = "requests that take longer than request.timeout.ms to send"
    proved_by = (
        "in one direction of a link, clients' bytes take a tenth of a second at this rate, and a transfer of our own took the "
        "time that the rate implies"
    )
    kind: Literal["throttle_link"]
    rate_kb_per_s: Speed = Field(alias="rate")
    """the highest speed."""
    stream: Stream = "both"
    """the direction: ``up`` from the opener of a connection, ``down`` towards it."""

    def describe(self) -> str:
        return f"throttle_link {self.link} to {text_of_speed(self.rate_kb_per_s)}, {STREAMS[self.stream]}, {self.lasts}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        links, target = resolve_links(self.link, context, rng)
        toxic = Toxics(name_of(self), "bandwidth", self.stream, {"rate": self.rate_kb_per_s})
        size = min(_MOST_BYTES, max(_LEAST_BYTES, round(1000 * self.rate_kb_per_s * _THROTTLED_S)))
        trial = Trial(size, slower_by(size / (1000 * self.rate_kb_per_s)), _ROUNDS)
        meeting = slowed_by(_HELD_UP_S, self.rate_kb_per_s)
        return DisturbedLinks(f"{target}, {self.stream}", self.for_s, links, toxic, trial, meeting)


class SliceLink(ConnectionFault):
    """The bytes on a link arrive in small pieces with time between them, so that a read ends in the middle of a message."""

    provokes = "readers that get a message in many pieces"
    proved_by = "clients sent or received more at once than one piece, and a transfer of our own arrived in pieces"
    kind: Literal["slice_link"]
    size_bytes: Size = Field(alias="size", le=1000)
    """the size of a piece; 1KB at most."""
    every_s: SomeSeconds = Field(alias="every", default=0.001, le=0.1)
    """the time between two pieces; 100ms at most."""
    stream: Stream = "both"
    """the direction: ``up`` from the opener of a connection, ``down`` towards it."""

    def describe(self) -> str:
        pieces = f"pieces of {text_of_size(self.size_bytes)}, one every {spoken_seconds(self.every_s)}"
        return f"slice_link {self.link} into {pieces}, {STREAMS[self.stream]}, {self.lasts}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        links, target = resolve_links(self.link, context, rng)
        attributes = {"average_size": self.size_bytes, "size_variation": 0, "delay": round(1e6 * self.every_s)}
        pieces = max(_PIECES, round(_SLICED_S / self.every_s)) + 1
        trial = Trial(pieces * self.size_bytes, slower_by((pieces - 1) * self.every_s), _ROUNDS)
        toxic = Toxics(name_of(self), "slicer", self.stream, attributes)
        meeting = larger_than(self.size_bytes)
        return DisturbedLinks(f"{target}, {self.stream}", self.for_s, links, toxic, trial, meeting)


class CutAfterBytes(ConnectionFault):
    """Each connection of a link is closed after so many bytes: most likely in the middle of a message."""

    provokes = "connections that end in the middle of a message"
    proved_by = "the toxic closed a client's connection, and cut off a transfer of our own of twice that size"
    kind: Literal["cut_after_bytes"]
    size_bytes: Size = Field(alias="bytes")
    """the number of bytes that may pass."""
    stream: Stream = "both"
    """the direction: ``up`` from the opener of a connection, ``down`` towards it."""

    def describe(self) -> str:
        return f"cut_after_bytes {self.link}, after {text_of_size(self.size_bytes)}, {STREAMS[self.stream]}, {self.lasts}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        links, target = resolve_links(self.link, context, rng)
        toxic = Toxics(name_of(self), _CUT_AFTER, self.stream, {"bytes": self.size_bytes})
        trial = Trial(2 * self.size_bytes, ends_within(self.size_bytes, down=self.stream != "up"))
        return DisturbedLinks(f"{target}, {self.stream}", self.for_s, links, toxic, trial, was_cut())


class Look(NamedTuple):
    """The traffic of clients on one link in one direction, as the proxy sees it.

    Attributes:
        since: traffic since the injection; lately: since the look before.
        cut: number of connections that the toxic closed.
    """

    since: Traffic
    lately: Traffic
    cut: int


@dataclass(frozen=True, slots=True)
class Meeting:
    """The condition that clients have met a toxic on one link in one direction.

    Attributes:
        reason: the awaited condition, in words.
    """

    reason: str
    happened: Callable[[Look], bool]


@dataclass(frozen=True, slots=True)
class Toxics:
    """The toxic that a fault puts on each of its links."""

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
        rounds: highest number of attempts until the quickest transfer through the link and the quickest past it fare so.
    """

    size: int
    fares: Fares
    rounds: int = 1


@dataclass(slots=True)
class DisturbedLinks(Injection):
    """Links with a toxic of their connections.

    Attributes:
        meeting: the condition that clients must have fulfilled on one of the links at least.
        breaks: whether living connections are broken once the toxic is there, because it works on new ones only.
        before, last: traffic of each way at the injection, and at the last look; a way is a link and a direction.
        met: the ways on which clients met it.
    """

    links: list[Link]
    toxics: Toxics
    trial: Trial
    meeting: Meeting
    breaks: bool = False
    before: dict[Way, Traffic] = field(default_factory=dict)
    last: dict[Way, Traffic] = field(default_factory=dict)
    met: dict[str, Mapping[str, int]] = field(default_factory=dict)

    def inject(self) -> None:
        for link in self.links:
            link.add(self.toxics.name, self.toxics.type, self.toxics.stream, self.toxics.attributes)
        for link in self.links if self.breaks else ():
            link.cut(self.toxics.name)
            link.mend(self.toxics.name)
        self.before = {(link.name, way): link.traffic(way) for link, way in self._ways()}
        self.last = dict(self.before)

    def proof(self) -> Proof:
        """Show that clients met the toxic before we send anything, and that our transfers on each link fare as declared."""
        missing = unmet(self._look, self.hold_s, self.meeting.reason, every_s=0.1, seen=self._totals)
        if missing:
            return Proof(effective=False, facts=missing)
        tried = for_each(of_brokers(self.links), self._try)
        facts = {"clients": self.met, "trials": {name: facts for name, (_, facts) in tried.items()}}
        return Proof(all(fared for fared, _ in tried.values()), facts)

    def heal(self) -> None:
        """Break the connections, remove the toxics, and let clients connect anew."""
        heal_each(self.links, lambda link: link.cut(self.toxics.name))
        clock.pause(_SETTLE_S)
        heal_each(self.links, lambda link: link.remove(self.toxics.name, self.toxics.stream))
        heal_each(self.links, lambda link: link.mend(self.toxics.name))

    def _look(self) -> bool:
        """Look once at every way, and remember the ways on which clients met the toxic."""
        for link, way in self._ways():
            now, name = link.traffic(way), (link.name, way)
            cut = link.connections_cut(self.toxics.name, way) if self.toxics.type == _CUT_AFTER else 0
            look = Look(now.since(self.before[name]), now.since(self.last[name]), cut)
            self.last[name] = now
            if self.meeting.happened(look):
                self.met[f"{link.name} {way}"] = {**look.since._asdict(), **({"cut": cut} if cut else {})}
        return bool(self.met)

    def _totals(self) -> str:
        """Describe the clients' traffic so far."""
        since = (now.since(self.before[way]) for way, now in self.last.items())
        return f"{sum(traffic.bytes for traffic in since)} bytes of clients"

    def _ways(self) -> list[tuple[Link, str]]:
        return [(link, way) for link in self.links for way in ("up", "down") if self.toxics.stream in (way, "both")]

    def _try(self, link: Link) -> tuple[bool, Mapping[str, object]]:
        """Make one transfer in each disturbed direction, through a link and past it."""
        facts, all_fared = {}, True
        for way, move in {"up": protocol.upload, "down": protocol.download}.items():
            if self.toxics.stream in (way, "both"):
                transfer = partial(move, size=self.trial.size, within_s=_WITHIN_S)
                through, past, fared = compared(transfer, link.proxies[0], self.trial)
                facts[way] = {"through": through.facts, "past": past.facts}
                all_fared = all_fared and fared
        return all_fared, facts


def compared(move: Callable[[Address], Transfer], proxy: ProxySpec, trial: Trial) -> tuple[Transfer, Transfer, bool]:
    """Return the quickest transfers through a proxy and past it, and whether they fared as declared."""
    through, past = move(proxy.listen), move(proxy.upstream)
    for _ in range(trial.rounds - 1):
        if trial.fares(through, past):
            break
        through, past = _quicker(through, move(proxy.listen)), _quicker(past, move(proxy.upstream))
    return through, past, past.end == "answered" and trial.fares(through, past)


def sent_something() -> Meeting:
    """Require any byte of a client: it resets its connection."""
    return Meeting("a client to send bytes", lambda look: look.since.bytes > 0)


def slowed_by(least_s: float, rate_kb_per_s: int) -> Meeting:
    """Require bytes that take this long at this rate: the ``bandwidth`` toxic holds up every byte."""
    least = round(least_s * 1000 * rate_kb_per_s)
    return Meeting(f"{least} bytes of clients in one direction of a link", lambda look: look.since.bytes >= least)


def larger_than(size: int) -> Meeting:
    """Require so many bytes in so few chunks that one is larger than a piece; a chunk may come between the two counters."""
    return Meeting(
        f"a client to send or receive more than {size} bytes at once",
        lambda look: look.lately.bytes > size * (look.lately.chunks + 1),
    )


def was_cut() -> Meeting:
    """Require a cut that the toxic itself has counted: a connection may end for many reasons."""
    return Meeting("the connection of a client to reach its limit", lambda look: look.cut > 0)


def is_reset(through: Transfer, _past: Transfer) -> bool:
    """Whether the connection was accepted, and reset when it sent bytes."""
    return through.end == "reset" and not through.received


def slower_by(least_s: float) -> Fares:
    """Require that everything arrives late, and much later than past the link: on a busy machine everything is late."""

    def fares(through: Transfer, past: Transfer) -> bool:
        late = through.took_s >= _EARLY * least_s and through.took_s - past.took_s >= _DIFFERENCE * least_s
        return late and through.end == "answered"

    return fares


def ends_within(size: int, *, down: bool) -> Fares:
    """Require an end before all was answered; if the way down is limited, at most so many bytes arrived."""

    def fares(through: Transfer, _past: Transfer) -> bool:
        return through.end in ("closed", "reset") and not (down and through.received > size)

    return fares


def _quicker(one: Transfer, other: Transfer) -> Transfer:
    """Return the quicker of two transfers; an unanswered one is never the quicker one."""
    return min(one, other, key=lambda transfer: (transfer.end != "answered", transfer.took_s))
