"""The proxy answers a request with one of Kafka's error codes, in the broker's place; the broker never sees it.

No crash tests a client's handling of error codes: it must retry after a retriable one, abort after an abortable one, and end
after a fatal one. The toxic writes the answer in the version of the client's request (``toxiproxy/kafka/answer.go``) and keeps
the order of answers on the connection.
"""

from dataclasses import dataclass
from random import Random
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from chaos.cluster.protocol import ERROR_CODES
from chaos.cluster.rules import Interception, Rule
from chaos.faults.base import FaultContext, Injection, Proof, RequestsFault, unmet
from chaos.faults.requests import RuleInjection
from chaos.faults.targets import resolve_links
from chaos.grammar.base import WrongValueError, did_you_mean, shown
from chaos.grammar.units import SomeSeconds

_ANSWERED = "answered"


def _error(text: Any) -> str:
    if isinstance(text, str) and text in ERROR_CODES:
        return text
    hint = did_you_mean(text, ERROR_CODES)
    raise WrongValueError(
        "unknown-error-name", f"{shown(text)} is not one of Kafka's errors{hint}; write its name, e.g. CONCURRENT_TRANSACTIONS"
    )


_CODE = {"title": "error code", "type": "string", "examples": ["NOT_COORDINATOR"]}
ErrorName = Annotated[str, BeforeValidator(_error), WithJsonSchema({**_CODE, "enum": sorted(ERROR_CODES)})]
AnsweredApi = Literal[
    "Produce",
    "EndTxn",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "TxnOffsetCommit",
    "FindCoordinator",
    "InitProducerId",
    "Fetch",
    "Metadata",
    "Heartbeat",
]


class AnswerError(RequestsFault):
    """The proxy answers the next requests of one kind with an error code; the broker never sees them."""

    provokes = "the client's own handling of a retriable, abortable or fatal error (KIP-98, KIP-360, KIP-1050)"
    proved_by = "the proxy names each request that it answered, with the code"
    kind: Literal["answer_error"]
    request: AnsweredApi
    for_s: SomeSeconds = Field(alias="for")
    """how long it waits for these requests."""
    error: ErrorName
    """its name, as in https://kafka.apache.org/protocol.html#protocol_error_codes."""
    times: Annotated[int, Field(strict=True, ge=1, le=1000)] = 1
    """the number of requests that get this answer."""

    def describe(self) -> str:
        times = "once" if self.times == 1 else f"{self.times} times"
        return f"answer_error {self.error} to {self.request} on {self.link}, {times}, within {self.lasts.removeprefix('for ')}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        links, target = resolve_links(self.link, context, rng, to_itself=True)
        names, code = [link.name for link in links], ERROR_CODES[self.error]
        rule = Rule(self.request, "request", names, action="answer", times=self.times, error_code=code)
        return AnsweredRequests(target, 0.0, context.system.rules, self.name, rule, error=self.error, within_s=self.for_s)


@dataclass(slots=True, kw_only=True)
class AnsweredRequests(RuleInjection):
    """Requests that the proxy answers, up to a number.

    Attributes:
        within_s: seconds to wait for them.
    """

    error: str
    within_s: float

    def proof(self) -> Proof:
        reason = f"{self.rule.times} {self.rule.api} to answer with {self.error}"
        missing = unmet(lambda: len(self._answered()) >= self.rule.times, self.within_s, reason, every_s=0.02)
        answered = self._answered()
        facts = {
            "times": f"{len(answered)} of {self.rule.times}",
            "error": self.error,
            "error_code": self.rule.error_code,
            "answered": [interception.facts for interception in answered],
        }
        return Proof(len(answered) == self.rule.times, facts | missing)

    def _answered(self) -> list[Interception]:
        return [
            interception
            for interception in self.rules.interceptions(self.name)
            if interception.outcome == _ANSWERED and interception.error_code == self.rule.error_code
        ]
