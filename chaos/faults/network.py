"""Faults of links: cut, blackhole, delay.

    cut        the listener closes and every connection with it: a client learns at once
    blackhole  connections stay open and nothing arrives (Toxiproxy ``timeout``, 0): a client learns by its own timeout
    delay      everything arrives, later (Toxiproxy ``latency``)

The first two are both worth testing: retries are born of the second.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from chaos import clock
from chaos.errors import DeadlineError, InjectionError
from chaos.faults.base import Injection, Prepare, Proof, Scene
from chaos.faults.targets import resolve_links
from chaos.scenario.faults.network import BlackholeLink, CutLink, DelayLink
from chaos.system import wire
from chaos.system.links import Link

_TOXIC = "chaos"
_SETTLE_S = 0.3


def prepare_cut(fault: CutLink, scene: Scene, rng: Random) -> Injection:
    """Aim a `CutLink`."""
    links, target = resolve_links(fault.link, scene, rng)
    return CutLinks(target, fault.for_s, links)


def prepare_blackhole(fault: BlackholeLink, scene: Scene, rng: Random) -> Injection:
    """Aim a `BlackholeLink`."""
    links, target = resolve_links(fault.link, scene, rng)
    return BlackholedLinks(f"{target}, {fault.stream}", fault.for_s, links, fault.stream)


def prepare_delay(fault: DelayLink, scene: Scene, rng: Random) -> Injection:
    """Aim a `DelayLink`."""
    links, target = resolve_links(fault.link, scene, rng)
    return DelayedLinks(
        f"{target}, {fault.stream}", fault.for_s, links, fault.stream, 1000 * fault.latency_s, 1000 * fault.jitter_s
    )


@dataclass(slots=True)
class CutLinks:
    """Links whose cable is pulled."""

    target: str
    hold_s: float
    links: list[Link]
    bytes_before: int = 0

    def inject(self) -> None:
        """Close them all."""
        self.bytes_before = sum(link.bytes_seen() for link in self.links)
        for link in self.links:
            link.enable(enabled=False)

    def proof(self) -> Proof:
        """Somebody used these links, and nobody can connect any more."""
        refused = [proxy.name for link in self.links for proxy in link.proxies if wire.refused(proxy.listen)]
        cut = len(refused) == sum(len(link.proxies) for link in self.links)
        return Proof(cut and self.bytes_before > 0, {"refused": refused, "bytes_before": self.bytes_before})

    def heal(self) -> None:
        """Open them all."""
        _heal_each(self.links, lambda link: link.enable(enabled=True))


@dataclass(slots=True)
class BlackholedLinks:
    """Links that swallow what enters them."""

    target: str
    hold_s: float
    links: list[Link]
    stream: str
    bytes_before: dict[str, int] = field(default_factory=dict)

    def inject(self) -> None:
        """Swallow from now on."""
        for link in self.links:
            link.add(_TOXIC, "timeout", self.stream, {"timeout": 0})
        self.bytes_before = {link.name: link.bytes_seen(self.stream) for link in self.links}

    def proof(self) -> Proof:
        """Bytes went in while nothing comes out: those after the toxic was there are withheld."""
        try:
            clock.wait_until(
                lambda: sum(self._withheld().values()) > 0, within_s=self.hold_s, reason="traffic to swallow", every_s=0.1
            )
        except DeadlineError:
            return Proof(bit=False, facts={"bytes_withheld": 0})
        withheld = self._withheld()
        silent = [link.name for link in self.links if not wire.answers(link.proxies[0].listen, within_s=0.5)]
        return Proof(len(silent) == len(self.links), {"bytes_withheld": withheld, "unanswered": silent})

    def heal(self) -> None:
        """Let bytes pass; Toxiproxy closes the connections that lost some."""
        _heal_each(self.links, lambda link: link.remove(_TOXIC, self.stream))

    def _withheld(self) -> dict[str, int]:
        return {link.name: link.bytes_seen(self.stream) - self.bytes_before[link.name] for link in self.links}


@dataclass(slots=True)
class DelayedLinks:
    """Links on which everything arrives late."""

    target: str
    hold_s: float
    links: list[Link]
    stream: str
    latency_ms: float
    jitter_ms: float
    bytes_before: int = 0

    def inject(self) -> None:
        """Delay from now on."""
        for link in self.links:
            link.add(_TOXIC, "latency", self.stream, {"latency": round(self.latency_ms), "jitter": round(self.jitter_ms)})
        self.bytes_before = sum(link.bytes_seen() for link in self.links)

    def proof(self) -> Proof:
        """The pipeline's own traffic passes, and a ping over each link takes at least as long as declared."""
        try:
            clock.wait_until(lambda: self._passed() > 0, within_s=self.hold_s, reason="traffic to delay", every_s=0.1)
        except DeadlineError:
            return Proof(bit=False, facts={"bytes_delayed": 0})
        passed = self._passed()
        times_ms = {link.name: round(1000 * _ping_s(link), 1) for link in self.links}
        slow = all(time_ms >= self.latency_ms - self.jitter_ms for time_ms in times_ms.values())
        return Proof(slow, {"bytes_delayed": passed, "round_trip_ms": times_ms})

    def heal(self) -> None:
        """Let everything pass at once.

        Not before what is delayed now has arrived: a client that has just died leaves answers in the delay, and Toxiproxy waits
        for ever, its lock in hand, when the toxic is removed under them (``latency.go`` writes to a writer that has ended).
        """
        clock.pause((self.latency_ms + self.jitter_ms) / 1000 + _SETTLE_S)
        _heal_each(self.links, lambda link: link.remove(_TOXIC, self.stream))

    def _passed(self) -> int:
        return sum(link.bytes_seen() for link in self.links) - self.bytes_before


def _heal_each(links: list[Link], heal: Callable[[Link], None]) -> None:
    """Heal all links, even when one of them refuses.

    Raises:
        InjectionError: what the first one said that refused.
    """
    refused: list[InjectionError] = []
    for link in links:
        try:
            heal(link)
        except InjectionError as error:
            refused.append(error)
    if refused:
        raise refused[0]


def _ping_s(link: Link) -> float:
    """Seconds, 0 when there is no answer."""
    try:
        return wire.ping(link.proxies[0].listen, within_s=30)
    except OSError:
        return 0.0


CATALOGUE: Mapping[type, Prepare] = {
    CutLink: prepare_cut,
    BlackholeLink: prepare_blackhole,
    DelayLink: prepare_delay,
}
