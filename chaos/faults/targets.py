"""From declared targets to real ones, at the moment of injection: who leads, coordinates or controls *now*."""

from random import Random

from confluent_kafka import KafkaException

from chaos.cluster.links import Link
from chaos.common import clock
from chaos.common.errors import InjectionError
from chaos.faults.base import FaultContext
from chaos.grammar.targets import BrokerTarget, LinkPattern

_WITHIN_S = 10.0


def resolve_brokers(target: BrokerTarget, context: FaultContext, rng: Random) -> tuple[list[int], str]:
    """The brokers meant, and the same in words: ``broker-2 (leader of datasink-0)``.

    Raises:
        DeadlineError: nobody has this role for ten seconds.
    """
    found = clock.wait_until(
        lambda: _brokers(target, context, rng),
        within_s=_WITHIN_S,
        reason=f"a broker to be {target}",
        ignore=(LookupError, KafkaException),
    )
    names = ", ".join(f"broker-{number}" for number in found)
    return found, names if names == str(target) else f"{names} ({target})"


def _brokers(target: BrokerTarget, context: FaultContext, rng: Random) -> list[int]:
    """The candidates of a role; of more than one, chance takes one, unless all are meant."""
    candidates = _coordinators(target, context) or _others(target, context)
    return candidates if target.role == "all" else [rng.choice(candidates)]


def _coordinators(target: BrokerTarget, context: FaultContext) -> list[int]:
    kafka = context.system.kafka
    match target.role:
        case "controller":
            return [kafka.controller()]
        case "group_coordinator":
            return [kafka.leader(*kafka.group_partition(context.group))]
        case "transaction_coordinator":
            return [kafka.leader(*kafka.transaction_partition(_transactional_id(context, target.partition)))]
        case _:
            return []


def _others(target: BrokerTarget, context: FaultContext) -> list[int]:
    kafka = context.system.kafka
    match target.role:
        case "broker":
            return [target.number]
        case "leader":
            return [kafka.leader(context.topics[target.topic], target.partition)]
        case "follower":
            return kafka.followers(context.topics[target.topic], target.partition)
        case "receiver" | "sender":
            return [_end_of_held(target.role, context)]
        case _:
            return list(kafka.numbers)


def _end_of_held(role: str, context: FaultContext) -> int:
    """The broker that receives or sends the frame which the trigger holds."""
    trip = context.held.trip() if context.held else None
    if trip is None:
        raise InjectionError(
            f"there is no {role}: no request is held; this needs a trigger {{request: …}}, or that of the fault it follows"
        )
    left, right = trip.link.split("->")
    end = right if role == "receiver" else left
    if not end.startswith("broker-"):
        raise InjectionError(f"the {role} of {trip.api} on {trip.link} is no broker; to crash the client: crash_pipeline")
    return int(end.removeprefix("broker-"))


def _transactional_id(context: FaultContext, partition: int) -> str:
    if not context.transactional_ids:
        raise InjectionError("this pipeline uses no transactions: it has no transaction coordinator to aim at")
    return context.transactional_ids[partition]


def resolve_links(pattern: LinkPattern, context: FaultContext, rng: Random) -> tuple[list[Link], str]:
    """The links meant, and the same in words: ``spark->broker-1 (spark->leader(datasink, 0))``.

    Raises:
        InjectionError: the pattern fits no link.
    """
    left = _names(pattern.left, context, rng)
    right = _names(pattern.right, context, rng)
    pairs = {(source, target) for source in left for target in right}
    if pattern.both_ways:
        pairs |= {(target, source) for source, target in pairs}
    links = [
        link
        for link in context.system.links
        if (link.source, f"broker-{link.broker}") in pairs and link.source != f"broker-{link.broker}"
    ]
    if not links:
        raise InjectionError(f"no link fits {pattern}")
    names = ", ".join(link.name for link in links)
    return links, names if names == str(pattern) else f"{names} ({pattern})"


def _names(endpoint: str | BrokerTarget, context: FaultContext, rng: Random) -> list[str]:
    brokers = [f"broker-{number}" for number in context.system.kafka.numbers]
    if isinstance(endpoint, BrokerTarget):
        return [f"broker-{number}" for number in resolve_brokers(endpoint, context, rng)[0]]
    if endpoint == "broker-*":
        return brokers
    if endpoint == "*":
        return sorted({*brokers, *(link.source for link in context.system.links)})
    if endpoint == "pipeline":
        return [context.client]
    return [endpoint]
