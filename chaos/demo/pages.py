"""The report and the pages of the demo's runs."""

from collections.abc import Sequence
from pathlib import Path

from chaos.demo import folder
from chaos.engine.session import Outcome
from chaos.report.html.run_folder import Listed, read_run
from chaos.report.html.templates import require_packages
from chaos.report.html.writing import write_run_page, write_session_page
from chaos.report.model import Report

_CUT_SHORT = "The demo is still running, or was interrupted: a run may be missing."


def require() -> None:
    """Refuse a demo whose pages could not be made.

    Raises:
        RuntimeUnavailableError: a package is missing.
    """
    require_packages()


def write(outcome: Outcome, reports: Sequence[Report], of: int, into: Path) -> None:
    """Write report and pages, however the last run has ended.

    Args:
        reports: those of all runs until now.
        of: the number of runs of the whole demo.
        into: the folder of the demo.

    Raises:
        DemoUsageError: they cannot be written.
        KeyboardInterrupt: the run was interrupted.
    """
    is_cut_short = isinstance(outcome.error, KeyboardInterrupt)
    note = _CUT_SHORT if is_cut_short or len(reports) < of else ""
    try:
        outcome.report.write()
        write_run_page(read_run(outcome.report.run_dir))
        write_session_page([Listed(report.run_dir, report) for report in reports], into / folder.PAGE, note)
    except OSError as error:
        raise folder.DemoUsageError(f"{error.filename}: cannot be written: {error.strerror}") from None
    if is_cut_short:
        outcome.require_end()
