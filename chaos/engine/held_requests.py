"""The frame that a trigger holds: stopped on the wire by the `kafka` toxic while its fault is injected, then let go."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from chaos.cluster.rules import Interception, RequestRules, Rule
from chaos.faults.base import FaultContext
from chaos.faults.targets import resolve_links
from chaos.grammar.targets import LinkPattern
from chaos.grammar.triggers import OF_BROKERS, OnRequest

_PEERS = LinkPattern("broker-*", "broker-*")
_PIPELINE = LinkPattern("pipeline", "*")
_MAX_HOLD_MS = 120_000


@dataclass(frozen=True, slots=True)
class RequestHold:
    """A rule that waits for its frame.

    Attributes:
        name: of the rule.
        links: their names.
    """

    name: str
    when: OnRequest
    links: Sequence[str]
    rules: RequestRules

    def interception(self) -> Interception | None:
        """The frame, once it is held."""
        return next(iter(self.rules.interceptions(self.name)), None)

    def missed(self) -> Mapping[str, Any]:
        """What passed instead: a request that is never sent is told from one that did not come often enough.

        Returns:
            request, links, sent (in this run), unparsed (connections of this run that are not Kafka's protocol).
        """
        return {
            "request": self.when.request,
            "links": list(self.links),
            "sent": self.rules.sent(self.when.request, self.links),
            "unparsed": self.rules.unparsed(self.links),
        }

    def let_go(self, how: str) -> None:
        """``deliver`` it, ``drop`` it, or ``close`` its connection."""
        self.rules.release(self.name, how)

    def remove(self) -> None:
        """Take the rule away; what is held is delivered. Idempotent."""
        self.rules.disarm(self.name)


def hold_request(
    name: str, when: OnRequest, context: FaultContext, rng: Random, *, late: bool, hold_s: float = 0.0
) -> RequestHold:
    """Arm a rule for the frame that a trigger declares.

    Args:
        late: the frame outlives its client.
        hold_s: how long the fault will hold it; the toxic must not deliver it by itself before.

    Raises:
        InjectionError: no link fits.
    """
    pattern = when.link or (_PEERS if when.request in OF_BROKERS else _PIPELINE)
    links = [link.name for link in resolve_links(pattern, context, rng)[0]]
    rules = context.system.rules
    rule = Rule(
        api=when.request,
        at=when.at,
        links=links,
        action="late" if late else "hold",
        nth=when.nth,
        client_id=when.client_id or "",
        transactional_id=when.transactional_id or "",
        max_hold_ms=_MAX_HOLD_MS + round(2000 * hold_s),
    )
    return RequestHold(rules.arm(name, rule), when, links, rules)
