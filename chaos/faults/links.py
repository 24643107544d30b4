"""Faults of links: cut, blackhole, delay. What goes wrong within connections is in `chaos.faults.link_toxics`.

    cut        the listener closes and every connection with it: a client learns at once
    blackhole  connections stay open, nothing arrives (``blackhole``, toxiproxy/blackhole.go): a client learns by its timeout
    delay      everything arrives, later (``delay``, toxiproxy/delay.go)

The first two are both worth testing: retries are born of the second.
"""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from chaos.cluster import protocol
from chaos.cluster.links import Link
from chaos.common import clock
from chaos.common.errors import DeadlineError, InjectionError
from chaos.faults.base import Injection, Prepare, Proof, Scene
from chaos.faults.declared.base import FaultBase
from chaos.faults.declared.network import BlackholeLink, CutLink, DelayLink
from chaos.faults.targets import resolve_links

T = TypeVar("T")
Way = tuple[Link, str]
_SILENT_S = 0.5
_USED_WITHIN_S = 2.0


def prepare_cut(fault: CutLink, scene: Scene, rng: Random) -> Injection:
    """Aim a `CutLink`."""
    links, target = resolve_links(fault.link, scene, rng)
    return CutLinks(target, fault.for_s, name_of(fault), links)


def prepare_blackhole(fault: BlackholeLink, scene: Scene, rng: Random) -> Injection:
    """Aim a `BlackholeLink`."""
    links, target = resolve_links(fault.link, scene, rng)
    return BlackholedLinks(f"{target}, {fault.stream}", fault.for_s, name_of(fault), [(link, fault.stream) for link in links])


def prepare_delay(fault: DelayLink, scene: Scene, rng: Random) -> Injection:
    """Aim a `DelayLink`."""
    links, target = resolve_links(fault.link, scene, rng)
    late_ms = 1000 * fault.latency_s, 1000 * fault.jitter_s
    return DelayedLinks(f"{target}, {fault.stream}", fault.for_s, name_of(fault), links, fault.stream, *late_ms)


def name_of(fault: FaultBase) -> str:
    """The name of its toxics: two faults may break one link at once."""
    return fault.name or str(getattr(fault, "kind", "chaos"))


@dataclass(slots=True)
class CutLinks:
    """Links whose cable is pulled."""

    target: str
    hold_s: float
    name: str
    links: list[Link]
    in_use: int = 0

    def inject(self) -> None:
        """Close them all."""
        self.in_use = await_use(self.links)
        for link in self.links:
            link.cut(self.name)

    def proof(self) -> Proof:
        """Somebody's connections were closed, and nobody can connect any more."""
        refused = refused_by(self.links)
        cut = len(refused) == sum(len(link.proxies) for link in self.links)
        return Proof(cut and self.in_use > 0, {"refused": refused, "in_use": self.in_use})

    def heal(self) -> None:
        """Open them all."""
        heal_each(self.links, lambda link: link.mend(self.name))


@dataclass(slots=True)
class BlackholedLinks:
    """Links that swallow what enters them.

    Attributes:
        ways: which links, and which stream of each.
    """

    target: str
    hold_s: float
    name: str
    ways: list[Way]

    def inject(self) -> None:
        """Swallow from now on."""
        for link, stream in self.ways:
            link.add(self.name, "blackhole", stream, {})

    def proof(self) -> Proof:
        """Somebody's bytes were swallowed, and nothing that we send through is answered."""
        try:
            clock.wait_until(
                lambda: sum(self._withheld().values()) > 0, within_s=self.hold_s, reason="traffic to swallow", every_s=0.1
            )
        except DeadlineError:
            return Proof(bit=False, facts={"bytes_withheld": 0})
        withheld = self._withheld()
        answered = for_each([link for link, _ in self.ways], lambda link: _ping_s(link, _SILENT_S))
        silent = [name for name, took_s in answered.items() if took_s is None]
        return Proof(len(silent) == len(self.ways), {"bytes_withheld": withheld, "unanswered": silent})

    def heal(self) -> None:
        """Let bytes pass; Toxiproxy closes the connections that lost some."""
        streams = {link.name: stream for link, stream in self.ways}
        heal_each([link for link, _ in self.ways], lambda link: link.remove(self.name, streams[link.name]))

    def _withheld(self) -> dict[str, int]:
        return {link.name: link.swallowed(self.name, stream) for link, stream in self.ways}


@dataclass(slots=True)
class DelayedLinks:
    """Links on which everything arrives late."""

    target: str
    hold_s: float
    name: str
    links: list[Link]
    stream: str
    latency_ms: float
    jitter_ms: float
    bytes_before: int = 0

    def inject(self) -> None:
        """Delay from now on."""
        for link in self.links:
            link.add(self.name, "delay", self.stream, {"latency": round(self.latency_ms), "jitter": round(self.jitter_ms)})
        self.bytes_before = sum(link.bytes_seen() for link in self.links)

    def proof(self) -> Proof:
        """The pipeline's own traffic passes, and a ping over each link takes at least as long as declared."""
        try:
            passed = passing(self.links, self.bytes_before, self.hold_s)
        except DeadlineError:
            return Proof(bit=False, facts={"bytes_delayed": 0})
        pings = for_each(self.links, lambda link: _ping_s(link, 30))
        times_ms = {name: round(1000 * took_s, 1) for name, took_s in pings.items() if took_s is not None}
        slow = all(time_ms >= self.latency_ms - self.jitter_ms for time_ms in times_ms.values())
        return Proof(slow and len(times_ms) == len(self.links), {"bytes_delayed": passed, "round_trip_ms": times_ms})

    def heal(self) -> None:
        """Let everything pass at once, what is delayed now included."""
        heal_each(self.links, lambda link: link.remove(self.name, self.stream))


def passing(links: list[Link], bytes_before: int, within_s: float) -> int:
    """Bytes that entered links since then, once there are some.

    Raises:
        DeadlineError: nobody uses them.
    """
    return clock.wait_until(
        lambda: sum(link.bytes_seen() for link in links) - bytes_before,
        within_s=within_s,
        reason="traffic on the links",
        every_s=0.1,
    )


def await_use(links: Iterable[Link]) -> int:
    """How many connections are open on links, as soon as there are some; 0 where nobody comes in time.

    Clients that lost theirs a moment ago come back. A link that another fault keeps cut counts as one.
    """
    links = tuple(links)
    with suppress(DeadlineError):
        return clock.wait_until(
            lambda: sum(1 if link.pulled.by else link.connections() for link in links),
            within_s=_USED_WITHIN_S,
            reason="a connection to cut",
        )
    return 0


def refused_by(links: Iterable[Link]) -> list[str]:
    """The proxies of these links to which nobody can connect."""
    return [proxy.name for link in links for proxy in link.proxies if protocol.refused(proxy.listen)]


def for_each(links: list[Link], ask: Callable[[Link], T]) -> dict[str, T]:
    """Ask all links at once: a link that does not answer costs its time, ten of them must not cost ten times as much."""
    with ThreadPoolExecutor(max_workers=len(links), thread_name_prefix="probe") as pool:
        return dict(zip((link.name for link in links), pool.map(ask, links), strict=True))


def heal_each(links: list[Link], heal: Callable[[Link], None]) -> None:
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


def _ping_s(link: Link, within_s: float) -> float | None:
    """Seconds, None when there is no answer."""
    try:
        return protocol.ping(link.proxies[0].listen, within_s)
    except OSError:
        return None


CATALOGUE: Mapping[type, Prepare] = {
    CutLink: prepare_cut,
    BlackholeLink: prepare_blackhole,
    DelayLink: prepare_delay,
}
