"""Faults of one request: lost, its answer lost, delayed, or late past its client's death; and of all requests of a kind.

The trigger holds the request (`chaos.engine.triggers`); the fault decides its fate.

    lost      it does not arrive; a stream cannot lose its middle, so its connection ends as well
    delayed   it arrives later, and everything behind it on the connection waits
    late      it arrives although its client has given up on it, and closed the connection (KIP-890)
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from chaos.cluster.rules import Interception, RequestRules, Rule
from chaos.common import clock
from chaos.common.errors import DeadlineError, InjectionError
from chaos.faults.base import FaultBase, FaultContext, HeldRequest, Injection, LastingFault, Proof, RequestsFault, unmet
from chaos.faults.targets import resolve_links
from chaos.grammar.base import FaultName, WrongValueError
from chaos.grammar.triggers import OnRequest
from chaos.grammar.units import SomeSeconds
from chaos.runtime.capabilities import Capability

_WITHIN_S = 5.0
_ANSWERED_WITHIN_S = 15.0  # the toxic keeps the connection of a late request open for 10 s (answerWithin in toxiproxy/kafka/)
_SEEN_WITHIN_S = 1.0
_NS_PER_MS = 1_000_000
_LOST = ("dropped", "closed")
_OTHERWISE = {
    True: "the broker accepted the late request, but should refuse it",
    False: "the broker refused the late request, but should accept it",
    None: "the proxy could not read the broker's answer",
}
_UNANSWERED = {"effective": False, "problem": "no broker answered the late request"}


def _on_request(when: Any) -> Any:
    if isinstance(when, Mapping) and "request" not in when:
        raise WrongValueError(
            "trigger-without-request", "this fault needs a request as its trigger; write when: {request: EndTxn, nth: 20}"
        )
    if isinstance(when, Mapping) and when.get("then") == "lose":
        raise WrongValueError("request-decided-twice", "this fault itself decides the fate of the request; leave out `then`")
    return when


def _at_response(when: Any) -> Any:
    if isinstance(when, Mapping) and when.get("at", "response") != "response":
        raise WrongValueError(
            "answer-not-awaited", "lose_response loses an answer; to lose the request, write kind: lose_request"
        )
    return {**when, "at": "response"} if isinstance(when, Mapping) else when


RequestTrigger = Annotated[OnRequest, BeforeValidator(_on_request)]


class HeldRequestFault(FaultBase):
    """A fault of one request or response, the one that the trigger holds."""

    needs = frozenset({Capability.LINKS})
    settles_request = True
    when: RequestTrigger
    """the request: a trigger ``{request: …}`` without ``then``."""

    @property
    def aim(self) -> str:
        """The held request, in words."""
        return self.when.frame


class LossFault(HeldRequestFault):
    """A fault that loses a request or response, with its connection or without."""

    connection: Literal["closed", "kept"] = "closed"
    """whether its connection ends too."""

    @property
    def ending(self) -> str:
        return f", connection {self.connection}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        held = _held(context)
        return LostRequest(_target(held), 0.0, held, "close" if self.connection == "closed" else "drop")


class LoseRequest(LossFault):
    """A request never arrives, and its connection is closed; with connection: kept only the request is lost."""

    provokes = "a request that was never carried out is retried"
    proved_by = "the proxy names the request that it received and did not pass on"
    kind: Literal["lose_request"]

    @model_validator(mode="after")
    def _is_request(self) -> Self:
        if self.when.at == "response":
            raise WrongValueError(
                "request-not-awaited", "lose_request loses a request; to lose the answer, write kind: lose_response"
            )
        return self


class LoseResponse(LossFault):
    """A request is carried out and its answer never arrives."""

    provokes = "a request that was carried out is retried: duplicates without idempotence (KIP-98)"
    proved_by = "the proxy names the answer that it received and did not pass on"
    kind: Literal["lose_response"]
    when: Annotated[RequestTrigger, BeforeValidator(_at_response)]


@dataclass(slots=True)
class LostRequest(Injection):
    """A lost request or response.

    Attributes:
        how: ``close`` its connection, or just ``drop`` it.
    """

    held: HeldRequest
    how: str

    def inject(self) -> None:
        self.held.let_go(self.how)

    def proof(self) -> Proof:
        interception = _wait(self.held, lambda interception: interception.outcome in _LOST, _WITHIN_S, "the request to be lost")
        return Proof(interception is not None, _facts(self.held.interception()))


class DelayFault(HeldRequestFault, LastingFault):
    """A fault that delays a request or response."""

    @property
    def holds_request_s(self) -> float:
        return self.for_s


class DelayRequest(DelayFault):
    """A request, or its answer, arrives later; everything behind it on its connection waits."""

    provokes = "an answer after the client has given up waiting, and a retry that overtakes the request"
    proved_by = "the proxy holds the request now"
    kind: Literal["delay_request"]

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        held = _held(context)
        return DelayedRequest(_target(held), self.for_s, held)


class LateRequest(DelayFault):
    """A request is held until its client has given up on it and gone, and is delivered all the same."""

    provokes = "a late EndTxn or Produce of an old transaction that arrives in a new one (KIP-890)"
    proved_by = "the client closed its connection while the proxy held the request, and then a broker answered it"
    outlives_client = True
    kind: Literal["late_request"]
    for_s: SomeSeconds = Field(alias="for")
    """the time in which its client must give up on it."""
    until: FaultName | None = None
    """the request is delivered when this fault is proved, or after ``for``; without the key, once its client is gone."""
    answered: Literal["accepted", "refused"] | None = None
    """the expected answer of the broker; another answer makes the fault ineffective."""

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        held = _held(context)
        lasts_s = self.for_s if self.until else 0.0
        return DelayedRequest(
            _target(held),
            lasts_s,
            held,
            client_gone_within_s=self.for_s,
            readable=context.readable,
            accepted=None if self.answered is None else self.answered == "accepted",
        )

    @model_validator(mode="after")
    def _is_request(self) -> Self:
        if self.when.at == "response":
            raise WrongValueError(
                "answer-without-client", "no answer outlives its client; write at: request, or kind: delay_request"
            )
        return self


@dataclass(slots=True)
class DelayedRequest(Injection):
    """A request that waits on the wire until the heal.

    Attributes:
        client_gone_within_s: seconds in which its client must give up on it; 0 for a request that does not outlive its client.
        readable: the read_committed end of the output.
        accepted: whether the broker must accept it; None for either answer.
    """

    held: HeldRequest
    client_gone_within_s: float = 0.0
    readable: Callable[[], int] | None = None
    accepted: bool | None = None

    def inject(self) -> None:
        """Do nothing: the trigger holds it already."""

    def proof(self) -> Proof:
        """Show that it is held now, or that its client has gone meanwhile."""
        if not self.client_gone_within_s:
            interception = self.held.interception()
            return Proof(interception is not None and interception.outcome == "held", _facts(interception))
        interception = _wait(
            self.held, _client_gone_or_let_go, self.client_gone_within_s, "the client to give up on its request"
        )
        if interception is None or not interception.client_gone_ns:
            return Proof(
                effective=False, facts={**_facts(self.held.interception()), "problem": "its client never gave up on it"}
            )
        gone_after_ms = (interception.client_gone_ns - interception.intercepted_ns) // _NS_PER_MS
        return Proof(effective=True, facts={**interception.facts, "client_gone_after_ms": gone_after_ms})

    def heal(self) -> Mapping[str, Any]:
        """Deliver it, and return the broker's answer, and the read_committed ends before and after.

        A request counts as delivered once the toxic passes it on, but its broker may be dead. A late one without an answer
        may never have reached any broker, so it had no effect.
        """
        before = self.readable() if self.readable else 0
        self.held.let_go("deliver")
        interception = _wait(self.held, _answered_or_gone, _ANSWERED_WITHIN_S, "the broker's answer")
        if interception is None or not interception.answered_ns:
            return {**_facts(self.held.interception()), **(_UNANSWERED if self.client_gone_within_s else {})}
        seen = _newly_readable(self.readable, before) if self.readable and before else {}
        accepted = None if interception.error_code is None else interception.error_code == 0
        if self.client_gone_within_s and interception.api == "EndTxn" and accepted:
            seen = {**seen, "see": "KIP-890"}
        if self.accepted is not None and accepted is not self.accepted:
            seen = {**seen, "effective": False, "problem": _OTHERWISE[accepted]}
        return {**_facts(interception), "error_code": interception.error_code, **seen}


@dataclass(slots=True)
class RuleInjection(Injection):
    """A rule of the proxy, armed by the injection and disarmed by the heal.

    Attributes:
        name: the rule's name; unique in this system once it is armed.
    """

    rules: RequestRules
    name: str
    rule: Rule
    armed: bool = False

    def inject(self) -> None:
        self.name = self.rules.arm(self.name, self.rule)
        self.armed = True

    def heal(self) -> None:
        """Let requests pass again, and deliver the held ones."""
        if self.armed:
            self.rules.disarm(self.name)
        self.armed = False


class HoldRequests(RequestsFault):
    """All requests of one kind on some links, or all answers to them, are held; in the end they are delivered, or lost."""

    provokes = "all requests of a kind stand still: coordinators or leaders that seem dead to one client"
    proved_by = "a request is held on every link that carries such requests; with `transactional_id`, on any link"
    kind: Literal["hold_requests"]
    at: Literal["request", "response"] = "request"
    """hold the requests, or the answers to them."""
    transactional_id: Annotated[str, StringConstraints(min_length=1)] | None = None
    """a glob: only requests of these transactional ids are held."""
    then: Literal["deliver", "lose"] = "deliver"
    """their fate in the end."""

    def describe(self) -> str:
        which = "every" if self.at == "request" else "every response to"
        of = f" of {self.transactional_id}" if self.transactional_id else ""
        return f"hold_requests {which} {self.request}{of} on {self.link} {self.lasts}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        links, target = resolve_links(self.link, context, rng, to_itself=True)
        max_hold_ms = round(2000 * self.for_s) + 60_000  # the toxic must not deliver by itself before the heal
        names, ids = [link.name for link in links], self.transactional_id or ""
        rule = Rule(self.request, self.at, names, times=0, transactional_id=ids, max_hold_ms=max_hold_ms)
        return HeldRequests(target, self.for_s, context.system.rules, self.name, rule, then=self.then)


@dataclass(slots=True, kw_only=True)
class HeldRequests(RuleInjection):
    then: str

    def proof(self) -> Proof:
        missing = unmet(self._held_everywhere, self.hold_s, "a request on every link to hold", every_s=0.02)
        return Proof(not missing, {"held": sorted(self._links())})

    def heal(self) -> None:
        if self.armed and self.then == "lose":
            self.rules.release(self.name, "close")
        RuleInjection.heal(self)

    def _held_everywhere(self) -> bool:
        held = self._links()
        if self.rule.transactional_id:
            return bool(held)  # the links that carry such requests are unknown
        used = {link for link in self.rule.links if self.rules.sent(self.rule.api, [link])}
        return bool(held) and held >= used

    def _links(self) -> set[str]:
        return {interception.link for interception in self.rules.interceptions(self.name)}


def _held(context: FaultContext) -> HeldRequest:
    """Return the request that the trigger of this fault holds.

    Raises:
        InjectionError: there is none.
    """
    if context.held is None:
        raise InjectionError("no request is held; write a trigger of the kind {request: EndTxn, nth: 20}")
    return context.held


def _target(held: HeldRequest) -> str:
    interception = held.interception()
    return f"{interception.api} on {interception.link}" if interception else held.name


def _facts(interception: Interception | None) -> Mapping[str, Any]:
    return {**interception.facts, "outcome": interception.outcome} if interception else {}


def _wait(held: HeldRequest, condition: Callable[[Interception], bool], within_s: float, reason: str) -> Interception | None:
    """Wait for a condition, and return the facts about the request; None when it is not met in time."""

    def seen() -> Interception | None:
        interception = held.interception()
        return interception if interception is not None and condition(interception) else None

    try:
        return clock.wait_until(seen, within_s=within_s, reason=reason)
    except DeadlineError:
        return None


def _client_gone_or_let_go(interception: Interception) -> bool:
    """Whether the client has gone, or the request was let go because the run ended: it will not outlive its client then."""
    return interception.client_gone_ns > 0 or interception.outcome != "held"


def _answered_or_gone(interception: Interception) -> bool:
    """Whether the request was answered, or went with its connection: then no answer comes."""
    return interception.answered_ns > 0 or interception.outcome in ("client gone", *_LOST)


def _newly_readable(readable: Callable[[], int], before: int) -> Mapping[str, Any]:
    """Count newly readable rows: when nothing else commits, they belong to an undecided transaction."""

    def more() -> int:
        now = readable()
        return now if now > before else 0

    try:
        after = clock.wait_until(more, within_s=_SEEN_WITHIN_S, reason="rows of an undecided transaction")
    except DeadlineError:
        after = before
    return {"readable_before": before, "readable_after": after}
