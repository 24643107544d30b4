"""Faults of one request: lost, its answer lost, delayed, late past its client's death; and of all requests of a kind.

The trigger holds the frame (`chaos.engine.held_requests`); the fault decides what becomes of it.

    lost      what the frame should have done does not happen; a stream cannot lose its middle, so its connection ends as well
    delayed   it comes later, and everything behind it on the connection waits
    late      it comes although its client has given up on it: what KIP-890 is about
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, model_validator

from chaos.cluster.rules import Rule, RuleBook, Trip
from chaos.common import clock
from chaos.common.errors import DeadlineError, InjectionError
from chaos.faults.base import FaultBase, FaultContext, HeldRequest, Injection, LastingFault, Proof, RequestsFault
from chaos.faults.targets import resolve_links
from chaos.grammar.triggers import OnRequest
from chaos.runtime.capabilities import Capability

_WITHIN_S = 5.0
_SEEN_WITHIN_S = 1.0
_NS_PER_MS = 1_000_000
_GONE = ("dropped", "closed")
Connection = Literal["closed", "kept"]


def _on_request(when: Any) -> Any:
    if isinstance(when, Mapping) and "request" not in when:
        raise ValueError("this fault is done to a request: write when: {request: EndTxn, nth: 20}")
    if isinstance(when, Mapping) and when.get("then") == "lose":
        raise ValueError("this fault itself decides what becomes of the request: leave out `then`")
    return when


def _at_response(when: Any) -> Any:
    if isinstance(when, Mapping) and when.get("at", "response") != "response":
        raise ValueError("lose_response loses an answer; to lose the request, write kind: lose_request")
    return {**when, "at": "response"} if isinstance(when, Mapping) else when


RequestMoment = Annotated[OnRequest, BeforeValidator(_on_request)]


class FrameFault(FaultBase):
    """A fault of one request or response, the one that the trigger holds."""

    needs = frozenset({Capability.LINKS})
    settles_request = True
    when: RequestMoment

    @property
    def frame(self) -> str:
        """What is held, in words."""
        return str(self.when).removeprefix("while ").removesuffix(" is on the wire")


class LoseRequest(FrameFault):
    """A request never arrives. The connection is closed too (a stream cannot lose its middle), unless it is kept."""

    provokes = "a request that was never carried out is retried"
    proved_by = "the proxy names the frame that went in and did not come out"
    kind: Literal["lose_request"]
    connection: Connection = "closed"

    def describe(self) -> str:
        return f"lose_request {self.frame}, connection {self.connection}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        frame = _held(context)
        return LostFrame(_target(frame), 0.0, frame, "close" if self.connection == "closed" else "drop")

    @model_validator(mode="after")
    def _is_request(self) -> Self:
        if self.when.at == "response":
            raise ValueError("lose_request loses a request; to lose the answer, write kind: lose_response")
        return self


class LoseResponse(FrameFault):
    """A request was carried out and its answer never arrives."""

    provokes = "a request that was carried out is retried: duplicates without idempotence (KIP-98)"
    proved_by = "the proxy names the response that went in and did not come out"
    kind: Literal["lose_response"]
    when: Annotated[RequestMoment, BeforeValidator(_at_response)]
    connection: Connection = "closed"

    def describe(self) -> str:
        return f"lose_response: {self.frame}, connection {self.connection}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        frame = _held(context)
        return LostFrame(_target(frame), 0.0, frame, "close" if self.connection == "closed" else "drop")


class DelayRequest(FrameFault, LastingFault):
    """A request, or its answer, arrives later; everything behind it on its connection waits."""

    provokes = "an answer after the client has given up on it, and a retry that overtakes the request"
    proved_by = "the frame is held on the wire"
    kind: Literal["delay_request"]

    @property
    def holds_request_s(self) -> float:
        return self.for_s

    def describe(self) -> str:
        return f"delay_request {self.frame} {self.lasts}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        frame = _held(context)
        return HeldFrame(_target(frame), self.for_s, frame)


class LateRequest(FrameFault, LastingFault):
    """A request is held past its client's patience, and delivered although the client has gone (KIP-890 is about this).

    ``for`` is how long the client may take to give up on it. It is delivered then, or when the fault in ``until`` is proved.
    """

    provokes = "a late EndTxn or Produce of an old transaction in a new one (KIP-890)"
    proved_by = "the client closed its connection while the frame was held"
    outlives_client = True
    kind: Literal["late_request"]

    @property
    def holds_request_s(self) -> float:
        return self.for_s

    def describe(self) -> str:
        return f"late_request {self.frame} {self.lasts}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        frame = _held(context)
        lasts_s = self.for_s if self.until else 0.0
        return HeldFrame(_target(frame), lasts_s, frame, patience_s=self.for_s, readable=context.readable)

    @model_validator(mode="after")
    def _is_request(self) -> Self:
        if self.when.at == "response":
            raise ValueError("no answer outlives its client; write at: request, or kind: delay_request")
        return self


class HoldRequests(RequestsFault):
    """All requests of one kind on some links, or all answers to them, are held; in the end they go on, or are lost."""

    needs = frozenset({Capability.LINKS})
    provokes = "all requests of a kind stand still: coordinators or leaders that seem dead to one client"
    proved_by = "a request is held on every link that carries such requests"
    kind: Literal["hold_requests"]
    at: Literal["request", "response"] = "request"
    then: Literal["deliver", "lose"] = "deliver"

    def describe(self) -> str:
        which = "every" if self.at == "request" else "every response to"
        return f"hold_requests {which} {self.request} on {self.link} {self.lasts}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        links, target = resolve_links(self.link, context, rng)
        rule = Rule(
            self.request, self.at, [link.name for link in links], times=0, max_hold_ms=round(2000 * self.for_s) + 60_000
        )
        return HeldRequests(target, self.for_s, context.system.rules, self.name, rule, self.then)


@dataclass(slots=True)
class LostFrame(Injection):
    """A frame that was swallowed."""

    frame: HeldRequest
    how: str

    def inject(self) -> None:
        """Swallow it."""
        self.frame.let_go(self.how)

    def proof(self) -> Proof:
        """The toxic says so: this frame, by its ids, went in and did not come out."""
        trip = _wait(self.frame, _lost, _WITHIN_S, "the frame to be lost")
        return Proof(effective=trip is not None, facts=_known(self.frame.trip()))

    def heal(self) -> None:
        """Nothing to undo: what is lost is lost."""


@dataclass(slots=True)
class HeldFrame(Injection):
    """A frame that waits on the wire until the heal.

    Attributes:
        readable: the read_committed end of the output.
        patience_s: how long its client may take to give up on it; 0 for a frame that does not outlive its client.
    """

    frame: HeldRequest
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
            return Proof(effective=False, facts={**_known(self.frame.trip()), "problem": "its client never gave up on it"})
        patience_ms = (trip.client_gone_ns - trip.tripped_ns) // _NS_PER_MS
        return Proof(effective=True, facts={**trip.facts, "client_gone_after_ms": patience_ms})

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
class HeldRequests(Injection):
    """All requests of a kind on some links, or the answers to them."""

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
            return Proof(effective=False, facts={"held": sorted(self._links())})
        return Proof(effective=True, facts={"held": sorted(self._links())})

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


def _target(frame: HeldRequest) -> str:
    trip = frame.trip()
    return f"{trip.api} on {trip.link}" if trip else frame.name


def _wait(frame: HeldRequest, condition: Callable[[Trip], bool], within_s: float, reason: str) -> Trip | None:
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


def _held(context: FaultContext) -> HeldRequest:
    """The request that the trigger of this fault holds.

    Raises:
        InjectionError: there is none.
    """
    if context.held is None:
        raise InjectionError("no request is held: this needs a trigger of the kind {request: EndTxn, nth: 20}")
    return context.held
