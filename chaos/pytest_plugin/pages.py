"""Pages of ``--chaos-html``: one for each run in its directory, and one for the session at the path of the option.

The page of the session is written after each run, so a killed session has all finished runs; until its end the page says so.
"""

from pathlib import Path

import pytest

from chaos.engine.session import Session
from chaos.report.html.run_folder import Listed
from chaos.report.model import Report

_GOES_ON = "The session is still running, or was killed: further runs may be missing."
_INTERRUPTED = "The session was interrupted: further runs are missing."


def write_run(report: Report, config: pytest.Config) -> None:
    """Write the page of a run whose other files are written."""
    if _page(config) is not None:
        from chaos.report.html.run_folder import read_run  # noqa: PLC0415 - only sessions with pages need it
        from chaos.report.html.writing import write_run_page  # noqa: PLC0415

        write_run_page(read_run(report.run_dir))


def write_session(session: Session, config: pytest.Config, note: str = _GOES_ON) -> Path | None:
    """Write the page of the runs so far; return its path, or None without ``--chaos-html``."""
    page = _page(config)
    if page is not None:
        from chaos.report.html.writing import write_session_page  # noqa: PLC0415

        page.parent.mkdir(parents=True, exist_ok=True)
        write_session_page([Listed(report.run_dir, report) for report in session.reports], page, note)
    return page


def note_of(exit_status: int) -> str:
    """Return the note on the page of a session that has ended."""
    return _INTERRUPTED if exit_status == pytest.ExitCode.INTERRUPTED else ""


def _page(config: pytest.Config) -> Path | None:
    page: Path | None = config.getoption("--chaos-html")
    return page and page.resolve()
