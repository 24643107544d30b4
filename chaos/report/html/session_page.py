"""The page of a session, or of all runs in a folder: a row for each, the worst first, and the count of each verdict."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos.common.errors import one_line
from chaos.report.formatting import began, findings_line, seconds, wall_s
from chaos.report.html import templates, verdict_words
from chaos.report.html.addresses import PAGE, address
from chaos.report.html.run_folder import Listed
from chaos.report.model import Report

_ORDER = ("INVALID", "UNKNOWN", verdict_words.NO_REPORT, "VALID")


@dataclass(frozen=True, slots=True)
class _Row:
    """One run; ``address`` is that of its page, or ""."""

    verdict: str
    meaning: str
    scenario: str
    title: str
    tags: Sequence[str]
    address: str
    expected: str
    found: str
    problem: str
    began: str
    took: str
    seed: str


def session_page(runs: Sequence[Listed], page_folder: Path, note: str = "") -> str:
    """Render the page of these runs as HTML.

    Args:
        runs: in the order they ran.
        page_folder: where the page will be, for its links to existing pages of runs.
        note: a note about the session, or "".
    """
    rows = sorted((_row(run, page_folder) for run in runs), key=lambda row: _ORDER.index(row.verdict))
    counts = Counter(row.verdict for row in rows)
    reports = [run.report for run in runs if run.report is not None]
    values = {
        "rows": rows,
        "counts": [(verdict, counts[verdict]) for verdict in _ORDER if counts[verdict]],
        "tags": sorted({tag for row in rows for tag in row.tags}),
        "took": seconds(sum(map(wall_s, reports))),
        "began": min((row.began for row in rows if row.began), default=""),
        "note": note,
    }
    return templates.rendered("session.html.j2", values)


def _row(run: Listed, page_folder: Path) -> _Row:
    page = run.folder / PAGE
    there = address(page, page_folder) if page.exists() else ""
    if run.report is None:
        return _Row(verdict_words.NO_REPORT, run.why_not, run.folder.name, "", (), there, "", "", run.problem, "", "", "")
    return _reported(run.report, there)


def _reported(report: Report, there: str) -> _Row:
    return _Row(
        verdict=report.verdict.name,
        meaning=verdict_words.meaning(report),
        scenario=report.scenario,
        title=one_line(report.title, 400),
        tags=report.tags,
        address=there,
        expected=verdict_words.expected(report),
        found=findings_line(report),
        problem=one_line(report.problems[0], 300) if report.problems else "",
        began=began(report),
        took=seconds(wall_s(report)),
        seed=str(report.seed),
    )
