"""Faults within the connections of a link: reset, throttled, sliced, cut after so many bytes.

    reset      a connection is reset (RST) as soon as its client says something (Toxiproxy ``reset_peer``)
    throttle   so many KB/s pass a connection in each direction (``bandwidth``)
    slice      bytes arrive in small pieces with time between them (``slicer``)
    cut after  a connection is closed once so many bytes have passed it (``limit_data``)

These toxics write to their connection without heeding an interrupt. If one were taken away while its receiver has died, the
API of the whole server would wait for ever (the same as toxiproxy/delay.go tells of ``latency``). So the heal breaks the
connections first, lets them end, and takes the toxics away then: what was slow does not become fast, it connects anew.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from chaos import clock
from chaos.errors import DeadlineError
from chaos.faults.base import Injection, Prepare, Proof, Scene
from chaos.faults.network import for_each, heal_each, name_of, passing
from chaos.faults.targets import resolve_links
from chaos.scenario.faults.network import CutAfterBytes, ResetLink, SliceLink, ThrottleLink
from chaos.system import probe
from chaos.system.links import Link
from chaos.system.probe import Transfer

_SETTLE_S = 0.3  # longer than any of these toxics sleeps
_MEASURE_S = 0.5
_LEAST_BYTES = 1000
_MOST_BYTES = 100_000
_TOLERANCE = 1.1
_PIECES = 4

Judge = Callable[[Link], tuple[bool, Mapping[str, object]]]


def prepare_reset(fault: ResetLink, scene: Scene, rng: Random) -> Injection:
    """Aim a `ResetLink`; a client speaks first, so its direction is enough."""
    links, target = resolve_links(fault.link, scene, rng)
    toxic = Toxics(name_of(fault), "reset_peer", "up", {"timeout": 0})
    return DisturbedLinks(target, fault.for_s, links, toxic, _is_reset, breaks=True)


def prepare_throttle(fault: ThrottleLink, scene: Scene, rng: Random) -> Injection:
    """Aim a `ThrottleLink`."""
    links, target = resolve_links(fault.link, scene, rng)
    toxic = Toxics(name_of(fault), "bandwidth", fault.stream, {"rate": fault.rate_kb_per_s})
    judge = _slow(fault.stream, fault.rate_kb_per_s)
    return DisturbedLinks(f"{target}, {fault.stream}", fault.for_s, links, toxic, judge)


def prepare_slice(fault: SliceLink, scene: Scene, rng: Random) -> Injection:
    """Aim a `SliceLink`."""
    links, target = resolve_links(fault.link, scene, rng)
    attributes = {"average_size": fault.size_bytes, "size_variation": 0, "delay": round(1e6 * fault.every_s)}
    toxic = Toxics(name_of(fault), "slicer", fault.stream, attributes)
    judge = _sliced(fault.stream, fault.size_bytes, fault.every_s)
    return DisturbedLinks(f"{target}, {fault.stream}", fault.for_s, links, toxic, judge)


def prepare_cut_after(fault: CutAfterBytes, scene: Scene, rng: Random) -> Injection:
    """Aim a `CutAfterBytes`."""
    links, target = resolve_links(fault.link, scene, rng)
    toxic = Toxics(name_of(fault), "limit_data", fault.stream, {"bytes": fault.size_bytes})
    judge = _ends(fault.stream, fault.size_bytes)
    return DisturbedLinks(f"{target}, {fault.stream}", fault.for_s, links, toxic, judge)


@dataclass(frozen=True, slots=True)
class Toxics:
    """One toxic, as it is put on every link of a fault."""

    name: str
    type: str
    stream: str
    attributes: Mapping[str, int]


@dataclass(slots=True)
class DisturbedLinks:
    """Links with a toxic of their connections.

    Attributes:
        judge: opens a connection of our own through a link, and says whether it fares as declared.
        breaks: living connections are broken once the toxic is there: it works on new ones only.
    """

    target: str
    hold_s: float
    links: list[Link]
    toxics: Toxics
    judge: Judge
    breaks: bool = False
    bytes_before: int = 0

    def inject(self) -> None:
        """Disturb from now on."""
        for link in self.links:
            link.add(self.toxics.name, self.toxics.type, self.toxics.stream, self.toxics.attributes)
        self.bytes_before = sum(link.bytes_seen() for link in self.links)
        for link in self.links if self.breaks else ():
            link.cut(self.toxics.name)
            link.mend(self.toxics.name)

    def proof(self) -> Proof:
        """Somebody uses these links, and a connection of our own through each fares as declared."""
        try:
            passed = passing(self.links, self.bytes_before, self.hold_s)
        except DeadlineError:
            return Proof(bit=False, facts={"bytes_seen": 0})
        fared = for_each(self.links, self.judge)
        facts = {"bytes_seen": passed, "probes": {name: facts for name, (_, facts) in fared.items()}}
        return Proof(all(bit for bit, _ in fared.values()), facts)

    def heal(self) -> None:
        """Break the connections, take the toxics away, and let everything connect anew."""
        heal_each(self.links, lambda link: link.cut(self.toxics.name))
        clock.pause(_SETTLE_S)
        heal_each(self.links, lambda link: link.remove(self.toxics.name, self.toxics.stream))
        heal_each(self.links, lambda link: link.mend(self.toxics.name))


def _is_reset(link: Link) -> tuple[bool, Mapping[str, object]]:
    """It is accepted, and reset when it speaks."""
    seen = probe.upload(link.proxies[0].listen, 1, within_s=2)
    return seen.end == "reset" and not seen.received, {"end": seen.end}


def _slow(stream: str, rate_kb_per_s: int) -> Judge:
    """So many bytes take at least as long as they must; in each direction meant."""
    size = min(_MOST_BYTES, max(_LEAST_BYTES, round(1000 * rate_kb_per_s * _MEASURE_S)))

    def judge(link: Link) -> tuple[bool, Mapping[str, object]]:
        seen = _transfers(link, stream, size, 10 + 2 * size / (1000 * rate_kb_per_s))
        rates = {way: round(_bytes(way, one) / one.took_s / 1000, 1) for way, one in seen.items()}
        through = all(one.end == "answered" for one in seen.values())
        return through and all(rate <= _TOLERANCE * rate_kb_per_s for rate in rates.values()), {"kb_per_s": rates}

    return judge


def _sliced(stream: str, size: int, every_s: float) -> Judge:
    """What must come in some pieces takes the time between them; and coming down, it can be seen to come in pieces."""

    def judge(link: Link) -> tuple[bool, Mapping[str, object]]:
        seen = _transfers(link, stream, _PIECES * size, 30)
        facts = {way: {"pieces": one.pieces, "took_ms": round(1000 * one.took_s, 1)} for way, one in seen.items()}
        slow = all(one.end == "answered" and one.took_s >= (_PIECES - 1) * every_s for one in seen.values())
        return slow and ("down" not in seen or seen["down"].pieces >= _PIECES), facts

    return judge


def _ends(stream: str, size: int) -> Judge:
    """It ends before all of it was answered, and no more came through than may."""

    def judge(link: Link) -> tuple[bool, Mapping[str, object]]:
        seen = _transfers(link, stream, 2 * size, 10)
        facts = {way: {"end": one.end, "sent": one.sent, "received": one.received} for way, one in seen.items()}
        ended = all(one.end in ("closed", "reset") for one in seen.values())
        return ended and all(one.received <= size for way, one in seen.items() if way == "down"), facts

    return judge


def _transfers(link: Link, stream: str, size: int, within_s: float) -> dict[str, Transfer]:
    """One transfer in each direction meant."""
    ways = {"up": probe.upload, "down": probe.download}
    address = link.proxies[0].listen
    return {way: move(address, size, within_s) for way, move in ways.items() if stream in (way, "both")}


def _bytes(way: str, transfer: Transfer) -> int:
    return transfer.sent if way == "up" else transfer.received


CATALOGUE: Mapping[type, Prepare] = {
    ResetLink: prepare_reset,
    ThrottleLink: prepare_throttle,
    SliceLink: prepare_slice,
    CutAfterBytes: prepare_cut_after,
}
