"""Faults of one request: lost, its answer lost, delayed, late past its client's death; and of all requests of a kind.

The trigger holds the frame (`chaos.faults.frames`); the fault decides what becomes of it.

    lost      what the frame should have done does not happen; a stream cannot lose its middle, so its connection ends as well
    delayed   it comes later, and everything behind it on the connection waits
    late      it comes although its client has given up on it: what KIP-890 is about
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from chaos.cluster.rules import Rule, RuleBook, Trip
from chaos.common import clock
from chaos.common.errors import DeadlineError
from chaos.faults.base import Frame, Injection, Prepare, Proof, Scene
from chaos.faults.declared.protocol import DelayRequest, HoldRequests, LateRequest, LoseRequest, LoseResponse
from chaos.faults.frames import held
from chaos.faults.targets import resolve_links

_WITHIN_S = 5.0
_SEEN_WITHIN_S = 1.0
_NS_PER_MS = 1_000_000
_GONE = ("dropped", "closed")


def prepare_loss(fault: LoseRequest | LoseResponse, scene: Scene, _rng: Random) -> Injection:
    """Aim a `LoseRequest` or `LoseResponse`."""
    frame = held(scene)
    return LostFrame(_target(frame), 0.0, frame, "close" if fault.connection == "closed" else "drop")


def prepare_delay(fault: DelayRequest, scene: Scene, _rng: Random) -> Injection:
    """Aim a `DelayRequest`."""
    frame = held(scene)
    return HeldFrame(_target(frame), fault.for_s, frame)


def prepare_late(fault: LateRequest, scene: Scene, _rng: Random) -> Injection:
    """Aim a `LateRequest`."""
    frame = held(scene)
    lasts_s = fault.for_s if fault.until else 0.0
    return HeldFrame(_target(frame), lasts_s, frame, patience_s=fault.for_s, readable=scene.readable)


def prepare_hold(fault: HoldRequests, scene: Scene, rng: Random) -> Injection:
    """Aim a `HoldRequests`."""
    links, target = resolve_links(fault.link, scene, rng)
    rule = Rule(fault.request, fault.at, [link.name for link in links], times=0, max_hold_ms=round(2000 * fault.for_s) + 60_000)
    return HeldRequests(target, fault.for_s, scene.system.rules, fault.name, rule, fault.then)


@dataclass(slots=True)
class LostFrame:
    """A frame that was swallowed."""

    target: str
    hold_s: float
    frame: Frame
    how: str

    def inject(self) -> None:
        """Swallow it."""
        self.frame.let_go(self.how)

    def proof(self) -> Proof:
        """The toxic says so: this frame, by its ids, went in and did not come out."""
        trip = _wait(self.frame, _lost, _WITHIN_S, "the frame to be lost")
        return Proof(bit=trip is not None, facts=_known(self.frame.trip()))

    def heal(self) -> None:
        """Nothing to undo: what is lost is lost."""


@dataclass(slots=True)
class HeldFrame:
    """A frame that waits on the wire until the heal.

    Attributes:
        readable: the read_committed end of the output.
        patience_s: how long its client may take to give up on it; 0 for a frame that does not outlive its client.
    """

    target: str
    hold_s: float
    frame: Frame
    patience_s: float = 0.0
    readable: Callable[[], int] | None = None

    def inject(self) -> None:
        """It is held already."""

    def proof(self) -> Proof:
        """It is held now; one that outlives its client: the client has gone."""
        if not self.patience_s:
            trip = self.frame.trip()
            return Proof(trip is not None and trip.outcome == "held", _known(trip))
        trip = _wait(self.frame, _client_gone_or_settled, self.patience_s, "the client to give up on its request")
        if trip is None or not trip.client_gone_ns:
            return Proof(bit=False, facts={**_known(self.frame.trip()), "problem": "its client never gave up on it"})
        patience_ms = (trip.client_gone_ns - trip.tripped_ns) // _NS_PER_MS
        return Proof(bit=True, facts={**trip.facts, "client_gone_after_ms": patience_ms})

    def heal(self) -> Mapping[str, Any]:
        """Deliver it, and say what the broker answered, and what a read_committed reader saw before and after."""
        before = self.readable() if self.readable else 0
        self.frame.let_go("deliver")
        trip = _wait(self.frame, _settled, _WITHIN_S, "the broker's answer")
        if trip is None:
            return _known(self.frame.trip())
        seen = _seen(self.readable, before) if self.readable and before else {}
        accepted = {"see": "KIP-890"} if self.patience_s and trip.api == "EndTxn" and trip.error_code == 0 else {}
        return {**_known(trip), "error_code": trip.error_code, **seen, **accepted}


@dataclass(slots=True)
class HeldRequests:
    """All requests of a kind on some links, or the answers to them."""

    target: str
    hold_s: float
    rules: RuleBook
    name: str
    rule: Rule
    then: str
    armed: bool = False

    def inject(self) -> None:
        """Hold from now on."""
        self.name = self.rules.arm(self.name, self.rule)
        self.armed = True

    def proof(self) -> Proof:
        """On each link that carries such requests at least one is held."""
        try:
            clock.wait_until(self._all, within_s=self.hold_s, reason="a request on every link to hold", every_s=0.02)
        except DeadlineError:
            return Proof(bit=False, facts={"held": sorted(self._links())})
        return Proof(bit=True, facts={"held": sorted(self._links())})

    def heal(self) -> None:
        """Let all of them go, or their connections end."""
        if self.armed and self.then == "lose":
            self.rules.release(self.name, "close")
        self.rules.disarm(self.name)
        self.armed = False

    def _all(self) -> bool:
        held = self._links()
        used = {link for link in self.rule.links if self.rules.sent(self.rule.api, [link])}
        return bool(held) and held >= used

    def _links(self) -> set[str]:
        return {trip.link for trip in self.rules.trips(self.name)}


def _seen(readable: Callable[[], int], before: int) -> Mapping[str, Any]:
    """Rows that can be read now and could not before are, when nobody else commits, of a transaction nobody has decided."""

    def more() -> int:
        now = readable()
        return now if now > before else 0

    try:
        after = clock.wait_until(more, within_s=_SEEN_WITHIN_S, reason="rows of an undecided transaction")
    except DeadlineError:
        return {"readable_before": before, "readable_after": before}
    return {"readable_before": before, "readable_after": after}


def _target(frame: Frame) -> str:
    trip = frame.trip()
    return f"{trip.api} on {trip.link}" if trip else frame.name


def _wait(frame: Frame, condition: Callable[[Trip], bool], within_s: float, reason: str) -> Trip | None:
    """The trip once it is so, None when it does not become so in time."""

    def seen() -> Trip | None:
        trip = frame.trip()
        return trip if trip is not None and condition(trip) else None

    try:
        return clock.wait_until(seen, within_s=within_s, reason=reason)
    except DeadlineError:
        return None


def _lost(trip: Trip) -> bool:
    return trip.outcome in _GONE


def _client_gone_or_settled(trip: Trip) -> bool:
    """A frame that was let go meanwhile, because the run ended, will not outlive its client any more."""
    return trip.client_gone_ns > 0 or trip.outcome != "held"


def _settled(trip: Trip) -> bool:
    """Answered, or gone with its connection: then there is no answer to wait for."""
    return trip.answered_ns > 0 or trip.outcome == "client gone"


def _known(trip: Trip | None) -> Mapping[str, Any]:
    return {**trip.facts, "outcome": trip.outcome} if trip else {}


CATALOGUE: Mapping[type, Prepare] = {
    LoseRequest: prepare_loss,
    LoseResponse: prepare_loss,
    DelayRequest: prepare_delay,
    LateRequest: prepare_late,
    HoldRequests: prepare_hold,
}
