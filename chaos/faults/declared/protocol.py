"""Faults of requests."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, model_validator

from chaos.faults.declared.base import FaultBase, LastingFault, LinkFault
from chaos.grammar.triggers import Api, OnRequest

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

    when: RequestMoment

    @property
    def frame(self) -> str:
        """What is held, in words."""
        return str(self.when).removeprefix("while ").removesuffix(" is on the wire")


class LoseRequest(FrameFault):
    """A request never arrives. The connection is closed too (a stream cannot lose its middle), unless it is kept."""

    kind: Literal["lose_request"]
    connection: Connection = "closed"

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"lose_request {self.frame}, connection {self.connection}"

    @model_validator(mode="after")
    def _is_request(self) -> Self:
        if self.when.at == "response":
            raise ValueError("lose_request loses a request; to lose the answer, write kind: lose_response")
        return self


class LoseResponse(FrameFault):
    """A request was carried out and its answer never arrives."""

    kind: Literal["lose_response"]
    when: Annotated[RequestMoment, BeforeValidator(_at_response)]
    connection: Connection = "closed"

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"lose_response: {self.frame}, connection {self.connection}"


class DelayRequest(FrameFault, LastingFault):
    """A request, or its answer, arrives later; everything behind it on its connection waits."""

    kind: Literal["delay_request"]

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"delay_request {self.frame} {self.lasts}"


class LateRequest(FrameFault, LastingFault):
    """A request is held past its client's patience, and delivered although the client has gone (KIP-890 is about this).

    ``for`` is how long the client may take to give up on it. It is delivered then, or when the fault in ``until`` is proved.
    """

    kind: Literal["late_request"]

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"late_request {self.frame} {self.lasts}"

    @model_validator(mode="after")
    def _is_request(self) -> Self:
        if self.when.at == "response":
            raise ValueError("no answer outlives its client; write at: request, or kind: delay_request")
        return self


class HoldRequests(LinkFault):
    """All requests of one kind on some links, or all answers to them, are held; in the end they go on, or are lost."""

    kind: Literal["hold_requests"]
    request: Api
    at: Literal["request", "response"] = "request"
    then: Literal["deliver", "lose"] = "deliver"

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        which = "every" if self.at == "request" else "every response to"
        return f"hold_requests {which} {self.request} on {self.link} {self.lasts}"
