"""Targets of faults: roles and links, resolved when the fault is injected.

=========  ==========================================================================================================
brokers    ``leader(orders, 0)``, ``follower(orders, 2)``, of any topic of the file; ``transaction_coordinator`` of the
           pipeline's first transactional id or, if none is declared, of the id that was last on the wire;
           ``transaction_coordinator(1)`` of the id of source partition 1, which must be declared;
           ``group_coordinator`` of the pipeline's group; ``controller``; ``any``; ``all``; ``broker-2``; ``receiver`` and
           ``sender`` of the request that the trigger holds, or that the trigger of the preceding fault holds
executors  ``executor(busiest)``, ``executor(any)``, ``executor(all)``, ``executor(2)`` on worker-2
workers    ``worker(any)``, ``worker(all)``, ``worker-2``
links      ``FROM->TO`` or, between brokers, ``FROM<->TO``: ``spark->leader(orders, 0)``, ``*->broker-2``,
           ``broker-*<->controller``. An end is a broker, ``broker-*``, ``*``, or, on the left, a client: ``spark``,
           ``app`` (a pipeline without Spark), ``loader``, or ``pipeline``, the client under test. From a client, a link
           may also lead to ``service(NAME)``, one of ``system: services``; ``*`` does not include services
=========  ==========================================================================================================
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BeforeValidator, PlainSerializer, StringConstraints, WithJsonSchema

from chaos.grammar.base import WrongValueError, did_you_mean, shown

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
Target = TypeVar("Target")
CLIENTS = ("spark", "app", "loader", "pipeline")
BROKERS_HELP = (
    "a broker is leader(TOPIC, P), follower(TOPIC, P), transaction_coordinator, transaction_coordinator(P), "
    "group_coordinator, controller, receiver or sender (of the held request), any, all or broker-N"
)
_WITH_TOPIC: tuple[Role, ...] = ("leader", "follower")
_ALONE: tuple[Role, ...] = tuple(role for role in get_args(Role) if role not in (*_WITH_TOPIC, "broker"))
_SEVERAL: tuple[Role, ...] = ("follower", "any", "all")  # these may be different brokers at the two ends of a link
SERVICE_NAME = r"[a-z][a-z0-9_]{0,39}"
ServiceName = Annotated[str, StringConstraints(pattern=rf"^{SERVICE_NAME}$"), WithJsonSchema({"type": "string"})]
_SERVICE = re.compile(rf"service\(\s*(?P<name>{SERVICE_NAME})\s*\)")
_ENDPOINTS = (*CLIENTS, "broker-*", "*")
_PARTITION = re.compile(r"0|[1-9][0-9]{0,3}")
_CALL = re.compile(r"(?P<role>[a-z_]+)\((?P<arguments>[^()]*)\)")
_BROKER = re.compile(r"broker-([1-9])")
_EXECUTORS_HELP = "write executor(busiest), executor(any), executor(all), or executor(2) for the one on worker-2"
_WORKERS_HELP = "write worker(any), worker(all) or worker-2"
_LINKS_HELP = "write FROM->TO, e.g. spark->broker-1, *->leader(orders, 0) or broker-1<->broker-2"


@dataclass(frozen=True, slots=True)
class BrokerTarget:
    """One or more brokers, named by their role.

    Attributes:
        role: ``broker`` means the broker with this number.
        topic, partition: for a leader or follower, the topic as the file names it; for a transaction coordinator, the source
            partition of its transactional.id, 0 when none is declared.
        number: the number in ``broker-2``; 0 for all other roles.
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
        number: the number of the executor's worker, if ``which`` is ``on``.
    """

    which: Literal["busiest", "any", "all", "on"]
    number: int = 0

    def __str__(self) -> str:
        return f"executor({self.number or self.which})"


@dataclass(frozen=True, slots=True)
class WorkerTarget:
    """One or more of Spark's workers.

    Attributes:
        number: the number in ``worker-2``, if ``which`` is ``number``.
    """

    which: Literal["any", "all", "number"]
    number: int = 0

    def __str__(self) -> str:
        return f"worker-{self.number}" if self.number else f"worker({self.which})"


@dataclass(frozen=True, slots=True)
class ServiceTarget:
    """A named server that a pipeline uses beside Kafka."""

    name: str

    def __str__(self) -> str:
        return f"service({self.name})"


@dataclass(frozen=True, slots=True)
class LinkPattern:
    """Links from the left to the right.

    An endpoint is a client, a broker target, ``broker-*``, or ``*`` for all endpoints; the right one may also be a service.
    Connections are accepted on the right, so ``*`` stands for the brokers there. The pattern never includes a link of a broker
    to itself.
    """

    left: str | BrokerTarget
    right: str | BrokerTarget | ServiceTarget
    both_ways: bool = False

    def __str__(self) -> str:
        return f"{self.left}{'<->' if self.both_ways else '->'}{self.right}"


_EXECUTORS: Mapping[str, ExecutorTarget] = {
    str(target): target
    for target in (
        *(ExecutorTarget("busiest"), ExecutorTarget("any"), ExecutorTarget("all")),
        *(ExecutorTarget("on", number) for number in range(1, 10)),
    )
}
_WORKERS: Mapping[str, WorkerTarget] = {
    str(target): target
    for target in (*(WorkerTarget("any"), WorkerTarget("all")), *(WorkerTarget("number", number) for number in range(1, 10)))
}


def broker_target(text: Any) -> BrokerTarget:
    """Read a broker target.

    Raises:
        ValueError: it is not a broker target; the message lists what can be written.
    """
    return text if isinstance(text, BrokerTarget) else _broker(_stripped(text, "a broker", BROKERS_HELP))


def executor_target(text: Any) -> ExecutorTarget:
    """Read an executor target; errors as in `broker_target`."""
    return text if isinstance(text, ExecutorTarget) else _named(text, "an executor", _EXECUTORS, _EXECUTORS_HELP)


def worker_target(text: Any) -> WorkerTarget:
    """Read a worker target; errors as in `broker_target`."""
    return text if isinstance(text, WorkerTarget) else _named(text, "a worker", _WORKERS, _WORKERS_HELP)


def _named(text: Any, wanted: str, targets: Mapping[str, Target], advice: str) -> Target:
    text = _stripped(text, wanted, advice)
    if text not in targets:
        raise WrongValueError("not-a-target", f"{shown(text)} is not {wanted}{did_you_mean(text, targets)}; {advice}")
    return targets[text]


def link_pattern(text: Any) -> LinkPattern:
    """Read a pattern of links.

    Raises:
        ValueError: it is not a pattern of links, or names a link that cannot exist.
    """
    if isinstance(text, LinkPattern):
        return text
    text = _stripped(text, "a link", _LINKS_HELP)
    arrow = "<->" if "<->" in text else "->"
    left, found, right = (part.strip() for part in text.partition(arrow))
    if not found or not left or not right:
        raise WrongValueError("not-a-link", f"{shown(text)} is not a link; {_LINKS_HELP}")
    begin, service = _endpoint(left), _SERVICE.fullmatch(right)
    end = ServiceTarget(service["name"]) if service else _endpoint(right)
    pattern = LinkPattern(begin, end, both_ways=arrow == "<->")
    _must_be_possible(pattern)
    return pattern


def _must_be_possible(link: LinkPattern) -> None:
    if isinstance(link.right, ServiceTarget):
        if link.left not in (*CLIENTS, "*") or link.both_ways:
            raise WrongValueError(
                "service-without-client",
                f"only clients connect to a service, and a service connects to nothing; write pipeline->{link.right}",
            )
        return
    if link.right in CLIENTS:
        turned = f": write {link.right}->{link.left}, and choose the direction of the bytes with `stream`"
        raise WrongValueError(
            "clients-accept-nothing", f"clients accept no connections{'' if link.left in CLIENTS else turned}"
        )
    if link.both_ways and link.left in CLIENTS:
        raise WrongValueError(
            "client-both-ways", f"clients accept no connections: write {link.left}->{link.right} with `stream: both`"
        )
    if link.left == link.right and isinstance(link.left, BrokerTarget) and link.left.role not in _SEVERAL:
        raise WrongValueError("link-to-itself", f"{link.left} has no link to itself; name two different ends")


def _endpoint(text: str) -> str | BrokerTarget:
    return text if text in _ENDPOINTS else _broker(text, _ENDPOINTS)


def _broker(text: str, others: tuple[str, ...] = ()) -> BrokerTarget:
    """Read a broker target; an error also lists `others`, the other words that are allowed here."""
    if number := _BROKER.fullmatch(text):
        return BrokerTarget("broker", number=int(number[1]))
    if "(" in text and not text.endswith(")"):
        raise WrongValueError(
            "unclosed-target", f'{shown(text)} is missing its `)`; within {{…}} a comma needs quotes: "leader(orders, 0)"'
        )
    call = _CALL.fullmatch(text)
    role = call["role"] if call else text
    roles = (*_WITH_TOPIC, *_ALONE)
    if role not in roles:
        instead = f", or one of {', '.join(others)}" if others else ""
        hint = did_you_mean(role, (*roles, *others, "broker-1"))
        raise WrongValueError("not-a-broker", f"{shown(text)} is not a broker{hint}; {BROKERS_HELP}{instead}")
    arguments = [argument.strip() for argument in call["arguments"].split(",")] if call else []
    return _with_arguments(roles[roles.index(role)], arguments, text)


def _with_arguments(role: Role, arguments: list[str], text: str) -> BrokerTarget:
    match role, arguments:
        case "leader" | "follower", [topic, partition]:
            return BrokerTarget(role, topic, _partition(partition))
        case "transaction_coordinator", [partition]:
            return BrokerTarget(role, partition=_partition(partition))
        case _, [] if role in _ALONE:
            return BrokerTarget(role)
        case _:
            raise WrongValueError("wrong-arguments", f"{shown(text)} has the wrong arguments; {BROKERS_HELP}")


def _partition(text: str) -> int:
    if not _PARTITION.fullmatch(text):
        raise WrongValueError("not-a-partition", f"{shown(text)} is not a partition; write its number, from 0 on")
    return int(text)


def _stripped(value: Any, wanted: str, advice: str) -> str:
    if not isinstance(value, str):
        raise WrongValueError("target-not-text", f"{shown(value)} is not {wanted}; {advice}")
    return value.strip()


def _as_text(title: str, *examples: str) -> tuple[PlainSerializer, WithJsonSchema]:
    """Annotations that write a target as text, in files and in the schema."""
    return PlainSerializer(str), WithJsonSchema({"title": title, "type": "string", "examples": list(examples)})


Broker = Annotated[
    BrokerTarget, BeforeValidator(broker_target), *_as_text("broker", "leader(orders, 0)", "transaction_coordinator")
]
Executors = Annotated[ExecutorTarget, BeforeValidator(executor_target), *_as_text("executor", *list(_EXECUTORS)[:3])]
Workers = Annotated[WorkerTarget, BeforeValidator(worker_target), *_as_text("worker", *list(_WORKERS)[:3])]
Links = Annotated[
    LinkPattern, BeforeValidator(link_pattern), *_as_text("link", "spark->leader(orders, 0)", "broker-*<->controller")
]
