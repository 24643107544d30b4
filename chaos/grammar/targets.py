"""What a fault is aimed at, as declared: roles and links, to be resolved when the fault is injected.

==========  ==========================================================================================
brokers     leader(datasink, 0) · follower(datasource, 2) · transaction_coordinator ·
            transaction_coordinator(1) · group_coordinator · controller · any · all · broker-2 ·
            receiver · sender (of the request that the trigger holds, or that of the fault which is followed)
executors   executor(busiest) · executor(any) · executor(all) · executor(2): the one on worker-2
workers     worker(any) · worker(all) · worker-2
links       spark->leader(datasink, 0) · ``*->broker-2`` · ``broker-*<->controller`` ·
            ``pipeline->*``: of whatever is under test (``spark``, or ``app`` for other clients)
==========  ==========================================================================================
"""

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from chaos.grammar.base import did_you_mean, shown

TOPICS = ("datasource", "datasink")
CLIENTS = ("spark", "app", "loader", "pipeline")
_PLAIN: tuple["Role", ...] = (
    "transaction_coordinator",
    "group_coordinator",
    "controller",
    "receiver",
    "sender",
    "any",
    "all",
)
_ROLES = ("leader", "follower", *_PLAIN)
_SINGLE = ("leader", "transaction_coordinator", "group_coordinator", "controller", "receiver", "sender", "broker")
_WORDS = (*CLIENTS, "broker-*", "*")
_EXECUTORS = ("executor(busiest)", "executor(any)", "executor(all)")
_PARTITIONS = ("0", "1", "2")
_CALL = re.compile(r"(?P<role>[a-z_]+)\((?P<arguments>[^()]*)\)")
_BROKER = re.compile(r"broker-([1-9])")
BROKERS_HELP = (
    "a broker is leader(TOPIC, P), follower(TOPIC, P), transaction_coordinator, transaction_coordinator(P), "
    "group_coordinator, controller, receiver or sender (of the held request), any, all or broker-N"
)
_WORKERS = ("worker(any)", "worker(all)", "worker-1")
_WORKER = re.compile(r"worker-([1-9])")
_EXECUTOR = re.compile(r"executor\(([1-9])\)")
_EXECUTORS_HELP = "write executor(busiest), executor(any), executor(all), or executor(2) for the one on worker-2"
_WORKERS_HELP = "write worker(any), worker(all) or worker-2"
_LINKS_HELP = "write FROM->TO, e.g. spark->broker-1, *->leader(datasink, 0) or broker-1<->broker-2"

Role = Literal[
    "leader",
    "follower",
    "transaction_coordinator",
    "group_coordinator",
    "controller",
    "receiver",
    "sender",
    "any",
    "all",
    "broker",
]


