"""What a fault is aimed at, as declared: roles and links, to be resolved when the fault is injected.

    leader(datasink, 0)   follower(datasource, 2)   transaction_coordinator   transaction_coordinator(1)
    controller   any   all   broker-2               executor(busiest)   executor(any)   executor(all)
    spark->leader(datasink, 0)   *->broker-2   broker-*<->controller
"""

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

TOPICS = ("datasource", "datasink")
CLIENTS = ("spark", "loader")
_ROLES = ("leader", "follower", "transaction_coordinator", "controller", "any", "all")
_EXECUTORS = ("busiest", "any", "all")
_CALL = re.compile(r"(?P<role>[a-z_]+)\((?P<arguments>[^()]*)\)")
_BROKER = re.compile(r"broker-([1-9])")
_EXECUTOR = re.compile(r"executor\((\w*)\)")

Role = Literal["leader", "follower", "transaction_coordinator", "controller", "any", "all", "broker"]


@dataclass(frozen=True, slots=True)
class BrokerTarget:
    """One or more brokers, by what they are.

    Attributes:
        role: ``broker`` means the one with this number.
        topic, partition: of a leader or follower; a coordinator has the source partition of its transactional.id.
        number: of ``broker-2``.
    """

    role: Role
    topic: str = ""
    partition: int = 0
    number: int = 0

    def __str__(self) -> str:
        match self.role:
            case "broker":
                return f"broker-{self.number}"
            case "leader" | "follower":
                return f"{self.role}({self.topic}, {self.partition})"
            case "transaction_coordinator":
                return f"{self.role}({self.partition})"
            case _:
                return self.role


@dataclass(frozen=True, slots=True)
class ExecutorTarget:
    """One or more executors of the pipeline."""

    which: Literal["busiest", "any", "all"]

    def __str__(self) -> str:
        return f"executor({self.which})"


@dataclass(frozen=True, slots=True)
class LinkPattern:
    """Links from the left to the right.

    An endpoint is a client, a broker target, ``broker-*``, or ``*``: all there are (on the right, where connections are
    accepted, these are the brokers). A broker's link to itself is no cable and never meant.
    """

    left: str | BrokerTarget
    right: str | BrokerTarget
    both_ways: bool = False

    def __str__(self) -> str:
        return f"{self.left}{'<->' if self.both_ways else '->'}{self.right}"


def broker_target(text: Any) -> BrokerTarget:
    """Read a broker target.

    Raises:
        ValueError: it is none; the message says what there is.
    """
    if isinstance(text, BrokerTarget):
        return text
    text = str(text).strip()
    if number := _BROKER.fullmatch(text):
        return BrokerTarget("broker", number=int(number[1]))
    call = _CALL.fullmatch(text)
    role = call["role"] if call else text
    if role not in _ROLES:
        raise ValueError(f"{text!r} is no broker{_hint(role, (*_ROLES, 'broker-1'))}; {_BROKERS_HELP}")
    arguments = [argument.strip() for argument in call["arguments"].split(",")] if call else []
    return _with_arguments(role, arguments, text)


def _with_arguments(role: str, arguments: list[str], text: str) -> BrokerTarget:
    match role, arguments:
        case ("leader" | "follower"), [topic, partition] if partition in ("0", "1", "2"):
            if topic not in TOPICS:
                raise ValueError(f"{topic!r} is no topic{_hint(topic, TOPICS)}; the topics are {' and '.join(TOPICS)}")
            return BrokerTarget("leader" if role == "leader" else "follower", topic, int(partition))
        case "transaction_coordinator", []:
            return BrokerTarget("transaction_coordinator")
        case "transaction_coordinator", [partition] if partition in ("0", "1", "2"):
            return BrokerTarget("transaction_coordinator", partition=int(partition))
        case "controller", []:
            return BrokerTarget("controller")
        case "any", []:
            return BrokerTarget("any")
        case "all", []:
            return BrokerTarget("all")
    raise ValueError(f"{text!r} has the wrong arguments; {_BROKERS_HELP}")


def executor_target(text: Any) -> ExecutorTarget:
    """Read an executor target.

    Raises:
        ValueError: it is none.
    """
    if isinstance(text, ExecutorTarget):
        return text
    call = _EXECUTOR.fullmatch(str(text).strip())
    match call[1] if call else None:
        case "busiest":
            return ExecutorTarget("busiest")
        case "any":
            return ExecutorTarget("any")
        case "all":
            return ExecutorTarget("all")
    raise ValueError(f"{text!r} is no executor; write executor(busiest), executor(any) or executor(all)")


def link_pattern(text: Any) -> LinkPattern:
    """Read a pattern of links.

    Raises:
        ValueError: it is none, or names a link that cannot be.
    """
    if isinstance(text, LinkPattern):
        return text
    arrow = "<->" if "<->" in str(text) else "->"
    left, found, right = (part.strip() for part in str(text).partition(arrow))
    if not found or not left or not right:
        raise ValueError(f"{text!r} is no link; write FROM->TO, e.g. spark->broker-1, *->leader(datasink, 0) or broker-1<->broker-2")
    ends = _endpoint(left), _endpoint(right)
    if ends[1] in CLIENTS:
        raise ValueError(f"nobody opens connections to {right}: write {right}->{left}, and choose the direction of the bytes with stream")
    if arrow == "<->" and ends[0] in CLIENTS:
        raise ValueError(f"nobody opens connections to {left}: write {left}->{right} with stream: both")
    return LinkPattern(*ends, both_ways=arrow == "<->")


def _endpoint(text: str) -> str | BrokerTarget:
    if text in (*CLIENTS, "*", "broker-*"):
        return text
    try:
        return broker_target(text)
    except ValueError as error:
        raise ValueError(f"{error}, or one of spark, loader, broker-*, *") from None


def _hint(word: str, known: tuple[str, ...]) -> str:
    close = get_close_matches(word, known, n=1)
    return f" (did you mean {close[0]}?)" if close else ""


_BROKERS_HELP = (
    "a broker is leader(TOPIC, P), follower(TOPIC, P), transaction_coordinator, transaction_coordinator(P), controller, any, all or broker-N"
)
_AS_TEXT = (PlainSerializer(str), WithJsonSchema({"type": "string"}))
Broker = Annotated[BrokerTarget, BeforeValidator(broker_target), *_AS_TEXT]
Executors = Annotated[ExecutorTarget, BeforeValidator(executor_target), *_AS_TEXT]
Links = Annotated[LinkPattern, BeforeValidator(link_pattern), *_AS_TEXT]
