"""Faults of links: cut, flapping, blackhole, delay. `chaos.faults.link_toxics` has faults within connections.

    cut        the listener closes and every connection with it: a client learns at once
    blackhole  connections stay open, nothing arrives (``blackhole``, toxiproxy/blackhole.go): a client learns by its timeout
    delay      everything arrives, later (``delay``, toxiproxy/delay.go)

The first two are both worth testing: after the second, clients retry without knowing the fate of their requests.
"""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from threading import Event
from typing import Any, Literal, Self, TypeVar

from pydantic import Field, ValidationInfo, field_validator, model_validator

from chaos.cluster import protocol
from chaos.cluster.addresses import Address
from chaos.cluster.links import Link
from chaos.common import clock
from chaos.common.errors import DeadlineError, InjectionError
from chaos.faults.base import BackgroundSteps, FaultBase, FaultContext, Injection, LinkFault, Proof, unmet
from chaos.faults.targets import resolve_links
from chaos.grammar.base import Stream, WrongValueError
from chaos.grammar.units import Seconds, SomeSeconds, spoken_seconds

T = TypeVar("T")
Way = tuple[Link, str]
STREAMS = {"up": "upstream", "down": "downstream", "both": "both ways"}
_SILENT_S = 0.5
_LATE_S = 30.0
_ROUNDS = 3  # of pings, through a link and past it: the quickest of them count
_DIFFERENCE = 0.5  # share of the delay that must be missing past the link: on a busy machine every ping is late
_USED_WITHIN_S = 2.0
_DOWNS = 2  # a link that goes down once is cut, and does not flap


class CutLink(LinkFault):
    """Listener and connections of a link are closed: its clients learn at once."""

    provokes = "connections that end at once: retries on new ones"
    proved_by = "connections were open and were closed, and new ones are refused"
    kind: Literal["cut_link"]

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        links, target = resolve_links(self.link, context, rng)
        return CutLinks(target, self.for_s, name_of(self), links)


@dataclass(slots=True)
class CutLinks(Injection):
    """Links that are closed until the heal.

    Attributes:
        in_use: number of connections that were open when they were cut.
    """

    name: str
    links: list[Link]
    in_use: int = field(default=0, kw_only=True)

    def inject(self) -> None:
        self.in_use = _await_use(self.links)
        for link in self.links:
            link.cut(self.name)

    def proof(self) -> Proof:
        refused = _refused_by(self.links)
        return Proof(len(refused) == self.proxies and self.in_use > 0, {"refused": refused, "in_use": self.in_use})

    def heal(self) -> Mapping[str, int] | None:
        heal_each(self.links, lambda link: link.mend(self.name))
        return None

    @property
    def proxies(self) -> int:
        """Number of proxies on these links."""
        return sum(len(link.proxies) for link in self.links)


class FlappingLink(LinkFault):
    """A link is down for the first half of every period, and up for the second."""

    provokes = "clients that reconnect over and over, and back off"
    proved_by = "connections were closed; the links refused new ones at least twice, and accepted them in between"
    kind: Literal["flapping_link"]
    period_s: SomeSeconds = Field(alias="period", ge=0.2)
    """from one loss of the link to the next; 200ms or more."""

    def describe(self) -> str:
        return f"flapping_link {self.link}, down and up within {spoken_seconds(self.period_s)}, {self.lasts}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        links, target = resolve_links(self.link, context, rng)
        return FlappingLinks(target, self.for_s, name_of(self), links, self.period_s)

    @model_validator(mode="after")
    def _flaps(self) -> Self:
        if self.for_s < 2 * self.period_s:
            raise WrongValueError(
                "flaps-once",
                "`for` is shorter than two periods, and a link that goes down once does not flap; use cut_link, or at least "
                f"for: {spoken_seconds(2 * self.period_s).replace(' ', '')}",
            )
        return self


