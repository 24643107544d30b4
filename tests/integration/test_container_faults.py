"""Faults that only containers allow, on the real system: they take effect, their proofs can fail, they heal, and heal twice."""

from random import Random

import pytest

from chaos.faults import containers
from chaos.faults.registry import FAULTS as KINDS
from tests.integration.conftest import declared, proved_and_healed

pytestmark = [pytest.mark.integration, pytest.mark.containers, pytest.mark.timeout(900)]

FAULTS = {
    "disconnected": {"kind": "disconnect", "target": "leader(datasink, 0)", "for": "3s"},
    "frozen": {"kind": "freeze", "target": "leader(datasource, 0)", "for": "2s"},
    "out of memory": {"kind": "out_of_memory", "target": "transaction_coordinator"},
    "a twentieth of a processor": {"kind": "limit_cpu", "target": "leader(datasink, 1)", "cpus": 0.05, "for": "20s"},
    "disk full": {"kind": "limit_disk", "target": "follower(datasink, 0)", "room": "200KB"},
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_containers_is_effective_and_heals(running, name):
    """Its proof fails before it is injected, and holds after; then the system is healthy again."""
    fault = declared(FAULTS[name])
    fault.approach(running.scene)
    injection = fault.prepare(running.scene, Random(1))
    assert not injection.proof().effective
    proof = proved_and_healed(injection)

    assert proof.effective, f"{injection.target}: {proof.facts}"
    running.scene.system.wait_until_healthy(180)


def test_every_fault_of_containers_is_tried_here():
    """A fault that is added without its test on the real system is a defect."""
    tried = {type(declared(fault)) for fault in FAULTS.values()}
    assert tried == {fault for fault in KINDS.values() if fault.__module__ == containers.__name__}
