"""Every fault there is: what is declared -> how it is aimed. Each family keeps its own list."""

from collections.abc import Mapping
from random import Random

from chaos.faults import (
    broker,
    client,
    containers,
    containers_disk,
    disk,
    elections,
    flapping,
    group,
    hooks,
    network,
    protocol,
    reassignment,
    rounds,
    shapes,
    spark,
    spark_cluster,
    spark_python,
    storage,
    traffic,
    transaction,
    zombies,
)
from chaos.faults.base import Approach, Injection, Prepare, Scene
from chaos.scenario.faults import Fault

_FAMILIES = (
    broker,
    client,
    containers,
    containers_disk,
    disk,
    elections,
    flapping,
    group,
    network,
    protocol,
    reassignment,
    rounds,
    shapes,
    spark,
    spark_cluster,
    spark_python,
    storage,
    traffic,
    transaction,
    zombies,
)

CATALOGUE: Mapping[type, Prepare] = {fault: prepare for family in _FAMILIES for fault, prepare in family.CATALOGUE.items()}
APPROACHES: Mapping[type, Approach] = {**spark.APPROACHES, **spark_python.APPROACHES, **zombies.APPROACHES}


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
