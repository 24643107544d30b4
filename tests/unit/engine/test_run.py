"""How a phase is written down, and which failures a run goes on after."""

import pytest

from chaos.common.errors import DeadlineError, InconclusiveError, InjectionError
from chaos.common.events import PhaseBegan, PhaseEnded, PhaseFailed
from chaos.common.history import History
from chaos.engine import run


@pytest.fixture
def history(tmp_path):
    with History(tmp_path / "history.jsonl") as opened:
        yield opened


def recorded(history):
    return [event.value for event in history.events()]


def test_a_phase_is_recorded_when_it_begins_and_when_it_ends(history):
    with run._phase(history, "observe"):
        assert recorded(history) == [PhaseBegan(phase="observe")]

    assert recorded(history) == [PhaseBegan(phase="observe"), PhaseEnded(phase="observe")]


@pytest.mark.parametrize("error", [DeadlineError("late"), InconclusiveError("nothing")])
def test_a_run_goes_on_after_a_phase_that_proved_nothing(history, error):
    """What can still be observed is observed; the history has the reason."""
    with run._tolerated(history, "drain"):
        raise error

    assert recorded(history)[-1] == PhaseFailed(phase="drain", error=f"{type(error).__name__}: {error}")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), InjectionError("not healed"), ZeroDivisionError("a defect")])
def test_a_run_ends_with_every_other_error(history, error):
    """It is recorded first."""
    with pytest.raises(type(error)), run._tolerated(history, "drain"):
        raise error

    assert recorded(history)[-1] == PhaseFailed(phase="drain", error=f"{type(error).__name__}: {error}")