@dataclass(slots=True)
class FlappingLinks(CutLinks):
    """Links that are cut and mended until the heal.

    Attributes:
        downs, ups: number of times that all of them were seen refused, and open again.
    """

    period_s: float
    downs: int = 0
    ups: int = 0
    background: BackgroundSteps = field(init=False)

    def __post_init__(self) -> None:
        self.background = BackgroundSteps(self._flap)

    def inject(self) -> None:
        CutLinks.inject(self)
        self.background.begin()

    def proof(self) -> Proof:
        missing = unmet(self._flapped, self.hold_s, "the links to flap twice")
        facts = {"downs": self.downs, "ups": self.ups, "in_use": self.in_use, **missing}
        return Proof(not missing and self.in_use > 0, facts)

    def heal(self) -> Mapping[str, int]:
        self.background.end()
        heal_each(self.links, lambda link: link.mend(self.name))
        return {"downs": self.downs, "ups": self.ups}

    def _flapped(self) -> bool:
        self.background.done()  # raises an error of the background steps
        return self.downs >= _DOWNS and self.ups >= _DOWNS - 1

    def _flap(self, stop: Event) -> None:
        """Mend and cut the links in turn; they are down when this begins."""
        while not stop.is_set():
            self.downs += len(_refused_by(self.links)) == self.proxies
            if clock.pause(self.period_s / 2, stop):
                return
            for link in self.links:
                link.mend(self.name)
            self.ups += not _refused_by(self.links)
            if clock.pause(self.period_s / 2, stop):
                return
            for link in self.links:
                link.cut(self.name)


class BlackholeLink(LinkFault):
    """A link swallows bytes: its clients learn by their own timeouts."""

    provokes = "requests whose fate is unknown until a timeout, and are retried then"
    proved_by = "bytes were swallowed, and a ping over each link stays unanswered"
    kind: Literal["blackhole_link"]
    stream: Stream = "both"
    """the direction: ``up`` from the opener of a connection, ``down`` towards it."""

    def describe(self) -> str:
        return f"blackhole_link {self.link}, {STREAMS[self.stream]}, {self.lasts}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        links, target = resolve_links(self.link, context, rng)
        return BlackholedLinks(f"{target}, {self.stream}", self.for_s, name_of(self), [(link, self.stream) for link in links])


@dataclass(slots=True)
class BlackholedLinks(Injection):
    """Links that swallow bytes.

    Attributes:
        ways: the links, with the stream of each.
    """

    name: str
    ways: list[Way]

    def inject(self) -> None:
        for link, stream in self.ways:
            link.add(self.name, "blackhole", stream, {})

    def proof(self) -> Proof:
        missing = unmet(lambda: any(self._withheld().values()), self.hold_s, "traffic to swallow", every_s=0.1)
        if missing:
            return Proof(effective=False, facts={"bytes_withheld": 0, **missing})
        withheld = self._withheld()
        asked = of_brokers(link for link, _ in self.ways)
        answered = for_each(asked, lambda link: _ping_s(link.proxies[0].listen, _SILENT_S))
        silent = [name for name, took_s in answered.items() if took_s is None]
        return Proof(len(silent) == len(asked), {"bytes_withheld": withheld, "unanswered": silent})

    def heal(self) -> None:
        """Let bytes pass; Toxiproxy closes the connections that lost some."""
        streams = {link.name: stream for link, stream in self.ways}
        heal_each([link for link, _ in self.ways], lambda link: link.remove(self.name, streams[link.name]))

    def _withheld(self) -> dict[str, int]:
        return {link.name: link.swallowed(self.name, stream) for link, stream in self.ways}


class DelayLink(LinkFault):
    """Everything on a link arrives later."""

    provokes = "answers that come later than a client waits, or in another order than on another link"
    proved_by = "traffic passed, and a ping over each link took at least as long as declared, and past it much less"
    kind: Literal["delay_link"]
    latency_s: SomeSeconds = Field(alias="latency")
    """the delay."""
    jitter_s: Seconds = Field(alias="jitter", default=0.0)
    """the variation of the delay from one message to the next; less than the latency."""
    stream: Stream = "both"
    """the direction: ``up`` from the opener of a connection, ``down`` towards it."""

    def describe(self) -> str:
        jitter = f" ± {spoken_seconds(self.jitter_s)}" if self.jitter_s else ""
        return f"delay_link {self.link} by {spoken_seconds(self.latency_s)}{jitter}, {STREAMS[self.stream]}, {self.lasts}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        links, target = resolve_links(self.link, context, rng)
        late_ms = 1000 * self.latency_s, 1000 * self.jitter_s
        return DelayedLinks(f"{target}, {self.stream}", self.for_s, name_of(self), links, self.stream, *late_ms)

    @field_validator("jitter_s")
    @classmethod
    def _leaves_a_delay(cls, jitter_s: float, declared: ValidationInfo) -> float:
        latency_s = declared.data.get("latency_s")
        if latency_s is not None and jitter_s >= latency_s:
            raise WrongValueError(
                "jitter-too-large",
                "with a jitter as large as the latency a message may pass without delay, and nothing could be proved; "
                f"write less than {spoken_seconds(latency_s).replace(' ', '')}",
            )
        return jitter_s


