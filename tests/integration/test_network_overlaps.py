"""Two faults that break one link at once: it is whole again when both are healed, whoever is healed first."""

from random import Random

import pytest

from chaos.cluster import protocol
from tests.integration.conftest import declared

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

LINK = "spark->broker-2"
CUT = {"kind": "cut_link", "link": LINK, "for": "5s"}
THROTTLE = {"kind": "throttle_link", "link": LINK, "rate": "64KB/s", "for": "5s"}


def injected(scene, name, fault):
    """A fault in force."""
    injection = declared({"name": name} | fault).prepare(scene, Random(1))
    injection.inject()
    return injection


@pytest.mark.parametrize("other", [THROTTLE, pytest.param(CUT, marks=pytest.mark.nightly)])
def test_a_cable_stays_pulled_until_nobody_pulls_it(running, other):
    """A throttle breaks connections when it is healed: that must not mend what another fault has cut."""
    address = running.scene.system.addresses.client("spark", 2)
    first, second = injected(running.scene, "first", CUT), injected(running.scene, "second", other)

    second.heal()
    refused = protocol.refused(address)
    first.heal()

    assert refused
    assert protocol.answers(address)
    running.scene.system.wait_until_healthy()


def test_two_toxics_of_one_kind_are_two(running):
    """Each delays by its own time, and goes by itself."""
    address = running.scene.system.addresses.client("spark", 2)
    slow = {"kind": "delay_link", "link": LINK, "latency": "400ms", "stream": "up", "for": "5s"}
    first, second = injected(running.scene, "first", slow), injected(running.scene, "second", slow)

    both_s = quickest(address)
    first.heal()
    one_s = quickest(address)
    second.heal()

    assert both_s >= 0.8
    assert 0.4 <= one_s < 0.8
    assert quickest(address) < 0.4
    running.scene.system.wait_until_healthy()


def quickest(address):
    """Of a few pings: a busy machine makes single ones slow."""
    return min(protocol.ping(address, within_s=60) for _ in range(5))
