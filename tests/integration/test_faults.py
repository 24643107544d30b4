"""Every fault on the real system: it bites, it heals, it heals twice, and the system is healthy after it."""

from contextlib import contextmanager
from random import Random

import pytest
from pydantic import TypeAdapter

from chaos.faults.catalogue import CATALOGUE, approach, prepare
from chaos.scenario.faults import Fault

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

NOW = {"after": "0s"}
FAULTS = {
    "cut one way": {"kind": "cut_link", "link": "broker-1->broker-2", "for": "2s"},
    "cut both ways": {"kind": "cut_link", "link": "broker-*<->controller", "for": "2s"},
    "cut clients": {"kind": "cut_link", "link": "*->leader(datasink, 1)", "for": "2s"},
    "blackhole up": {"kind": "blackhole_link", "link": "spark->leader(datasink, 0)", "stream": "up", "for": "10s"},
    "blackhole down": {"kind": "blackhole_link", "link": "loader->leader(datasource, 0)", "stream": "down", "for": "10s"},
    "delay": {"kind": "delay_link", "link": "spark->*", "stream": "down", "latency": "200ms", "for": "10s"},
    "kill follower": {"kind": "kill_broker", "target": "follower(datasink, 0)"},
    "kill coordinator": {"kind": "kill_broker", "target": "transaction_coordinator(1)"},
    "kill controller": {"kind": "kill_broker", "target": "controller"},
    "pause leader": {"kind": "pause_broker", "target": "leader(datasource, 0)", "for": "2s"},
    "crash any executor": {"kind": "crash_executor", "target": "executor(any)"},
    "crash the busiest executor": {"kind": "crash_executor", "target": "executor(busiest)"},
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_bites_and_heals(running, name):
    """What it declares is seen on the wire or in the process table, and gone after the heal."""
    fault = declared(FAULTS[name])
    with slowed(running.scene, slow="crash" in name):
        approach(fault, running.scene)
        injection = prepare(fault, running.scene, Random(1))
        proof = bitten(injection)
        injection.heal()
        injection.heal()

    assert proof.bit, f"{injection.target}: {proof.facts}"
    running.scene.system.wait_until_healthy(40)


def test_every_fault_of_the_catalogue_is_tried_here():
    """A fault that is added without its test on the real system is a defect."""
    assert {type(declared(fault)) for fault in FAULTS.values()} == set(CATALOGUE)


@contextmanager
def slowed(scene, *, slow):
    """A pipeline whose tasks take seconds: an executor that is crashed is in the middle of one."""
    delay = {"kind": "delay_link", "link": "spark->*", "stream": "down", "latency": "500ms", "for": "60s"}
    injection = prepare(declared(delay), scene, Random(1))
    if slow:
        injection.inject()
        injection.proof()
    try:
        yield
    finally:
        injection.heal()


def declared(fault):
    """The fault as the grammar reads it."""
    return TypeAdapter(Fault).validate_python({"when": NOW} | fault)


def bitten(injection):
    """Inject and prove; heal what raised."""
    try:
        injection.inject()
        return injection.proof()
    except BaseException:
        injection.heal()
        raise
