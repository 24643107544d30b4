"""Two faults that break one link at once: it is whole again when both are healed, whoever is healed first."""

from random import Random

import pytest

from chaos.cluster import protocol
from tests.integration.conftest import declared

pytestmark = [pytest.mark.integration, pytest.mark.timeout(60)]

LINK = "spark->broker-2"
CUT = {"kind": "cut_link", "link": LINK, "for": "5s"}


def injected(scene, name, fault):
    """A fault in force."""
    injection = declared({"name": name} | fault).prepare(scene, Random(1))
    injection.inject()
    return injection


@pytest.mark.parametrize("other", [CUT, {"kind": "throttle_link", "link": LINK, "rate": "64KB/s", "for": "5s"}])
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
    slow = {"kind": "delay_link", "link": LINK, "latency": "200ms", "stream": "up", "for": "5s"}
    first, second = injected(running.scene, "first", slow), injected(running.scene, "second", slow)

    both_s = protocol.ping(address)
    first.heal()
    one_s = protocol.ping(address)
    second.heal()

    assert both_s >= 0.4
    assert 0.2 <= one_s < 0.4
    assert protocol.ping(address) < 0.2
    running.scene.system.wait_until_healthy()
