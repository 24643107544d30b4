"""From declared targets to real ones, at the moment of injection: who leads, coordinates or controls *now*."""

from random import Random

from confluent_kafka import KafkaException

from chaos import clock
from chaos.errors import InjectionError
from chaos.faults.base import Scene
from chaos.scenario.targets import BrokerTarget, LinkPattern
from chaos.system.links import Link

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
    kafka = scene.system.kafka
    match target.role:
        case "broker":
            candidates = [target.number]
        case "any" | "all":
            candidates = list(kafka.numbers)
        case "controller":
            candidates = [kafka.controller()]
        case "leader":
            candidates = [kafka.leader(scene.topics[target.topic], target.partition)]
        case "follower":
            candidates = kafka.followers(scene.topics[target.topic], target.partition)
        case "transaction_coordinator":
            candidates = [kafka.transaction_coordinator(_transactional_id(scene, target.partition))]
    return candidates if target.role == "all" else [rng.choice(candidates)]


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
    brokers = [f"broker-{number}" for number in scene.system.kafka.numbers]
    if isinstance(endpoint, BrokerTarget):
        return [f"broker-{number}" for number in resolve_brokers(endpoint, scene, rng)[0]]
    if endpoint == "broker-*":
        return brokers
    if endpoint == "*":
        return sorted({link.source for link in scene.system.links})
    return [endpoint]
