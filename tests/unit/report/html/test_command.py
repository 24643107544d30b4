"""`chaos report`: which pages it writes, what it says, and its exit code."""

from pathlib import Path

import pytest

from chaos.common.errors import InconclusiveError
from chaos.report.html import command
from tests.unit.report.conftest import Fabricated
from tests.unit.report.html.conftest import leave
from tests.unit.report.html.page import Page
from tests.unit.wording import named


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder with a run that is INVALID, one that was killed, and what is no run."""
    folder = tmp_path / "runs"
    for name in ("1-broken", "2-killed"):
        run = Fabricated(folder / name)
        leave(run, run.report(run_dir=run.folder) if name == "1-broken" else None, run.events()[:150])
    (folder / "system").mkdir()
    return folder


def told(*named: Path, page: Path | None = None) -> tuple[int, list[str]]:
    """The exit code, and what is written to standard output."""
    said: list[str] = []
    return command.main(named, page, said.append), said


def pages(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*.html")}


def test_of_one_run_its_page(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In its directory, or where it is wanted; the verdict is on it, and is not the exit code."""
    other = runs.parent / "mail.html"

    assert told(runs / "1-broken") == (0, [str(runs / "1-broken" / "report.html")])
    assert told(runs / "1-broken", page=other) == (0, [str(other)])
    assert pages(runs) == {"1-broken/report.html"}
    assert Page(other.read_text(encoding="utf-8")).texts[""].startswith("INVALID")
    assert capsys.readouterr().err == ""


def test_of_a_folder_a_page_with_one_for_each(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that was cut short is said, as `chaos table` does, and is no error."""
    assert told(runs) == (0, [str(runs / "report.html")])

    assert pages(runs) == {"report.html", "1-broken/report.html", "2-killed/report.html"}
    page = Page((runs / "report.html").read_text(encoding="utf-8"))
    links = [value for tag, name, value in page.attributes if (tag, name) == ("a", "href")]
    assert links == ["1-broken/report.html", "2-killed/report.html"]
    (line,) = capsys.readouterr().err.splitlines()
    named(line, f"chaos report: {runs / '2-killed' / 'report.json'} is missing: ")


def test_a_run_that_is_named_itself_must_have_a_report(runs: Path) -> None:
    """As `chaos judge` wants it; what is there is on its page."""
    assert told(runs / "2-killed")[0] == 3
    assert told(runs / "2-killed", runs / "1-broken", page=runs / "two.html")[0] == 3
    assert pages(runs) == {"two.html", "1-broken/report.html", "2-killed/report.html"}


def test_a_file_that_is_damaged_is_an_error_wherever_it_is(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And keeps nothing else from being shown."""
    (runs / "1-broken" / "report.json").write_text("{", encoding="utf-8")

    assert told(runs)[0] == 3
    assert f"chaos report: {runs / '1-broken' / 'report.json'} cannot be read" in capsys.readouterr().err
    assert pages(runs) == {"report.html", "1-broken/report.html", "2-killed/report.html"}


@pytest.mark.parametrize("page", ["x.txt", "nowhere/x.html", ""])
def test_wrong_usage_is_a_line(runs: Path, page: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is written."""
    code, said = told(runs / "1-broken", runs / "2-killed", page=runs / page if page else None)

    assert (code, said, pages(runs)) == (2, [], set())
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_page_that_cannot_be_written_is_a_line(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of the others are written, and the page of all, which has no link then."""
    (runs / "1-broken" / "report.html").mkdir()

    assert told(runs) == (2, [str(runs / "report.html")])
    assert f"{runs / '1-broken' / 'report.html'} cannot be written: Is a directory" in capsys.readouterr().err
    assert (runs / "2-killed" / "report.html").is_file()


def test_a_folder_without_runs_is_an_error(tmp_path: Path) -> None:
    """A page of nothing would look like a good night."""
    with pytest.raises(InconclusiveError, match="holds no run directory"):
        told(tmp_path)
