"""`chaos demo`, with a session that runs nothing: what it writes, says, and how it ends."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from chaos.common.errors import RuntimeUnavailableError
from chaos.common.events import PhaseBegan
from chaos.common.history import Event
from chaos.demo import command, folder, pages, stage
from chaos.demo.acts import ACTS
from chaos.engine.session import Outcome
from chaos.install import artifacts, preflight
from chaos.report.model import Report
from verifiers.base import Verdict

RIGHT: tuple[dict[str, int], ...] = ({}, {"duplicates": 100, "ordering": 99})
PLACE = Path("chaos-demo")


class Played:
    """A session: each run ends with what was prepared for it.

    Attributes:
        ended: how often it was closed.
    """

    def __init__(self, outcomes: Sequence[Outcome | BaseException]) -> None:
        self.reports: list[Report] = []
        self.ended = 0
        self._outcomes = list(outcomes)

    def __call__(self, _environment, _seed):
        return self

    def system(self, _spec, *, with_spark):
        assert not with_spark

    def run(self, _scenario, _spec, _replay, listener):
        listener(Event(0, 0, 1.0, PhaseBegan(phase="steady")))
        outcome = self._outcomes.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        self.reports.append(outcome.report)
        return outcome

    def close(self):
        self.ended += 1


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Played], int]:
    """Play in an empty folder; returns the exit code."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(preflight, "check_machine", lambda *_: None)
    monkeypatch.setattr(artifacts, "at_hand", lambda: "all")

    def played(session: Played) -> int:
        monkeypatch.setattr(stage, "Session", session)
        return command.main(PLACE)

    return played


@pytest.fixture
def outcomes(report):
    """Those of both runs, by what was found."""

    def made(*found):
        return [Outcome(report(scenario=act.scenario, **counts)) for act, counts in zip(ACTS, found, strict=True)]

    return made


def test_it_ends_with_the_page_and_the_next_command(play, outcomes, capsys) -> None:
    session = Played(outcomes(*RIGHT))
    code = play(session)

    lines = capsys.readouterr().out.splitlines()
    assert (code, session.ended) == (0, 1)
    assert [line.split()[-1] for line in lines if line.split()[:1] in (["the"], ["your"])][-3:] == [
        str(PLACE / folder.PAGE),
        str(PLACE / folder.SCENARIOS),
        "init",
    ]
    assert lines[-1].endswith("chaos init")


def test_page_reports_and_files_are_in_its_folder(play, outcomes, tmp_path) -> None:
    """And nothing is beside it."""
    session = Played(outcomes(*RIGHT))
    play(session)

    page = (tmp_path / PLACE / folder.PAGE).read_text(encoding="utf-8")
    assert all(act.scenario in page for act in ACTS)
    assert pages._CUT_SHORT not in page
    assert all((report.run_dir / name).is_file() for report in session.reports for name in ("report.json", "report.html"))
    assert {path.name for path in tmp_path.iterdir()} == {PLACE.name, *(act.scenario for act in ACTS)}  # their run directories


def test_what_happens_is_told_beside_its_second_and_fits_the_terminal(play, outcomes, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "64")
    play(Played(outcomes(*RIGHT)))

    lines = capsys.readouterr().out.splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("    1.0 s  Steady"))
    assert lines[place + 1].startswith(" " * 11)
    assert [line for line in lines if len(line) > 64 and not line.startswith(("  VALID", "  INVALID", "  once more"))] == []


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (({"duplicates": 1}, RIGHT[1]), 1),
        (({}, {}), 1),
        (({}, {"duplicates": 200, "ordering": 198}), 1),
        (({"verdict": Verdict.UNKNOWN}, RIGHT[1]), 3),
        (({}, {"verdict": Verdict.UNKNOWN}), 3),
        (({"duplicates": 1}, {"verdict": Verdict.UNKNOWN}), 3),
    ],
)
def test_another_outcome_is_no_success(play, outcomes, capsys, found, code) -> None:
    """The run says what there is to say of it, as it does under pytest; the other scenario is played all the same."""
    session = Played(outcomes(*found))
    done = play(session)

    said = capsys.readouterr().out
    assert (done, len(session.reports), session.ended) == (code, 2, 1)
    assert "The demo expects" in said
    assert "Run directory:" in said
    assert "Both scenarios ended" not in said