@dataclass(slots=True)
class DelayedLinks(Injection):
    name: str
    links: list[Link]
    stream: str
    latency_ms: float
    jitter_ms: float
    bytes_before: int = 0

    def inject(self) -> None:
        for link in self.links:
            link.add(self.name, "delay", self.stream, {"latency": round(self.latency_ms), "jitter": round(self.jitter_ms)})
        self.bytes_before = bytes_seen(self.links)

    def proof(self) -> Proof:
        missing = await_traffic(self.links, self.bytes_before, self.hold_s)
        if missing:
            return Proof(effective=False, facts={"bytes_delayed": 0, **missing})
        passed = bytes_seen(self.links) - self.bytes_before
        pings = for_each(of_brokers(self.links), self._pings)
        facts = {name: {"through_ms": _ms(through_s), "past_ms": _ms(past_s)} for name, (through_s, past_s) in pings.items()}
        slow = all(self._is_late(through_s, past_s) for through_s, past_s in pings.values())
        return Proof(slow, {"bytes_delayed": passed, "at_least_ms": 1000 * self._least_s, "pings": facts})

    def heal(self) -> None:
        heal_each(self.links, lambda link: link.remove(self.name, self.stream))

    @property
    def _least_s(self) -> float:
        """Shortest delay of a request and its answer, in seconds."""
        return (2 if self.stream == "both" else 1) * (self.latency_ms - self.jitter_ms) / 1000

    def _pings(self, link: Link) -> tuple[float | None, float | None]:
        """Time of the quickest ping through a link and of the quickest past it, of a few."""
        through_s = past_s = None
        for _ in range(_ROUNDS):
            through_s = _quicker_s(through_s, _ping_s(link.proxies[0].listen, _LATE_S))
            past_s = _quicker_s(past_s, _ping_s(link.proxies[0].upstream, _LATE_S))
            if self._is_late(through_s, past_s):
                break
        return through_s, past_s

    def _is_late(self, through_s: float | None, past_s: float | None) -> bool:
        if through_s is None or past_s is None:
            return False
        return through_s >= self._least_s and through_s - past_s >= _DIFFERENCE * self._least_s


def name_of(fault: FaultBase) -> str:
    """Name of a fault's toxics: two faults may break one link at once."""
    return fault.name or str(getattr(fault, "kind", "chaos"))


def bytes_seen(links: Iterable[Link]) -> int:
    """Bytes that entered these links since they were made."""
    return sum(link.bytes_seen() for link in links)


def await_traffic(links: list[Link], bytes_before: int, within_s: float) -> dict[str, Any]:
    """Wait, like `unmet`, for bytes that enter these links."""
    return unmet(lambda: bytes_seen(links) > bytes_before, within_s, "traffic on the links", every_s=0.1)


def of_brokers(links: Iterable[Link]) -> list[Link]:
    """Select the links to brokers, which can be pinged; the protocol of a service is unknown."""
    return [link for link in links if not link.service]


def for_each(links: list[Link], ask: Callable[[Link], T]) -> dict[str, T]:
    """Ask all links at once: ten silent links must not take ten times the timeout of one."""
    if not links:
        return {}
    with ThreadPoolExecutor(max_workers=len(links), thread_name_prefix="probe") as pool:
        return dict(zip((link.name for link in links), pool.map(ask, links), strict=True))


def heal_each(links: list[Link], heal: Callable[[Link], None]) -> None:
    """Heal all links, even when one of them refuses.

    Raises:
        InjectionError: the first refusal.
    """
    refused: list[InjectionError] = []
    for link in links:
        try:
            heal(link)
        except InjectionError as error:
            refused.append(error)
    if refused:
        raise refused[0]


def _await_use(links: list[Link]) -> int:
    """Wait for open connections on links, and return their number; 0 when none is opened in time.

    Clients that lost theirs a moment ago come back. A link that another fault keeps cut counts as one.
    """
    with suppress(DeadlineError):
        return clock.wait_until(
            lambda: sum(1 if link.pulled.by else link.connections() for link in links),
            within_s=_USED_WITHIN_S,
            reason="a connection to cut",
        )
    return 0


def _refused_by(links: Iterable[Link]) -> list[str]:
    """Name the proxies of these links that refuse connections."""
    return [proxy.name for link in links for proxy in link.proxies if protocol.refused(proxy.listen)]


def _ping_s(address: Address, within_s: float) -> float | None:
    """Time of a ping in seconds, None without an answer."""
    try:
        return protocol.ping(address, within_s)
    except OSError:
        return None


def _quicker_s(one: float | None, other: float | None) -> float | None:
    return min((took_s for took_s in (one, other) if took_s is not None), default=None)


def _ms(took_s: float | None) -> float | None:
    return None if took_s is None else round(1000 * took_s, 1)
