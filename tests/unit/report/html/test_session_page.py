"""The page of all runs: what is on it, in which order, and what it costs."""

import json
from pathlib import Path

from chaos.report.html.run_folder import Listed, listed
from chaos.report.html.session_page import session_page
from chaos.report.model import Report
from tests.unit.report.conftest import Fabricated
from tests.unit.report.html.page import Page
from tests.unit.wording import keep
from verifiers.base import Verdict

HOSTILE = "<script>alert(1)</script> & \"'</td>"


def rows(page: str) -> list[list[str]]:
    return Page(page).rows[""][1:]


def runs(run: Fabricated) -> list[Listed]:
    """One of each verdict, and one without."""
    named = {"valid": run.valid(), "control": run.control(tags=("control",)), "broken": run.report()}
    unknown = run.report(verdict=Verdict.UNKNOWN, findings=(), problems=("it had no effect", "and more"))
    found = {**named, "idle": unknown}
    told = [Listed(run.folder / name, report.model_copy(update={"scenario": name})) for name, report in found.items()]
    return [*told, listed(run.folder / "killed")]


def test_the_worst_comes_first_with_all_that_tells_runs_apart(run: Fabricated) -> None:
    """Verdict, scenario, what was expected and found, seconds, seed."""
    page = session_page(runs(run), run.folder)

    assert [row[0].split()[0] for row in rows(page)] == ["INVALID", "UNKNOWN", "NO", "VALID", "VALID"]
    keep("\n".join(" | ".join(row) for row in rows(page)), {str(run.folder): "<folder>"})


def test_how_many_there_are_of_each_verdict_stands_above(run: Fabricated) -> None:
    """And what else is to be known of the session."""
    page = Page(session_page(runs(run), run.folder, note="The session was interrupted."))

    head = page.texts[""].partition(" verdict all")[0]
    assert head.startswith("1 INVALID, 1 UNKNOWN, 1 NO REPORT, 2 VALID 5 runs")
    assert "The session was interrupted." in head
    assert head.endswith("1INVALID 1UNKNOWN 1NO REPORT 2VALID")


def test_a_run_has_a_link_if_its_page_is_there(run: Fabricated, tmp_path: Path) -> None:
    """Relative to the page, so that both may be moved together."""
    (run.folder / "broken").mkdir()
    (run.folder / "broken" / "report.html").touch()

    def links(folder: Path) -> list[str]:
        return [value for tag, name, value in Page(session_page(runs(run), folder)).attributes if (tag, name) == ("a", "href")]

    assert links(run.folder) == ["broken/report.html"]
    assert links(tmp_path / "x" / "y") == ["../../broken/report.html"]


def test_filters_are_given_what_they_filter_by(run: Fabricated) -> None:
    """Verdicts and tags to choose from, and those of each row."""
    page = Page(session_page(runs(run), run.folder))
    options = [value for value in page.texts[""].partition("verdict all")[2].split("text")[0].split() if value != "all"]
    of_rows = [json.loads(value) for _, name, value in page.attributes if name == "data-tags"]

    assert " ".join(options).startswith("INVALIDUNKNOWNNO REPORTVALID")
    assert of_rows == [["smoke", "kafka"], ["smoke", "kafka"], [], ["smoke", "kafka"], ["control"]]
    assert [value for tag, name, value in page.attributes if (tag, name) == ("tr", "data-verdict")] == [
        "INVALID",
        "UNKNOWN",
        "NO REPORT",
        "VALID",
        "VALID",
    ]


def test_what_users_have_written_is_text(run: Fabricated) -> None:
    """In every cell, and in what the filters are given."""
    found = run.finding("gaps", Verdict.INVALID, subject=HOSTILE, count=1)
    hostile: Report = run.report(scenario=HOSTILE, title=HOSTILE, tags=(HOSTILE,), problems=(HOSTILE,), findings=(found,))
    page = Page(session_page([Listed(run.folder / HOSTILE, hostile), listed(run.folder / HOSTILE)], run.folder, note=HOSTILE))

    assert len(page.scripts) == 1
    assert page.tags.count("td") == 12
    assert [json.loads(value) for _, name, value in page.attributes if name == "data-tags"] == [[HOSTILE], []]
    assert page.texts[""].count(HOSTILE) >= 6
    assert not any(name.startswith("on") for _, name, _ in page.attributes)


def test_no_run_at_all(run: Fabricated) -> None:
    """A session that was interrupted before its first."""
    assert "0 runs" in Page(session_page([], run.folder)).texts[""]


def test_five_hundred_runs_are_one_small_page(run: Fabricated) -> None:
    """Without Bokeh, and without the histories of the runs."""
    page = session_page(runs(run) * 100, run.folder)

    assert len(rows(page)) == 500
    assert len(page.encode()) < 1_500_000
    assert "Bokeh" not in page
