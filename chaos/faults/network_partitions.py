"""Partitions of the network: from a shape to the links that it breaks.

What a pair of brokers does not see is broken on both of its links, because a link is told by who opens the connections, not by
who speaks. Only one_way breaks one stream of each:

      loses incoming     broker-1 ──up──▶ broker-2      what broker-1 opens: its requests are lost      (stream up)
    (target broker-2)    broker-2 ◀─down─ broker-1      what broker-2 opens: the answers to it are lost (stream down)
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from random import Random

from chaos.cluster.links import Link
from chaos.common.errors import InjectionError
from chaos.faults.base import Injection, Prepare, Scene
from chaos.faults.declared.partition import PartitionNetwork
from chaos.faults.links import BlackholedLinks, CutLinks, Way, name_of
from chaos.faults.targets import resolve_brokers
from chaos.grammar.targets import BrokerTarget

Pair = tuple[str, int]
Lost = dict[Pair, str]
_BOTH = "both"


def prepare_partition(fault: PartitionNetwork, scene: Scene, rng: Random) -> Injection:
    """Aim a `PartitionNetwork`.

    Raises:
        InjectionError: the shape breaks no link of this cluster, or two groups share a broker.
    """
    lost, target = _shaped(fault, scene, rng)
    ways = found(lost, scene.system.links)
    if not ways:
        raise InjectionError(f"{fault.what}: there is no link to break; are there brokers enough?")
    if fault.how == "cut":
        return CutLinks(target, fault.for_s, name_of(fault), [link for link, _ in ways])
    return BlackholedLinks(target, fault.for_s, name_of(fault), ways)


def found(lost: Lost, links: Sequence[Link]) -> list[Way]:
    """The links meant, each with the stream that is lost."""
    return [(link, lost[link.source, link.broker]) for link in links if (link.source, link.broker) in lost]


def _shaped(fault: PartitionNetwork, scene: Scene, rng: Random) -> tuple[Lost, str]:
    """What is lost, and the shape in words."""
    broker_ids = scene.system.kafka.broker_ids
    clients = sorted({link.source for link in scene.system.links if not link.source.startswith("broker-")})
    match fault.shape:
        case "split":
            groups = [[_one(member, scene, rng) for member in group] for group in fault.groups]
            return split(groups, broker_ids), " | ".join(_named(group) for group in with_rest(groups, broker_ids))
        case "ring":
            order = rng.sample(broker_ids, len(broker_ids))
            return ring(order), f"ring of {_named(order)}"
        case _:
            hit = _one(fault.target, scene, rng)
    match fault.shape:
        case "bridge":
            left, right = halves([number for number in broker_ids if number != hit], rng)
            return split([left, right, [hit]], broker_ids, bridges=[hit]), f"{_named(left)} | broker-{hit} | {_named(right)}"
        case "isolate":
            return isolate(hit, fault.from_, broker_ids, clients), f"broker-{hit} ({fault.target}) from {fault.from_}"
        case _:
            lost = one_way(isolate(hit, fault.from_, broker_ids, clients), hit, fault.loses)
            return lost, f"broker-{hit} ({fault.target}), {fault.loses}, {fault.from_}"


def isolate(hit: int, from_: str, broker_ids: Sequence[int], clients: Sequence[str]) -> Lost:
    """One broker, parted from its ``peers``, from ``clients`` or from ``all``."""
    peers = [number for number in broker_ids if number != hit and from_ in ("peers", "all")]
    both_ways = [pair for peer in peers for pair in _cable(hit, peer)]
    return dict.fromkeys([*both_ways, *((client, hit) for client in clients if from_ in ("clients", "all"))], _BOTH)


def split(groups: Sequence[Sequence[int]], broker_ids: Sequence[int], bridges: Sequence[int] = ()) -> Lost:
    """No link between two groups; what no group names is one more, and a bridge sees them all.

    Raises:
        InjectionError: a broker is in two groups.
    """
    named = [number for group in groups for number in group]
    twice = sorted({number for number in named if named.count(number) > 1})
    if twice:
        raise InjectionError(f"broker-{twice[0]} is in two groups now: it cannot be parted from itself")
    home = {number: at for at, group in enumerate(with_rest(groups, broker_ids)) for number in group}
    apart = [pair for pair in combinations(broker_ids, 2) if home[pair[0]] != home[pair[1]] and not set(pair) & set(bridges)]
    return dict.fromkeys([way for pair in apart for way in _cable(*pair)], _BOTH)


def with_rest(groups: Sequence[Sequence[int]], broker_ids: Sequence[int]) -> list[list[int]]:
    """The groups, and one of those that no group names."""
    named = {number for group in groups for number in group}
    rest = [number for number in broker_ids if number not in named]
    return [*map(list, groups), *([rest] if rest else [])]


def ring(order: Sequence[int]) -> Lost:
    """In a ring of so many, each sees itself and its nearest neighbours, as many as make a majority.

    Cables hold both ways, so a majority of an even number (3 of 4) is the nearest neighbour on either side.
    """
    count = len(order)
    reach = (count // 2 + 1) // 2  # the majority has one broker in its middle
    far = [(a, b) for a, b in combinations(range(count), 2) if min(b - a, count - b + a) > reach]
    return dict.fromkeys([way for a, b in far for way in _cable(order[a], order[b])], _BOTH)


def halves(broker_ids: Sequence[int], rng: Random) -> tuple[list[int], list[int]]:
    """Two halves, drawn; the second is larger by one when they are odd."""
    drawn = rng.sample(broker_ids, len(broker_ids))
    middle = len(drawn) // 2
    return sorted(drawn[:middle]), sorted(drawn[middle:])


def one_way(lost: Lost, hit: int, loses: str) -> Lost:
    """Of what would be lost both ways, what is sent to a broker, or what it sends."""
    towards, away = ("up", "down") if loses == "incoming" else ("down", "up")
    return {(source, target): towards if target == hit else away for source, target in lost}


def _cable(one: int, other: int) -> Iterator[Pair]:
    yield f"broker-{one}", other
    yield f"broker-{other}", one


def _one(target: BrokerTarget | None, scene: Scene, rng: Random) -> int:
    if target is None:
        raise InjectionError("this shape needs a target")
    return resolve_brokers(target, scene, rng)[0][0]


def _named(broker_ids: Sequence[int]) -> str:
    return ", ".join(f"broker-{number}" for number in broker_ids)


CATALOGUE: Mapping[type, Prepare] = {PartitionNetwork: prepare_partition}
