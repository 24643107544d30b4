"""What pytest sees of a run, and the end of a session that has not started anything."""

from dataclasses import dataclass

import pytest

from chaos.common.errors import DeadlineError, InconclusiveError, InjectionError, ViolationError
from chaos.engine import session
from chaos.engine.environment import Environment
from chaos.engine.session import Outcome, Session
from verifiers.base import Verdict


@dataclass(frozen=True)
class FakeReport:
    """As much of a report as decides what pytest sees."""

    verdict: Verdict


@pytest.fixture(autouse=True)
def _explained(monkeypatch):
    monkeypatch.setattr(session, "explain", lambda report: f"it is {report.verdict.name}")


@pytest.mark.parametrize(
    ("verdict", "error", "raised"),
    [
        (Verdict.INVALID, None, ViolationError),
        (Verdict.UNKNOWN, None, InconclusiveError),
        (Verdict.UNKNOWN, DeadlineError("late"), InconclusiveError),
        (Verdict.INVALID, InconclusiveError("no trigger"), ViolationError),
        (Verdict.VALID, InjectionError("refused"), InjectionError),
        (Verdict.UNKNOWN, KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_what_is_not_valid_is_raised(verdict, error, raised):
    """An error that only kept the run from proving something gives way to the verdict, every other one is raised itself."""
    with pytest.raises(raised):
        Outcome(FakeReport(verdict), error).settle()


def test_a_valid_run_is_green():
    Outcome(FakeReport(Verdict.VALID)).settle()


def test_a_session_that_started_nothing_can_be_closed(tmp_path):
    said = []

    Session(Environment(tmp_path, said.append), 1).close()

    assert said == []
    assert list(tmp_path.iterdir()) == []