@dataclass(frozen=True, slots=True)
class BrokerTarget:
    """One or more brokers, by what they are.

    Attributes:
        role: ``broker`` means the one with this number.
        topic, partition: of a leader or follower; a coordinator has the source partition of its transactional.id,
            0 when none is declared.
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
            case "transaction_coordinator" if self.partition:
                return f"{self.role}({self.partition})"
            case _:
                return self.role


@dataclass(frozen=True, slots=True)
class ExecutorTarget:
    """One or more executors of the pipeline.

    Attributes:
        number: of the worker, where ``which`` says that it is the executor on a worker.
    """

    which: Literal["busiest", "any", "all", "on"]
    number: int = 0

    def __str__(self) -> str:
        return f"executor({self.number or self.which})"


@dataclass(frozen=True, slots=True)
class WorkerTarget:
    """One or more of Spark's workers.

    Attributes:
        number: of ``worker-2``, where ``which`` says that it is the one with this number.
    """

    which: Literal["any", "all", "number"]
    number: int = 0

    def __str__(self) -> str:
        return f"worker-{self.number}" if self.number else f"worker({self.which})"


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
    return text if isinstance(text, BrokerTarget) else _broker(_text(text, "broker", BROKERS_HELP))


def executor_target(text: Any) -> ExecutorTarget:
    """Read an executor target.

    Raises:
        ValueError: it is none; the message says what there is.
    """
    if isinstance(text, ExecutorTarget):
        return text
    text = _text(text, "executor", _EXECUTORS_HELP)
    if number := _EXECUTOR.fullmatch(text):
        return ExecutorTarget("on", int(number[1]))
    match text:
        case "executor(busiest)":
            return ExecutorTarget("busiest")
        case "executor(any)":
            return ExecutorTarget("any")
        case "executor(all)":
            return ExecutorTarget("all")
        case other:
            raise ValueError(f"{shown(other)} is no executor{did_you_mean(other, _EXECUTORS)}; {_EXECUTORS_HELP}")


def worker_target(text: Any) -> WorkerTarget:
    """Read a worker target.

    Raises:
        ValueError: it is none; the message says what there is.
    """
    if isinstance(text, WorkerTarget):
        return text
    text = _text(text, "worker", _WORKERS_HELP)
    if number := _WORKER.fullmatch(text):
        return WorkerTarget("number", int(number[1]))
    match text:
        case "worker(any)":
            return WorkerTarget("any")
        case "worker(all)":
            return WorkerTarget("all")
        case other:
            raise ValueError(f"{shown(other)} is no worker{did_you_mean(other, _WORKERS)}; {_WORKERS_HELP}")


def link_pattern(text: Any) -> LinkPattern:
    """Read a pattern of links.

    Raises:
        ValueError: it is none, or names a link that cannot be.
    """
    if isinstance(text, LinkPattern):
        return text
    text = _text(text, "link", _LINKS_HELP)
    arrow = "<->" if "<->" in text else "->"
    left, found, right = (part.strip() for part in text.partition(arrow))
    if not found or not left or not right:
        raise ValueError(f"{shown(text)} is no link; {_LINKS_HELP}")
    pattern = LinkPattern(_endpoint(left), _endpoint(right), both_ways=arrow == "<->")
    _must_be_possible(pattern)
    return pattern


def _must_be_possible(link: LinkPattern) -> None:
    if link.right in CLIENTS:
        advice = (
            ""
            if link.left in CLIENTS
            else f": write {link.right}->{link.left}, and choose the direction of the bytes with `stream`"
        )
        raise ValueError(f"nobody opens connections to a client{advice}")
    if link.both_ways and link.left in CLIENTS:
        raise ValueError(f"nobody opens connections to a client: write {link.left}->{link.right} with `stream: both`")
    if link.left == link.right and isinstance(link.left, BrokerTarget) and link.left.role in _SINGLE:
        raise ValueError(f"{link.left} has no link to itself; name two different ends")


def _endpoint(text: str) -> str | BrokerTarget:
    return text if text in _WORDS else _broker(text, _WORDS)


def _broker(text: str, others: tuple[str, ...] = ()) -> BrokerTarget:
    """Read a broker target where `others` could have been written as well."""
    if number := _BROKER.fullmatch(text):
        return BrokerTarget("broker", number=int(number[1]))
    if "(" in text and not text.endswith(")"):
        raise ValueError(f'{shown(text)} lacks its `)`; within {{…}} a comma needs quotes: "leader(datasink, 0)"')
    call = _CALL.fullmatch(text)
    role = call["role"] if call else text
    if role not in _ROLES:
        instead = f", or one of {', '.join(others)}" if others else ""
        hint = did_you_mean(role, (*_ROLES, *others, "broker-1"))
        raise ValueError(f"{shown(text)} is no broker{hint}; {BROKERS_HELP}{instead}")
    arguments = [argument.strip() for argument in call["arguments"].split(",")] if call else []
    return _with_arguments(role, arguments, text)


def _with_arguments(role: str, arguments: list[str], text: str) -> BrokerTarget:
    match role, arguments:
        case "leader" | "follower", [topic, partition]:
            _must_be_topic(topic)
            return BrokerTarget("leader" if role == "leader" else "follower", topic, _partition(partition))
        case "transaction_coordinator", [partition]:
            return BrokerTarget("transaction_coordinator", partition=_partition(partition))
        case _, [] if role in _PLAIN:
            return BrokerTarget(_PLAIN[_PLAIN.index(role)])
        case _:
            raise ValueError(f"{shown(text)} has the wrong arguments; {BROKERS_HELP}")


def _must_be_topic(text: str) -> None:
    if text not in TOPICS:
        raise ValueError(f"{shown(text)} is no topic{did_you_mean(text, TOPICS)}; the topics are {' and '.join(TOPICS)}")


def _partition(text: str) -> int:
    if text not in _PARTITIONS:
        raise ValueError(f"{shown(text)} is no partition; the partitions are {', '.join(_PARTITIONS)}")
    return int(text)


def _text(value: Any, wanted: str, advice: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{shown(value)} is no {wanted}; {advice}")  # noqa: TRY004 - pydantic gathers ValueErrors only
    return value.strip()


def _as_text(*examples: str) -> tuple[PlainSerializer, WithJsonSchema]:
    """How a target is written down, in files and in the schema."""
    return PlainSerializer(str), WithJsonSchema({"type": "string", "examples": list(examples)})


Broker = Annotated[BrokerTarget, BeforeValidator(broker_target), *_as_text("leader(datasink, 0)", "transaction_coordinator")]
Executors = Annotated[ExecutorTarget, BeforeValidator(executor_target), *_as_text(*_EXECUTORS)]
Workers = Annotated[WorkerTarget, BeforeValidator(worker_target), *_as_text(*_WORKERS)]
Links = Annotated[LinkPattern, BeforeValidator(link_pattern), *_as_text("spark->leader(datasink, 0)", "broker-*<->controller")]
