"""Every fault there is: what is declared -> how it is aimed."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from chaos.faults import broker, client, executor, network, protocol
from chaos.faults.base import Injection, Prepare, Scene
from chaos.scenario.faults import (
    BlackholeLink,
    CrashExecutor,
    CrashPipeline,
    CutLink,
    DelayLink,
    DelayRequest,
    Fault,
    HoldRequests,
    KillBroker,
    LateRequest,
    LoseRequest,
    LoseResponse,
    PauseBroker,
    PausePipeline,
    ZombiePipeline,
)

CATALOGUE: Mapping[type, Prepare] = {
    CutLink: network.prepare_cut,
    BlackholeLink: network.prepare_blackhole,
    DelayLink: network.prepare_delay,
    KillBroker: broker.prepare_kill,
    PauseBroker: broker.prepare_pause,
    CrashExecutor: executor.prepare_crash,
    CrashPipeline: client.prepare_crash,
    PausePipeline: client.prepare_pause,
    ZombiePipeline: client.prepare_zombie,
    LoseRequest: protocol.prepare_loss,
    LoseResponse: protocol.prepare_loss,
    DelayRequest: protocol.prepare_delay,
    LateRequest: protocol.prepare_late,
    HoldRequests: protocol.prepare_hold,
}

APPROACHES: Mapping[type, Callable[[Any, Scene], None]] = {CrashExecutor: executor.approach_crash}


def approach(fault: Fault, scene: Scene) -> None:
    """Do before the trigger what would be too slow at the moment of injection."""
    APPROACHES.get(type(fault), _nothing)(fault, scene)


def prepare(fault: Fault, scene: Scene, rng: Random) -> Injection:
    """Resolve a fault's target; nothing is broken yet."""
    return CATALOGUE[type(fault)](fault, scene, rng)


def _nothing(_fault: Fault, _scene: Scene) -> None:
    """Most faults need no approach."""
