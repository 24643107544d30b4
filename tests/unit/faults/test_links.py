"""The proof that a link is delayed: a ping over it, and the same ping past it."""

import pytest

from chaos.cluster import protocol
from chaos.faults.links import BlackholedLinks, DelayedLinks
from tests.unit.faults.wire import LISTEN, UPSTREAM, UsedLink


def delayed(link, latency_ms=100, jitter_ms=0, stream="down"):
    """A link on which answers come so much later."""
    return DelayedLinks("app->broker-1", 0.2, "delay", [link], stream, latency_ms, jitter_ms)


@pytest.mark.parametrize(
    ("through_s", "past_s", "stream", "effective"),
    [
        (0.1, 0.001, "down", True),
        (0.1, 0.001, "both", False),  # only one of the two ways is slow
        (0.2, 0.001, "both", True),
        (0.09, 0.001, "down", False),
        (0.3, 0.29, "down", False),  # it is the broker, or the machine
        (None, 0.001, "down", False),
        (0.1, None, "down", False),
    ],
)
def test_a_link_is_delayed_when_only_a_ping_through_it_is_late(monkeypatch, through_s, past_s, stream, effective):
    """A ping that is late beside the link, too, proves nothing about the link."""

    def ping(address, _within_s):
        took_s = {LISTEN: through_s, UPSTREAM: past_s}[address]
        if took_s is None:
            raise TimeoutError
        return took_s

    monkeypatch.setattr(protocol, "ping", ping)
    injection = delayed(UsedLink(), stream=stream)

    injection.inject()

    assert injection.proof().effective is effective


@pytest.mark.parametrize(
    ("through_s", "past_s", "effective"),
    [
        ([0.15], [0.001], True),
        ([0.15, 0.15], [0.14, 0.001], True),  # past it was slow once: a busy machine
        ([0.15, 0.002, 0.002], [0.14, 0.14, 0.001], False),  # through it was slow once
    ],
)
def test_the_quickest_ping_counts_because_a_busy_machine_slows_others(monkeypatch, through_s, past_s, effective):
    """A machine can make any ping late, and none quick."""
    pings = {LISTEN: iter(through_s), UPSTREAM: iter(past_s)}
    monkeypatch.setattr(protocol, "ping", lambda address, _within_s: next(pings[address]))
    injection = delayed(UsedLink(), jitter_ms=10)

    injection.inject()

    assert injection.proof().effective is effective


def test_a_delayed_link_that_nobody_uses_proves_nothing(monkeypatch):
    """Our own ping is late there as well."""
    monkeypatch.setattr(protocol, "ping", lambda address, _within_s: 0.1 if address == LISTEN else 0.001)
    injection = delayed(UsedLink(passes={"up": (0, 0), "down": (0, 0)}))

    injection.inject()
    proof = injection.proof()
    injection.heal()

    assert (proof.effective, proof.facts["bytes_delayed"]) == (False, 0)
    assert "traffic on the links" in proof.facts["problem"]


@pytest.mark.parametrize(("passes", "effective"), [((100, 1), True), ((0, 0), False)])
def test_of_a_service_only_the_bytes_of_clients_prove_anything(monkeypatch, passes, effective):
    """Nobody knows what it would answer to a ping, so it is not asked."""
    monkeypatch.setattr(protocol, "ping", lambda *_address: pytest.fail("a service was asked"))
    link = UsedLink("app->service(files)", passes={"up": passes, "down": passes}, service="files")
    late, silent = delayed(link), BlackholedLinks("app->service(files)", 0.2, "blackhole", [(link, "both")])
    if not effective:
        monkeypatch.setattr(link, "swallowed", lambda *_name: 0)

    for injection in (late, silent):
        injection.inject()
        assert injection.proof().effective is effective