def test_an_interrupt_in_a_run_ends_the_system_and_leaves_the_page(play, report, capsys, tmp_path) -> None:
    cut_short = Outcome(report(verdict=Verdict.UNKNOWN), KeyboardInterrupt("SIGINT"))

    session = Played([cut_short])
    code = play(session)

    assert (code, session.ended, len(session.reports)) == (130, 1, 1)
    assert "interrupted" in capsys.readouterr().out.splitlines()[-1]
    assert pages._CUT_SHORT in (tmp_path / PLACE / folder.PAGE).read_text(encoding="utf-8")


def test_an_interrupt_between_runs_ends_the_system(play) -> None:
    session = Played([KeyboardInterrupt("SIGTERM")])
    code = play(session)

    assert (code, session.ended) == (130, 1)


def test_a_system_that_cannot_be_had_is_ended_and_said_by_the_command_line(play) -> None:
    """`chaos.cli.main` says it in a line, and ends with 4."""
    session = Played([RuntimeUnavailableError("no room")])
    with pytest.raises(RuntimeUnavailableError, match="no room"):
        play(session)

    assert session.ended == 1


def test_a_machine_that_lacks_something_gets_no_files(play, monkeypatch, tmp_path) -> None:
    def lacks(*_):
        raise RuntimeUnavailableError("no memory")

    monkeypatch.setattr(preflight, "check_machine", lacks)

    with pytest.raises(RuntimeUnavailableError, match="no memory"):
        play(Played([]))

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_missing", [False, True])
def test_parts_are_fetched_after_a_word_where_they_are_missing(play, outcomes, monkeypatch, capsys, is_missing) -> None:
    monkeypatch.setattr(artifacts, "at_hand", lambda: None if is_missing else "all")
    monkeypatch.setattr(artifacts, "ensure", lambda echo: echo("fetching 46 jars …"))

    code = play(Played(outcomes(*RIGHT)))

    lines = capsys.readouterr().out.splitlines()
    assert code == 0
    assert ("parts are missing" in lines[0], lines[1] == "fetching 46 jars …") == (is_missing, is_missing)


def test_a_folder_of_somebody_else_is_refused_before_anything_else(play, monkeypatch, capsys, tmp_path) -> None:
    monkeypatch.setattr(preflight, "check_machine", pytest.fail)
    (tmp_path / PLACE).mkdir()
    (tmp_path / PLACE / "theirs").touch()

    session = Played([])
    code = play(session)

    assert (code, session.ended) == (2, 0)
    assert capsys.readouterr().err.startswith(f"chaos demo: {PLACE}: is not empty")


@pytest.mark.parametrize("page", ["write_run_page", "write_session_page"])
def test_a_page_that_cannot_be_written_is_said_in_a_line(play, outcomes, monkeypatch, capsys, page) -> None:
    def full(*_):
        raise OSError(28, "No space left on device", "report.html")

    monkeypatch.setattr(pages, page, full)

    session = Played(outcomes(*RIGHT))
    code = play(session)

    assert (code, session.ended) == (2, 1)
    assert capsys.readouterr().err == "chaos demo: report.html: cannot be written: No space left on device\n"


def test_an_interrupt_in_the_last_run_leaves_a_page_that_says_so(play, outcomes, report, tmp_path) -> None:
    """Though all runs are on it."""
    first, _ = outcomes(*RIGHT)
    last = Outcome(report(scenario=ACTS[1].scenario, verdict=Verdict.UNKNOWN), KeyboardInterrupt("SIGINT"))

    assert play(Played([first, last])) == 130
    assert pages._CUT_SHORT in (tmp_path / PLACE / folder.PAGE).read_text(encoding="utf-8")
