"""Partitions of the network: from a shape to the links that it breaks.

Two brokers have two links, one for the connections that each of them opens. A partition breaks both, because requests and
answers pass on each; only one_way breaks one stream of each:

      loses incoming     broker-1 ──up──▶ broker-2      opened by broker-1: its requests are lost      (stream up)
    (target broker-2)    broker-2 ◀─down─ broker-1      opened by broker-2: the answers to it are lost (stream down)
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
from chaos.faults.targets import broker_names, resolve_brokers
from chaos.grammar.base import WrongValueError
from chaos.grammar.targets import Broker, BrokerTarget
from chaos.runtime.capabilities import Capability

Pair = tuple[str, int]
Lost = dict[Pair, str]
_BOTH = "both"
Shape = Literal["isolate", "split", "ring", "bridge", "one_way"]
From = Literal["peers", "clients", "all"]
_TARGETED: tuple[Shape, ...] = ("isolate", "bridge", "one_way")
_SHAPES_OF: dict[str, tuple[Shape, ...]] = {
    "target": _TARGETED,
    "groups": ("split",),
    "apart_from": ("isolate", "one_way"),
    "loses": ("one_way",),
}


def _numbered(value: object) -> object:
    """Accept 2 for broker-2, within groups."""
    return f"broker-{value}" if isinstance(value, int) and not isinstance(value, bool) else value


Member = Annotated[Broker, BeforeValidator(_numbered)]
Group = Annotated[tuple[Member, ...], Field(min_length=1)]


class PartitionNetwork(LastingFault):
    """Brokers cannot reach each other, or their clients: isolated, split into groups, in a ring, with a bridge, or one way.

    ========  ======================================================================================
    isolate   ``target`` is separated ``from`` its peers, clients or all
    split     ``groups`` do not reach each other; brokers in none of them make one more group
    ring      each broker reaches a majority, and no two of them the same one
    bridge    two halves do not reach each other, ``target`` reaches both
    one_way   ``target`` loses incoming or outgoing bytes (``loses``), ``from`` peers, clients or all
    ========  ======================================================================================
    """

    needs = frozenset({Capability.LINKS, Capability.ALL_LINKS})
    provokes = "brokers that live and cannot reach each other: elections, fenced brokers, shrinking ISRs (KIP-631, KIP-841)"
    proved_by = "like cut_link or blackhole_link, for the links that it breaks"
    kind: Literal["partition_network"]
    shape: Shape
    """the shape of the partition, see above."""
    target: Broker | None = None
    """one broker; needed by ``isolate``, ``bridge`` and ``one_way``."""
    groups: tuple[Group, ...] = ()
    """for ``split``: brokers by their numbers or roles, e.g. ``[[1], [2, 3]]``."""
    apart_from: From = Field(alias="from", default="peers")
    """the ends that ``target`` cannot reach; for ``isolate`` and ``one_way``."""
    loses: Literal["incoming", "outgoing"] = "incoming"
    """whether bytes to ``target`` are lost, or bytes from it; for ``one_way``."""
    how: Literal["cut", "blackhole"] = "blackhole"
    """whether connections are cut, or swallow bytes; ``one_way`` needs ``blackhole``."""

    @property
    def broker_targets(self) -> list[BrokerTarget]:
        return [*([self.target] if self.target else []), *(member for group in self.groups for member in group)]

    def describe(self) -> str:
        return f"partition_network: {self._shape}, {'cut' if self.how == 'cut' else 'blackholed'}, {self.lasts}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        lost, target = _shaped(self, context, rng)
        ways = found(lost, context.system.links)
        if not ways:
            raise InjectionError(f"{self.describe()}: this partition breaks no link; has the system enough brokers?")
        if self.how == "cut":
            return CutLinks(target, self.for_s, name_of(self), [link for link, _ in ways])
        return BlackholedLinks(target, self.for_s, name_of(self), ways)

    @property
    def _shape(self) -> str:
        match self.shape:
            case "isolate":
                return f"{self.target} isolated from {self.apart_from}"
            case "split":
                return " | ".join([*(", ".join(map(str, group)) for group in self.groups), "the rest"])
            case "ring":
                return "a ring of majorities"
            case "bridge":
                return f"two halves, {self.target} between them"
            case "one_way":
                return f"{self.target} loses {self.loses} traffic with {self.apart_from}"

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for name, shapes in _SHAPES_OF.items():
            key = type(self).model_fields[name]  # a schedule that is read again has all keys
            if getattr(self, name) != key.default and self.shape not in shapes:
                raise WrongValueError(
                    "key-of-other-shape",
                    f"shape {self.shape} has no `{key.alias or name}`; it belongs to {' and '.join(shapes)}",
                )
        if self.shape in _TARGETED and self.target is None:
            raise WrongValueError("shape-without-target", f"shape {self.shape} needs a `target`: which broker?")
        if self.shape == "split" and not self.groups:
            raise WrongValueError("split-without-groups", "shape split needs `groups`, e.g. [[1], [2, 3]]")
        if self.shape == "one_way" and self.how == "cut":
            raise WrongValueError("cut-one-way", "a cut connection is lost both ways; for one_way, write how: blackhole")
        return self

    @model_validator(mode="after")
    def _apart(self) -> Self:
        if self.target is not None and self.target.role == "all":
            raise WrongValueError(
                "partition-of-all",
                f"shape {self.shape} needs a single broker as its target, not all; to separate all, write shape: split",
            )
        members = [member for group in self.groups for member in group]
        for number, member in enumerate(members):
            if member.role in ("any", "all"):
                raise WrongValueError(
                    "group-without-broker", f"{member} does not name a broker; a group lists its brokers, e.g. [[1], [2, 3]]"
                )
            if member in members[:number]:
                raise WrongValueError("broker-in-two-groups", f"{member} is in two groups; name each broker once")
        return self


def found(lost: Lost, links: Sequence[Link]) -> list[Way]:
    """Select the broken links, each with the lost stream."""
    return [(link, lost[link.source, link.broker]) for link in links if (link.source, link.broker) in lost]


def isolate(broker: int, apart_from: str, broker_ids: Sequence[int], clients: Sequence[str]) -> Lost:
    """Separate one broker from its ``peers``, from ``clients`` or from ``all``."""
    peers = [peer for peer in broker_ids if peer != broker and apart_from in ("peers", "all")]
    both_ways = [pair for peer in peers for pair in _pairs(broker, peer)]
    return dict.fromkeys([*both_ways, *((client, broker) for client in clients if apart_from in ("clients", "all"))], _BOTH)


def split(groups: Sequence[Sequence[int]], broker_ids: Sequence[int], bridges: Sequence[int] = ()) -> Lost:
    """Break all links between two groups; brokers of no group make one more, and a bridge reaches all of them.

    Raises:
        InjectionError: a broker is in two groups.
    """
    named = [broker for group in groups for broker in group]
    twice = sorted({broker for broker in named if named.count(broker) > 1})
    if twice:
        raise InjectionError(f"broker-{twice[0]} is in two groups now, and cannot be separated from itself")
    home = {broker: at for at, group in enumerate(_with_rest(groups, broker_ids)) for broker in group}
    apart = [pair for pair in combinations(broker_ids, 2) if home[pair[0]] != home[pair[1]] and not set(pair) & set(bridges)]
    return dict.fromkeys([way for pair in apart for way in _pairs(*pair)], _BOTH)


def ring(order: Sequence[int]) -> Lost:
    """Break links so that in a ring each broker reaches itself and its nearest neighbours, together a majority.

    Neighbours reach each other, so a majority of an even number (3 of 4) is the nearest neighbour on either side.
    """
    count = len(order)
    reach = (count // 2 + 1) // 2  # the majority has one broker in its middle
    far = [(a, b) for a, b in combinations(range(count), 2) if min(b - a, count - b + a) > reach]
    return dict.fromkeys([way for a, b in far for way in _pairs(order[a], order[b])], _BOTH)


def halves(broker_ids: Sequence[int], rng: Random) -> tuple[list[int], list[int]]:
    """Draw two halves; the second is larger by one when their number is odd."""
    drawn = rng.sample(broker_ids, len(broker_ids))
    middle = len(drawn) // 2
    return sorted(drawn[:middle]), sorted(drawn[middle:])


def one_way(lost: Lost, broker: int, loses: str) -> Lost:
    """Reduce a loss in both directions to the bytes to a broker, or to the bytes from it."""
    towards, away = ("up", "down") if loses == "incoming" else ("down", "up")
    return {(source, target): towards if target == broker else away for source, target in lost}


def _shaped(fault: PartitionNetwork, context: FaultContext, rng: Random) -> tuple[Lost, str]:
    """Return the loss, and the shape in words."""
    broker_ids = context.system.kafka.broker_ids
    clients = sorted({link.source for link in context.system.links if not link.source.startswith("broker-")})
    if fault.shape == "split":
        groups = [[_one(member, context, rng) for member in group] for group in fault.groups]
        return split(groups, broker_ids), " | ".join(_named(group) for group in _with_rest(groups, broker_ids))
    if fault.shape == "ring":
        order = rng.sample(broker_ids, len(broker_ids))
        return ring(order), f"ring of {_named(order)}"
    broker = _one(fault.target, context, rng)
    if fault.shape == "bridge":
        left, right = halves([other for other in broker_ids if other != broker], rng)
        lost = split([left, right, [broker]], broker_ids, bridges=[broker])
        return lost, f"{_named(left)} | broker-{broker} | {_named(right)}"
    lost, aimed = isolate(broker, fault.apart_from, broker_ids, clients), f"broker-{broker} ({fault.target})"
    if fault.shape == "isolate":
        return lost, f"{aimed} from {fault.apart_from}"
    return one_way(lost, broker, fault.loses), f"{aimed}, {fault.loses}, {fault.apart_from}"


def _with_rest(groups: Sequence[Sequence[int]], broker_ids: Sequence[int]) -> list[list[int]]:
    """Return the groups, and one more of the brokers that are in none."""
    named = {broker for group in groups for broker in group}
    rest = [broker for broker in broker_ids if broker not in named]
    return [*map(list, groups), *([rest] if rest else [])]


def _pairs(one: int, other: int) -> Iterator[Pair]:
    """Yield the two links between two brokers."""
    yield f"broker-{one}", other
    yield f"broker-{other}", one


def _one(target: BrokerTarget | None, context: FaultContext, rng: Random) -> int:
    if target is None:
        raise InjectionError("this shape needs a target")
    return resolve_brokers(target, context, rng)[0][0]


def _named(broker_ids: Sequence[int]) -> str:
    return ", ".join(broker_names(broker_ids))
