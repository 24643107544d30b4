"""When a transfer through a link proves that the link is disturbed, beside the same transfer past it."""

from random import Random

import pytest

from chaos.cluster import protocol
from chaos.cluster.protocol import Transfer
from chaos.cluster.toxiproxy import ProxySpec
from chaos.faults.link_toxics import (
    CutAfterBytes,
    ResetLink,
    SliceLink,
    ThrottleLink,
    Trial,
    compared,
    ends_within,
    is_reset,
    slower_by,
)
from tests.unit.faults.wire import LISTEN, FakeRules, UsedLink, context
from tests.unit.wording import keep

PROXY = ProxySpec("spark-broker-1", ("127.0.0.1", 1), ("127.0.0.1", 2))


def transfer(took_s=0.01, received=100, end="answered"):
    """A transfer that fared well, unless the arguments say otherwise."""
    return Transfer(took_s, 100, received, 1, end)


@pytest.mark.parametrize(
    ("through_s", "past_s", "effective"),
    [(0.5, 0.01, True), (0.46, 0.01, True), (0.44, 0.01, False), (0.5, 0.24, True), (0.5, 0.26, False), (9.0, 8.9, False)],
)
def test_slow_is_what_arrives_late_only_through_the_link(through_s, past_s, effective):
    """On a busy machine everything is late: that is not a throttle."""
    assert slower_by(0.5)(transfer(through_s), transfer(past_s)) is effective


def test_slow_is_not_what_never_comes():
    """A link that is down is not a slow one."""
    assert not slower_by(0.5)(transfer(9.0, end="silent"), transfer())


@pytest.mark.parametrize(("end", "received", "effective"), [("reset", 0, True), ("closed", 0, False), ("reset", 9, False)])
def test_reset_is_not_closed_and_nothing_comes_before_it(end, received, effective):
    """RST, not FIN."""
    assert is_reset(transfer(received=received, end=end), transfer()) is effective


@pytest.mark.parametrize(
    ("end", "received", "down", "effective"),
    [
        ("closed", 1000, True, True),
        ("reset", 10, True, True),
        ("closed", 1001, True, False),
        ("closed", 1001, False, True),
        ("answered", 1000, True, False),
        ("silent", 0, False, False),
    ],
)
def test_what_is_cut_after_some_bytes_ends_and_no_more_comes(end, received, down, effective):
    """Bytes that come down are counted exactly; of bytes that go up, only the end is visible."""
    assert ends_within(1000, down=down)(transfer(received=received, end=end), transfer()) is effective


@pytest.mark.parametrize(
    ("through_s", "past_s", "effective", "rounds"),
    [
        ((0.5,), (0.01,), True, 1),
        ((0.5, 0.5), (0.4, 0.01), True, 2),  # past it was slow once: the machine, not the broker
        ((0.5, 0.1, 0.1), (0.4, 0.4, 0.01), False, 3),  # through it was slow once: the machine, not the link
        ((0.5, 0.5, 0.5), (0.4, 0.4, 0.4), False, 3),
    ],
)
def test_the_quickest_transfer_counts_because_a_busy_machine_slows_others(through_s, past_s, effective, rounds):
    """A slow moment of the machine is not a throttle, and does not hide one."""
    fares = {PROXY.listen: iter(through_s), PROXY.upstream: iter(past_s)}
    asked = []

    def move(address):
        asked.append(address)
        return transfer(next(fares[address]))

    through, past, fared = compared(move, PROXY, Trial(100, slower_by(0.5), rounds=3))

    assert (fared, len(asked)) == (effective, 2 * rounds)
    assert (through.took_s, past.took_s) == (min(through_s), min(past_s))


@pytest.mark.parametrize("end", ["silent", "closed"])
def test_a_broker_that_does_not_answer_past_the_link_proves_nothing(end):
    """It is the broker then, however often it is tried; and what ended early was not quick."""
    ends = {PROXY.listen: "answered", PROXY.upstream: end}

    _through, past, fared = compared(
        lambda address: transfer(0.5 * (address == PROXY.listen), end=ends[address]),
        PROXY,
        Trial(100, slower_by(0.5), rounds=2),
    )

    assert (past.end, fared) == (end, False)


def test_what_was_answered_once_is_not_hidden_by_what_was_not():
    """An early end is not a quick transfer."""
    pasts = iter([transfer(0.4), transfer(0.0, end="reset")])

    _through, past, _fared = compared(
        lambda address: next(pasts) if address == PROXY.upstream else transfer(0.5), PROXY, Trial(100, slower_by(0.5), rounds=2)
    )

    assert (past.end, past.took_s) == ("answered", 0.4)


