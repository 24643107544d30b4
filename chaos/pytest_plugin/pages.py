"""The pages that ``--chaos-html`` asks for: that of each run in its directory, and that of the session where the option says.

The page of the session is written after each run, so one that is killed has all that were finished; until its end it says so.
"""

from pathlib import Path

import pytest

from chaos.engine.session import Session
from chaos.report.html.run_folder import Listed
from chaos.report.model import Report

_GOES_ON = "The session goes on, or was killed: further runs may be missing."
_INTERRUPTED = "The session was interrupted: further runs are missing."


def write_run(report: Report, config: pytest.Config) -> None:
    """Write the page of a run that has left all of its files."""
    if _page(config) is not None:
        from chaos.report.html.run_folder import read_run  # noqa: PLC0415 - where a page is asked for
        from chaos.report.html.writing import write_run_page  # noqa: PLC0415

        write_run_page(read_run(report.run_dir))


def write_session(session: Session, config: pytest.Config, note: str = _GOES_ON) -> Path | None:
    """Write the page of the runs so far; its path, if one is asked for."""
    page = _page(config)
    if page is not None:
        from chaos.report.html.writing import write_session_page  # noqa: PLC0415

        page.parent.mkdir(parents=True, exist_ok=True)
        write_session_page([Listed(report.run_dir, report) for report in session.reports], page, note)
    return page


def note_of(exit_status: int) -> str:
    """What the page says of a session that has ended."""
    return _INTERRUPTED if exit_status == pytest.ExitCode.INTERRUPTED else ""


def _page(config: pytest.Config) -> Path | None:
    page: Path | None = config.getoption("--chaos-html")
    return page and page.resolve()
