"""Resolving declared targets at the moment of injection: the broker that leads, coordinates or controls *now*."""

from collections.abc import Iterable
from functools import partial
from random import Random

from confluent_kafka import KafkaException

from chaos.cluster.kafka import STATE_TOPICS
from chaos.cluster.links import Link
from chaos.common import clock
from chaos.common.errors import InjectionError
from chaos.faults.base import FaultContext
from chaos.grammar.targets import BrokerTarget, LinkPattern, ServiceTarget

_WITHIN_S = 60.0  # a second on a quiet machine


def resolve_brokers(target: BrokerTarget, context: FaultContext, rng: Random) -> tuple[list[int], str]:
    """Resolve the target brokers, also in words: ``broker-2 (leader(orders, 0))``. One of several candidates is drawn.

    A broker that is down has no role, whatever the cluster still reports, so this waits for its successor.

    Raises:
        DeadlineError: no broker has had this role for a minute.
    """

    def chosen() -> list[int]:
        candidates = _candidates(target, context)
        return candidates if target.role == "all" else [rng.choice(candidates)]

    found = clock.wait_until(
        chosen, within_s=_WITHIN_S, reason=f"a broker to be {target}", ignore=(LookupError, KafkaException)
    )
    return found, in_words(broker_names(found), target)


def resolve_links(
    pattern: LinkPattern, context: FaultContext, rng: Random, *, to_itself: bool = False
) -> tuple[list[Link], str]:
    """Resolve the target links, also in words: ``spark->broker-1 (spark->leader(orders, 0))``.

    Args:
        to_itself: whether a broker's link to itself may be one of them. No cable is there that could break; but a broker sends
            requests to itself, markers above all.

    Raises:
        InjectionError: no link fits the pattern.
    """
    left, right = _endpoints(pattern.left, context, rng), _accepting(pattern.right, context, rng)
    pairs = {(source, target) for source in left for target in right}
    if pattern.both_ways:
        pairs |= {(target, source) for source, target in pairs}
    links = [
        link
        for link in context.system.links
        if (link.source, link.target) in pairs and (to_itself or link.source != link.target)
    ]
    if not links:
        raise InjectionError(f"no link fits {pattern}")
    return links, in_words([link.name for link in links], pattern)


def target_logs(target: BrokerTarget, context: FaultContext) -> tuple[str, ...]:
    """Return the logs behind a broker target: a partition (``orders-0``), or a topic for all of its partitions.

    A target without a partition stands for all of this run's logs on the broker; the end of a held request stands for the logs
    that the request may concern.
    """
    own = tuple(context.topics.values())
    match target.role:
        case "leader" | "follower" | "group_coordinator" | "transaction_coordinator":
            topic, partition = partition_of(target, context)
            return (f"{topic}-{partition}",)
        case "receiver" | "sender":
            return (*own, *STATE_TOPICS)
        case _:
            return own


def partition_of(target: BrokerTarget, context: FaultContext) -> tuple[str, int]:
    """Return the partition behind a role: that of a leader or follower, or the one whose leader is the coordinator.

    Raises:
        DeadlineError: no transactional id is declared, and none has passed the wire for a minute.
    """
    kafka = context.system.kafka
    match target.role:
        case "transaction_coordinator":
            known = partial(_transactional_id, context, target.partition)
            reason = f"the transactional id of {target}"
            return kafka.transaction_partition(
                clock.wait_until(known, within_s=_WITHIN_S, reason=reason, ignore=(LookupError,))
            )
        case "group_coordinator":
            return kafka.group_partition(context.group)
        case _:
            return context.topics[target.topic], target.partition


def broker_names(broker_ids: Iterable[int]) -> list[str]:
    """Return ``broker-1`` and so on."""
    return [f"broker-{number}" for number in broker_ids]


def in_words(names: Iterable[str], declared: object) -> str:
    """Word a resolved target, followed by its declaration if that differs."""
    resolved = ", ".join(names)
    return resolved if resolved == str(declared) else f"{resolved} ({declared})"


def _candidates(target: BrokerTarget, context: FaultContext) -> list[int]:
    """Return the brokers that fit now; raise `LookupError` if there is none."""
    kafka = context.system.kafka
    match target.role:
        case "broker":
            return [target.number]
        case "all":
            return list(kafka.broker_ids)
        case "receiver" | "sender" as role:
            return [_end_of_held_request(role, context)]
        case "leader":
            found = [kafka.leader(context.topics[target.topic], target.partition)]
        case "follower":
            found = kafka.followers(context.topics[target.topic], target.partition)
        case "any":
            found = list(kafka.broker_ids)
        case role:
            found = [_holder(role, target.partition, context)]
    down = kafka.brokers.down()
    running = [broker for broker in found if broker not in down]
    if not running:
        raise LookupError(f"{in_words(broker_names(found), target)} does not run")
    return running


def _holder(role: str, partition: int, context: FaultContext) -> int:
    """Return the broker with a role that names no topic."""
    kafka = context.system.kafka
    match role:
        case "controller":
            return kafka.controller()
        case "group_coordinator":
            return kafka.leader(*kafka.group_partition(context.group))
        case _:
            return kafka.leader(*kafka.transaction_partition(_transactional_id(context, partition)))


def _end_of_held_request(role: str, context: FaultContext) -> int:
    """Return the broker that receives or sends the held request."""
    interception = context.held.interception() if context.held else None
    if interception is None:
        raise InjectionError(
            f"no broker is {role}, because no request is held; write a trigger {{request: …}}, or follow a fault that has one"
        )
    left, right = interception.link.split("->")
    end = right if role == "receiver" else left
    if not end.startswith("broker-"):
        what = f"the {role} of {interception.api} on {interception.link}"
        raise InjectionError(f"{what} is not a broker; to crash the client, write kind: crash_pipeline")
    return int(end.removeprefix("broker-"))


def _transactional_id(context: FaultContext, partition: int) -> str:
    """Return the declared transactional id; else the last one on the wire, whose partition is unknown.

    Raises:
        LookupError: none has been on the wire yet.
        InjectionError: the ids of partitions are not declared.
    """
    if context.transactional_ids:
        return context.transactional_ids[partition]
    if partition:
        raise InjectionError(
            f"the transactional id of partition {partition} is unknown; declare transactional_ids in the pipeline, "
            "or write transaction_coordinator, for the last id on the wire"
        )
    own = [link.name for link in context.system.links if link.source == context.client and not link.service]
    seen = context.system.rules.transactional_id(own)
    if not seen:
        raise LookupError(
            f"no transactional id is declared, and none has passed {context.client}->* in this run: no transaction has begun"
        )
    return seen


def _accepting(endpoint: str | BrokerTarget | ServiceTarget, context: FaultContext, rng: Random) -> list[str]:
    return [str(endpoint)] if isinstance(endpoint, ServiceTarget) else _endpoints(endpoint, context, rng)


def _endpoints(endpoint: str | BrokerTarget, context: FaultContext, rng: Random) -> list[str]:
    if isinstance(endpoint, BrokerTarget):
        return broker_names(resolve_brokers(endpoint, context, rng)[0])
    brokers = broker_names(context.system.kafka.broker_ids)
    match endpoint:
        case "broker-*":
            return brokers
        case "*":
            return sorted({*brokers, *(link.source for link in context.system.links)})
        case "pipeline":
            return [context.client]
        case _:
            return [endpoint]
