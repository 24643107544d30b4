"""When a transfer through a link proves that the link is disturbed, beside the same transfer past it."""

import pytest

from chaos.cluster.protocol import Transfer
from chaos.cluster.toxiproxy import ProxySpec
from chaos.faults.link_toxics import Trial, compared, ends_within, is_reset, slower_by

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
    """What comes down is counted to the byte; of what goes up only the end is seen."""
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