THROTTLE = ThrottleLink, {"kind": "throttle_link", "rate": "100KB/s"}
SLICE = SliceLink, {"kind": "slice_link", "size": "100B", "every": "1ms"}
CUT = CutAfterBytes, {"kind": "cut_after_bytes", "bytes": "1KB", "stream": "up"}
RESET = ResetLink, {"kind": "reset_link"}


SERVICE = "app->service(files)"


def disturbed(monkeypatch, declaration, link, declared_link="app->broker-1"):
    """An injection at this link, through which our own transfers fare as they must."""
    model, declared = declaration
    fault = model.model_validate({"link": declared_link, "for": "300ms", "when": {"after": "0s"}} | declared)
    through = {ResetLink: transfer(end="reset", received=0), CutAfterBytes: transfer(end="closed")}

    def move(address, **_options):
        return through.get(model, transfer(took_s=60.0)) if address == LISTEN else transfer()

    monkeypatch.setattr(protocol, "upload", move)
    monkeypatch.setattr(protocol, "download", move)
    scene = context(FakeRules())
    scene.system.links = (link,)
    return fault.prepare(scene, Random(1))


QUIET = {"up": (0, 0), "down": (0, 0)}


@pytest.mark.parametrize(
    ("declaration", "passes", "cuts", "effective"),
    [
        (THROTTLE, {"up": (12_000, 9), "down": (0, 0)}, 0, True),
        (THROTTLE, {"up": (100, 1), "down": (0, 0)}, 0, False),  # every look some bytes, too few to be slowed
        (SLICE, {"up": (0, 0), "down": (900, 2)}, 0, True),
        (SLICE, {"up": (0, 0), "down": (9000, 100)}, 0, False),  # many bytes, each chunk of them smaller than a piece
        (SLICE, {"up": (0, 0), "down": (150, 1)}, 0, False),  # another chunk may have been read between the two counters
        (CUT, {"up": (5, 1), "down": (0, 0)}, 1, True),
        (CUT, {"up": (1_000_000, 100), "down": (0, 0)}, 0, False),  # many bytes, on many connections
        (RESET, {"up": (1, 1), "down": (0, 0)}, 0, True),
        (RESET, QUIET, 0, False),
    ],
)
def test_a_toxic_is_effective_when_clients_have_met_it(monkeypatch, declaration, passes, cuts, effective):
    """Connections of our own show that the toxic works, not that it had a consequence."""
    injection = disturbed(monkeypatch, declaration, UsedLink(passes=passes, cuts=cuts))

    injection.inject()
    proof = injection.proof()

    assert proof.effective is effective
    assert ("problem" in proof.facts) is not effective
    assert ("trials" in proof.facts) is effective


def test_the_proof_says_where_clients_met_the_toxic(monkeypatch):
    """The link, the direction, and what they did there."""
    injection = disturbed(monkeypatch, CUT, UsedLink(passes={"up": (700, 7), "down": (0, 0)}, cuts=2))

    injection.inject()

    assert injection.proof().facts["clients"] == {"app->broker-1 up": {"bytes": 700, "chunks": 7, "cut": 2}}


def test_a_toxic_that_clients_never_met_says_what_they_did_instead(monkeypatch):
    """Less than a tenth of a second's worth."""
    injection = disturbed(monkeypatch, THROTTLE, UsedLink(passes=QUIET))

    injection.inject()

    problem = keep(injection.proof().facts["problem"])
    assert " 10000 bytes " in problem
    assert " 0 bytes " in problem


@pytest.mark.parametrize("declaration", [THROTTLE, SLICE, CUT, RESET])
def test_clients_that_met_a_toxic_which_does_nothing_prove_nothing(monkeypatch, declaration):
    """Our own transfer fared well through it."""
    injection = disturbed(monkeypatch, declaration, UsedLink(passes={"up": (50_000, 5), "down": (50_000, 5)}, cuts=1))
    monkeypatch.setattr(protocol, "upload", lambda _address, **_options: transfer())
    monkeypatch.setattr(protocol, "download", lambda _address, **_options: transfer())

    injection.inject()
    proof = injection.proof()

    assert not proof.effective
    assert proof.facts["clients"]


@pytest.mark.parametrize(("passes", "cuts", "effective"), [({"up": (5, 1), "down": (0, 0)}, 1, True), (QUIET, 0, False)])
def test_of_a_service_it_counts_that_clients_have_met_the_toxic(monkeypatch, passes, cuts, effective):
    """A transfer of our own would have to speak its protocol."""
    injection = disturbed(monkeypatch, CUT, UsedLink("app->service(files)", passes=passes, cuts=cuts, service="files"), SERVICE)
    monkeypatch.setattr(protocol, "upload", lambda *_address, **_options: pytest.fail("a service was asked"))

    injection.inject()
    proof = injection.proof()

    assert proof.effective is effective
    assert proof.facts.get("trials", {}) == {}
