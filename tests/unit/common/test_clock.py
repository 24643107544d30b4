"""Waits end: with an answer, or with an error that says what was waited for."""

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


def test_a_pause_ends_when_it_is_told_to():
    """A hold of ten minutes must not outlive Ctrl-C."""
    stop = Event()
    stop.set()

    assert clock.pause(600, stop) is True
    assert clock.pause(0.001, Event()) is False


def _refuse():
    raise ConnectionError("refused")
