"""Every fault there is: what is declared -> how it is aimed. Each family keeps its own list."""

from collections.abc import Mapping
from random import Random

from chaos.faults import (
    broker_disks,
    broker_processes,
    checkpoint,
    containers,
    containers_disk,
    flapping,
    hooks,
    kafka_state,
    leadership,
    link_toxics,
    links,
    network_partitions,
    pipeline_process,
    reassignment,
    requests,
    rounds,
    spark_daemons,
    spark_executors,
    spark_python_workers,
    transaction,
    zombies,
)
from chaos.faults.base import Approach, Injection, Prepare, Scene
from chaos.faults.declared import Fault

_FAMILIES = (
    broker_processes,
    pipeline_process,
    containers,
    containers_disk,
    broker_disks,
    leadership,
    flapping,
    kafka_state,
    links,
    requests,
    reassignment,
    rounds,
    network_partitions,
    spark_executors,
    spark_daemons,
    spark_python_workers,
    checkpoint,
    link_toxics,
    transaction,
    zombies,
)

CATALOGUE: Mapping[type, Prepare] = {fault: prepare for family in _FAMILIES for fault, prepare in family.CATALOGUE.items()}
APPROACHES: Mapping[type, Approach] = {**spark_executors.APPROACHES, **spark_python_workers.APPROACHES, **zombies.APPROACHES}


def has_approach(fault: Fault) -> bool:
    """Whether there is something to do before."""
    return type(fault) in APPROACHES


def approach(fault: Fault, scene: Scene) -> None:
    """Do before the trigger what would be too slow at the moment of injection."""
    APPROACHES.get(type(fault), _nothing)(fault, scene)


def prepare(fault: Fault, scene: Scene, rng: Random) -> Injection:
    """Resolve a fault's target; nothing is broken yet. Brokers that are not ours are broken by hooks."""
    by_hook = hooks.CATALOGUE.get(type(fault))
    aim = by_hook if by_hook and scene.system.hooks else CATALOGUE[type(fault)]
    return aim(fault, scene, rng)


def _nothing(_fault: Fault, _scene: Scene) -> None:
    """Most faults need no approach."""
