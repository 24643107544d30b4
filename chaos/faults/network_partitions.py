"""Partitions of the network: from a shape to the links that it breaks.

What a pair of brokers does not see is broken on both of its links, because a link is told by who opens the connections, not by
who speaks. Only one_way breaks one stream of each:

      loses incoming     broker-1 ──up──▶ broker-2      what broker-1 opens: its requests are lost      (stream up)
    (target broker-2)    broker-2 ◀─down─ broker-1      what broker-2 opens: the answers to it are lost (stream down)
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from random import Random
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from chaos.cluster.links import Link
from chaos.common.errors import InjectionError
from chaos.faults.base import FaultContext, Injection, LastingFault
from chaos.faults.links import BlackholedLinks, CutLinks, Way, name_of
from chaos.faults.targets import resolve_brokers
from chaos.grammar.targets import Broker, BrokerTarget
from chaos.runtime.capabilities import Capability

Pair = tuple[str, int]
Lost = dict[Pair, str]
_BOTH = "both"
Shape = Literal["isolate", "split", "ring", "bridge", "one_way"]
From = Literal["peers", "clients", "all"]
_TARGETED: tuple[Shape, ...] = ("isolate", "bridge", "one_way")
_KEYS: dict[str, tuple[Shape, ...]] = {
    "target": _TARGETED,
    "groups": ("split",),
    "from_": ("isolate", "one_way"),
    "loses": ("one_way",),
}


def _numbered(value: object) -> object:
    """Broker 2 may be written as its number within groups."""
    return f"broker-{value}" if isinstance(value, int) and not isinstance(value, bool) else value


Member = Annotated[Broker, BeforeValidator(_numbered)]
Group = Annotated[tuple[Member, ...], Field(min_length=1)]


class PartitionNetwork(LastingFault):
    """Brokers do not see each other, or their clients: one is isolated, groups are split, a ring, a bridge, one way only."""

    needs = frozenset({Capability.LINKS, Capability.ALL_LINKS})
    provokes = (
        "brokers that are alive and cannot reach each other: elections, fenced brokers, shrinking ISRs (KIP-631, KIP-966)"
    )
    proved_by = "as for the links that it breaks"
    kind: Literal["partition_network"]
    shape: Shape
    target: Broker | None = None
    groups: tuple[Group, ...] = ()
    from_: From = Field(alias="from", default="peers")
    loses: Literal["incoming", "outgoing"] = "incoming"
    how: Literal["cut", "blackhole"] = "blackhole"

    @property
    def broker_targets(self) -> list[BrokerTarget]:
        return [*([self.target] if self.target else []), *(member for group in self.groups for member in group)]

    def describe(self) -> str:
        return f"partition_network: {self._shape}, {'cut' if self.how == 'cut' else 'blackholed'}, {self.lasts}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        """Resolve the target.

        Raises:
            InjectionError: the shape breaks no link of this cluster, or two groups share a broker.
        """
        lost, target = _shaped(self, context, rng)
        ways = found(lost, context.system.links)
        if not ways:
            raise InjectionError(f"{self.describe()}: there is no link to break; are there brokers enough?")
        if self.how == "cut":
            return CutLinks(target, self.for_s, name_of(self), [link for link, _ in ways])
        return BlackholedLinks(target, self.for_s, name_of(self), ways)

    @property
    def _shape(self) -> str:
        match self.shape:
            case "isolate":
                return f"{self.target} isolated from {self.from_}"
            case "split":
                return " | ".join([*(", ".join(map(str, group)) for group in self.groups), "the rest"])
            case "ring":
                return "a ring of majorities"
            case "bridge":
                return f"two halves, {self.target} between them"
            case "one_way":
                return f"{self.target} loses what is {self.loses}, of {self.from_}"

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for key, shapes in _KEYS.items():
            default = type(self).model_fields[key].default  # a schedule that is read again has all keys
            if getattr(self, key) != default and self.shape not in shapes:
                raise ValueError(f"shape {self.shape} has no `{key.rstrip('_')}`; it belongs to {' and '.join(shapes)}")
        if self.shape in _TARGETED and self.target is None:
            raise ValueError(f"shape {self.shape} needs a `target`: which broker?")
        if self.shape == "split" and not self.groups:
            raise ValueError("shape split needs `groups`, e.g. [[1], [2, 3]]")
        if self.shape == "one_way" and self.how == "cut":
            raise ValueError("a connection that is cut is lost both ways: one_way needs how: blackhole")
        return self

    @model_validator(mode="after")
    def _apart(self) -> Self:
        if self.target is not None and self.target.role == "all":
            raise ValueError(f"shape {self.shape} is about one broker, not about all; to part them all: shape split")
        members = [member for group in self.groups for member in group]
        for number, member in enumerate(members):
            if member.role in ("any", "all"):
                raise ValueError(f"a group names its brokers, {member} is none; write e.g. [[1], [2, 3]]")
            if member in members[:number]:
                raise ValueError(f"{member} is in two places; a broker is in one group")
        return self


def found(lost: Lost, links: Sequence[Link]) -> list[Way]:
    """The links meant, each with the stream that is lost."""
    return [(link, lost[link.source, link.broker]) for link in links if (link.source, link.broker) in lost]


def _shaped(fault: PartitionNetwork, context: FaultContext, rng: Random) -> tuple[Lost, str]:
    """What is lost, and the shape in words."""
    numbers = context.system.kafka.numbers
    clients = sorted({link.source for link in context.system.links if not link.source.startswith("broker-")})
    match fault.shape:
        case "split":
            groups = [[_one(member, context, rng) for member in group] for group in fault.groups]
            return split(groups, numbers), " | ".join(_named(group) for group in with_rest(groups, numbers))
        case "ring":
            order = rng.sample(numbers, len(numbers))
            return ring(order), f"ring of {_named(order)}"
        case _:
            hit = _one(fault.target, context, rng)
    match fault.shape:
        case "bridge":
            left, right = halves([number for number in numbers if number != hit], rng)
            return split([left, right, [hit]], numbers, bridges=[hit]), f"{_named(left)} | broker-{hit} | {_named(right)}"
        case "isolate":
            return isolate(hit, fault.from_, numbers, clients), f"broker-{hit} ({fault.target}) from {fault.from_}"
        case _:
            lost = one_way(isolate(hit, fault.from_, numbers, clients), hit, fault.loses)
            return lost, f"broker-{hit} ({fault.target}), {fault.loses}, {fault.from_}"


def isolate(hit: int, from_: str, numbers: Sequence[int], clients: Sequence[str]) -> Lost:
    """One broker, parted from its ``peers``, from ``clients`` or from ``all``."""
    peers = [number for number in numbers if number != hit and from_ in ("peers", "all")]
    both_ways = [pair for peer in peers for pair in _cable(hit, peer)]
    return dict.fromkeys([*both_ways, *((client, hit) for client in clients if from_ in ("clients", "all"))], _BOTH)


def split(groups: Sequence[Sequence[int]], numbers: Sequence[int], bridges: Sequence[int] = ()) -> Lost:
    """No link between two groups; what no group names is one more, and a bridge sees them all.

    Raises:
        InjectionError: a broker is in two groups.
    """
    named = [number for group in groups for number in group]
    twice = sorted({number for number in named if named.count(number) > 1})
    if twice:
        raise InjectionError(f"broker-{twice[0]} is in two groups now: it cannot be parted from itself")
    home = {number: at for at, group in enumerate(with_rest(groups, numbers)) for number in group}
    apart = [pair for pair in combinations(numbers, 2) if home[pair[0]] != home[pair[1]] and not set(pair) & set(bridges)]
    return dict.fromkeys([way for pair in apart for way in _cable(*pair)], _BOTH)


def with_rest(groups: Sequence[Sequence[int]], numbers: Sequence[int]) -> list[list[int]]:
    """The groups, and one of those that no group names."""
    named = {number for group in groups for number in group}
    rest = [number for number in numbers if number not in named]
    return [*map(list, groups), *([rest] if rest else [])]


def ring(order: Sequence[int]) -> Lost:
    """In a ring of so many, each sees itself and its nearest neighbours, as many as make a majority.

    Cables hold both ways, so a majority of an even number (3 of 4) is the nearest neighbour on either side.
    """
    count = len(order)
    reach = (count // 2 + 1) // 2  # the majority has one broker in its middle
    far = [(a, b) for a, b in combinations(range(count), 2) if min(b - a, count - b + a) > reach]
    return dict.fromkeys([way for a, b in far for way in _cable(order[a], order[b])], _BOTH)


def halves(numbers: Sequence[int], rng: Random) -> tuple[list[int], list[int]]:
    """Two halves, drawn; the second is larger by one when they are odd."""
    drawn = rng.sample(numbers, len(numbers))
    middle = len(drawn) // 2
    return sorted(drawn[:middle]), sorted(drawn[middle:])


def one_way(lost: Lost, hit: int, loses: str) -> Lost:
    """Of what would be lost both ways, what is sent to a broker, or what it sends."""
    towards, away = ("up", "down") if loses == "incoming" else ("down", "up")
    return {(source, target): towards if target == hit else away for source, target in lost}


def _cable(one: int, other: int) -> Iterator[Pair]:
    yield f"broker-{one}", other
    yield f"broker-{other}", one


def _one(target: BrokerTarget | None, context: FaultContext, rng: Random) -> int:
    if target is None:
        raise InjectionError("this shape needs a target")
    return resolve_brokers(target, context, rng)[0][0]


def _named(numbers: Sequence[int]) -> str:
    return ", ".join(f"broker-{number}" for number in numbers)
