"""Waits end: with an answer, or with an error that says what was waited for."""

import time
from itertools import count, cycle
from threading import Event

import pytest

from chaos.common import clock
from chaos.common.errors import DeadlineError


def test_a_wait_returns_what_the_condition_answered():
    """The answer itself, not only that it was true."""
    answers = iter([0, "", "there"])

    assert clock.wait_until(lambda: next(answers), within_s=60, reason="an answer", every_s=0.001) == "there"


def test_a_deadline_says_what_was_waited_for_and_what_was_seen():
    """The error can be understood without reading the code."""
    with pytest.raises(DeadlineError, match=r"waited 0.01 s for a broker to serve; last seen: 2 of 3"):
        clock.wait_until(lambda: False, within_s=0.01, reason="a broker to serve", every_s=0.001, seen=lambda: "2 of 3")


def test_an_ignored_error_means_not_yet():
    """An error in `ignore` does not end the wait; at the deadline it is named."""
    with pytest.raises(DeadlineError, match="last error: refused"):
        clock.wait_until(_refuse, within_s=0.01, reason="an answer", every_s=0.001, ignore=(ConnectionError,))


def test_any_other_error_ends_the_wait_at_once():
    """A defect must not be hidden until the deadline."""
    with pytest.raises(ConnectionError):
        clock.wait_until(_refuse, within_s=60, reason="an answer", ignore=(KeyError,))


@pytest.fixture
def sleeps(monkeypatch):
    """Time that passes only when somebody sleeps."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(time, "monotonic", lambda: sum(slept))
    return slept


def test_a_deadline_counts_from_the_last_progress(sleeps):
    """A transaction that grows, and then all that is behind it: each within three minutes of the one before."""
    left = iter([500, 700, 700, 900, 400, 400, 100, 0])
    now = 500

    def done():
        nonlocal now
        now = next(left)
        return now == 0

    assert clock.wait_until(done, within_s=180, reason="the end", every_s=100, left=lambda: now)
    assert sum(sleeps) == 700


def test_what_goes_to_and_fro_is_no_progress(sleeps):
    """A transaction that is aborted and begun again for ever comes nowhere."""
    left = cycle([0, 1, 0, 2])

    with pytest.raises(DeadlineError, match="waited 180 s without progress for the end; last seen: all of it"):
        clock.wait_until(
            lambda: False, within_s=180, reason="the end", every_s=1, seen=lambda: "all of it", left=lambda: next(left)
        )
    assert sum(sleeps) == 3 + 180


def test_progress_without_end_has_a_deadline_too(sleeps):
    """Ten times as long is too long."""
    left = count()

    with pytest.raises(DeadlineError, match="waited 1800 s for the end"):
        clock.wait_until(lambda: False, within_s=180, reason="the end", every_s=1, left=lambda: next(left))
    assert sum(sleeps) == 1800


def test_a_pause_ends_when_it_is_told_to():
    """A hold of ten minutes must not outlive Ctrl-C."""
    stop = Event()
    stop.set()

    assert clock.pause(600, stop) is True
    assert clock.pause(0.001, Event()) is False


def _refuse():
    raise ConnectionError("refused")
