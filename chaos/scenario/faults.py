"""Faults, as they are declared. To add one: docs/adding-a-fault.md."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from chaos.scenario.apis import Api
from chaos.scenario.declared import Declared, FaultName, Stream
from chaos.scenario.moments import OnRequest, When
from chaos.scenario.targets import Broker, BrokerTarget, Executors, ExecutorTarget, LinkPattern, Links
from chaos.scenario.units import Seconds, SomeSeconds, spoken_seconds

Connection = Literal["closed", "kept"]
_STREAMS = {"up": "upstream", "down": "downstream", "both": "both ways"}


class FaultBase(Declared):
    """What all faults have."""

    name: FaultName = ""
    when: When

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        raise NotImplementedError


class LastingFault(FaultBase):
    """A fault for a declared time, or until another fault of the scenario was proved, if that comes first."""

    for_s: SomeSeconds = Field(alias="for")
    until: FaultName | None = None

    @property
    def lasts(self) -> str:
        """How long, in words."""
        return f"for {spoken_seconds(self.for_s)}" + (f" or until {self.until} is proved" if self.until else "")


class LinkFault(LastingFault):
    """A fault of links."""

    link: Links


class CutLink(LinkFault):
    """Listener and connections of a link are closed: its clients learn at once."""

    kind: Literal["cut_link"]

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"cut_link {self.link} {self.lasts}"


class BlackholeLink(LinkFault):
    """A link swallows bytes: its clients learn by their own timeouts."""

    kind: Literal["blackhole_link"]
    stream: Stream = "both"

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"blackhole_link {self.link}, {_STREAMS[self.stream]}, {self.lasts}"


class DelayLink(LinkFault):
    """Everything on a link arrives later."""

    kind: Literal["delay_link"]
    latency_s: SomeSeconds = Field(alias="latency")
    jitter_s: Seconds = Field(alias="jitter", default=0.0)
    stream: Stream = "both"

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        jitter = f" ± {spoken_seconds(self.jitter_s)}" if self.jitter_s else ""
        late = f"{spoken_seconds(self.latency_s)}{jitter}"
        return f"delay_link {self.link} by {late}, {_STREAMS[self.stream]}, {self.lasts}"


class KillBroker(FaultBase):
    """Brokers die by SIGKILL, and are started again."""

    kind: Literal["kill_broker"]
    target: Broker
    restart_after_s: Seconds = Field(alias="restart_after", default=3.0)

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"kill_broker {self.target}, restarted after {spoken_seconds(self.restart_after_s)}"


class PauseBroker(FaultBase):
    """Brokers are frozen by SIGSTOP, and wake up as zombies."""

    kind: Literal["pause_broker"]
    target: Broker
    for_s: SomeSeconds = Field(alias="for")

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"pause_broker {self.target} for {spoken_seconds(self.for_s)}"


class CrashExecutor(FaultBase):
    """Executors of the pipeline die by SIGKILL; Spark replaces them."""

    kind: Literal["crash_executor"]
    target: Executors = ExecutorTarget("busiest")

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"crash_executor {self.target}"


class CrashPipeline(FaultBase):
    """The pipeline's process dies by SIGKILL (the driver, where it runs on Spark), and is started again."""

    kind: Literal["crash_pipeline"]
    restart_after_s: Seconds = Field(alias="restart_after", default=1.0)

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"crash_pipeline, restarted after {spoken_seconds(self.restart_after_s)}"


class PausePipeline(FaultBase):
    """The pipeline's processes are frozen by SIGSTOP, past its session and transaction timeouts or not, and wake up again."""

    kind: Literal["pause_pipeline"]
    for_s: SomeSeconds = Field(alias="for")

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"pause_pipeline for {spoken_seconds(self.for_s)}"


class ZombiePipeline(FaultBase):
    """The pipeline is frozen, a second instance with the same names takes over, and the first wakes up as a zombie."""

    kind: Literal["zombie_pipeline"]
    for_s: SomeSeconds = Field(alias="for")

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        return f"zombie_pipeline, woken up after {spoken_seconds(self.for_s)}"


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
    """All requests of one kind on some links, or all answers to them, are held."""

    kind: Literal["hold_requests"]
    request: Api
    at: Literal["request", "response"] = "request"

    @property
    def what(self) -> str:
        """The fault in words, without its trigger."""
        which = "every" if self.at == "request" else "every response to"
        return f"hold_requests {which} {self.request} on {self.link} {self.lasts}"


Fault = Annotated[
    CutLink
    | BlackholeLink
    | DelayLink
    | KillBroker
    | PauseBroker
    | CrashExecutor
    | CrashPipeline
    | PausePipeline
    | ZombiePipeline
    | LoseRequest
    | LoseResponse
    | DelayRequest
    | LateRequest
    | HoldRequests,
    Field(discriminator="kind"),
]


def ends_of(link: LinkPattern) -> list[BrokerTarget]:
    """The broker targets at the ends of a link."""
    return [end for end in (link.left, link.right) if isinstance(end, BrokerTarget)]


def broker_targets(fault: Fault) -> list[BrokerTarget]:
    """The broker targets that a fault names."""
    if isinstance(fault, LinkFault):
        return ends_of(fault.link)
    return [fault.target] if isinstance(fault, KillBroker | PauseBroker) else []
