"""How a phase is written down, and which failures a run goes on after."""

import pytest

from chaos.common.errors import DeadlineError, InconclusiveError, InjectionError
from chaos.common.events import PhaseBegan, PhaseFailed
from chaos.common.history import History, load
from chaos.engine import run


def recorded(history):
    return [(event.value.type, event.value.to_json().get("error", "")) for event in history.events()]


def test_a_phase_is_recorded_when_it_begins_and_when_it_ends(history):
    with run.in_phase(history, "observe"):
        assert recorded(history) == [("invoke", "")]

    assert recorded(history) == [("invoke", ""), ("ok", "")]


@pytest.mark.parametrize("error", [DeadlineError("late"), InconclusiveError("nothing")])
def test_a_run_goes_on_after_a_phase_that_proved_nothing(history, error):
    """The run still observes what it can; the history has the reason."""
    with run._tolerated(history, "drain") as failed:
        raise error

    assert recorded(history)[-1] == ("fail", f"{type(error).__name__}: {error}")
    assert failed == [error]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), InjectionError("not healed"), ZeroDivisionError("a defect")])
def test_a_run_ends_with_every_other_error(history, error):
    """It is recorded first."""
    with pytest.raises(type(error)), run._tolerated(history, "drain"):
        raise error

    assert recorded(history)[-1] == ("fail", f"{type(error).__name__}: {error}")


def test_an_interrupt_at_the_very_beginning_of_a_phase_is_recorded(tmp_path):
    """The phase is on disk, and is seen by others, a little before its first step: a signal may come in between."""

    def interrupt(event):
        if isinstance(event.value, PhaseBegan):
            raise KeyboardInterrupt("SIGTERM")

    path = tmp_path / "history.jsonl"
    with History(path, interrupt) as history, pytest.raises(KeyboardInterrupt), run.in_phase(history, "observe"):
        pytest.fail("the phase began")

    began, ended = load(path)
    assert isinstance(began.value, PhaseBegan)
    assert began.value.load is not None
    assert (began.value.phase, ended.value) == (
        "observe",
        PhaseFailed(phase="observe", error="KeyboardInterrupt: SIGTERM"),
    )


def test_an_interrupt_that_was_lost_in_a_phase_ends_it(history, monkeypatch):
    """A client that was released swallowed it: the phase went on to its end, and must not count as passed."""
    monkeypatch.setattr(run.signals, "lost", lambda **_: "SIGINT")

    with pytest.raises(KeyboardInterrupt, match="SIGINT"), run._tolerated(history, "drain"):
        pass

    assert recorded(history)[-1] == ("fail", "KeyboardInterrupt: SIGINT")
