"""From declared targets to real ones, at the moment of injection: who leads, coordinates or controls *now*."""

from random import Random

from confluent_kafka import KafkaException

from chaos.cluster.links import Link
from chaos.common import clock
from chaos.common.errors import InjectionError
from chaos.faults.base import Scene
from chaos.grammar.targets import BrokerTarget, LinkPattern

_WITHIN_S = 10.0


def resolve_brokers(target: BrokerTarget, scene: Scene, rng: Random) -> tuple[list[int], str]:
    """The brokers meant, and the same in words: ``broker-2 (leader of datasink-0)``.

    Raises:
        DeadlineError: nobody has this role for ten seconds.
    """
    found = clock.wait_until(
        lambda: _brokers(target, scene, rng),
        within_s=_WITHIN_S,
        reason=f"a broker to be {target}",
        ignore=(LookupError, KafkaException),
    )
    names = ", ".join(f"broker-{number}" for number in found)
    return found, names if names == str(target) else f"{names} ({target})"


def _brokers(target: BrokerTarget, scene: Scene, rng: Random) -> list[int]:
    """The candidates of a role; of more than one, chance takes one, unless all are meant."""
    candidates = _coordinators(target, scene) or _others(target, scene)
    return candidates if target.role == "all" else [rng.choice(candidates)]


def _coordinators(target: BrokerTarget, scene: Scene) -> list[int]:
    kafka = scene.system.kafka
    match target.role:
        case "controller":
            return [kafka.controller()]
        case "group_coordinator":
            return [kafka.leader(*kafka.group_partition(scene.group))]
        case "transaction_coordinator":
            return [kafka.leader(*kafka.transaction_partition(_transactional_id(scene, target.partition)))]
        case _:
            return []


def _others(target: BrokerTarget, scene: Scene) -> list[int]:
    kafka = scene.system.kafka
    match target.role:
        case "broker":
            return [target.number]
        case "leader":
            return [kafka.leader(scene.topics[target.topic], target.partition)]
        case "follower":
            return kafka.followers(scene.topics[target.topic], target.partition)
        case "receiver" | "sender":
            return [_end_of_held(target.role, scene)]
        case _:
            return list(kafka.broker_ids)


def _end_of_held(role: str, scene: Scene) -> int:
    """The broker that receives or sends the frame which the trigger holds."""
    trip = scene.held.trip() if scene.held else None
    if trip is None:
        raise InjectionError(
            f"there is no {role}: no request is held; this needs a trigger {{request: …}}, or that of the fault it follows"
        )
    left, right = trip.link.split("->")
    end = right if role == "receiver" else left
    if not end.startswith("broker-"):
        raise InjectionError(f"the {role} of {trip.api} on {trip.link} is no broker; to crash the client: crash_pipeline")
    return int(end.removeprefix("broker-"))


def _transactional_id(scene: Scene, partition: int) -> str:
    if not scene.transactional_ids:
        raise InjectionError("this pipeline uses no transactions: it has no transaction coordinator to aim at")
    return scene.transactional_ids[partition]


def resolve_links(pattern: LinkPattern, scene: Scene, rng: Random) -> tuple[list[Link], str]:
    """The links meant, and the same in words: ``spark->broker-1 (spark->leader(datasink, 0))``.

    Raises:
        InjectionError: the pattern fits no link.
    """
    left = _names(pattern.left, scene, rng)
    right = _names(pattern.right, scene, rng)
    pairs = {(source, target) for source in left for target in right}
    if pattern.both_ways:
        pairs |= {(target, source) for source, target in pairs}
    links = [
        link
        for link in scene.system.links
        if (link.source, f"broker-{link.broker}") in pairs and link.source != f"broker-{link.broker}"
    ]
    if not links:
        raise InjectionError(f"no link fits {pattern}")
    names = ", ".join(link.name for link in links)
    return links, names if names == str(pattern) else f"{names} ({pattern})"


def _names(endpoint: str | BrokerTarget, scene: Scene, rng: Random) -> list[str]:
    brokers = [f"broker-{number}" for number in scene.system.kafka.broker_ids]
    if isinstance(endpoint, BrokerTarget):
        return [f"broker-{number}" for number in resolve_brokers(endpoint, scene, rng)[0]]
    if endpoint == "broker-*":
        return brokers
    if endpoint == "*":
        return sorted({*brokers, *(link.source for link in scene.system.links)})
    if endpoint == "pipeline":
        return [scene.client]
    return [endpoint]
