"""`chaos report RUN…`: write the page of a run, or a page of many runs and one of each."""

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from chaos.report.html.addresses import PAGE
from chaos.report.html.run_folder import listed, read_run
from chaos.report.html.templates import require_packages
from chaos.report.html.writing import SUFFIX, write_run_page, write_session_page
from chaos.report.model import is_run, runs_in
from verifiers.base import Verdict

_WRONG_USAGE = 2
_COMMAND = "chaos report"

Echo = Callable[[str], None]


def main(named: Sequence[Path], page: Path | None, echo: Echo) -> int:
    """Write the pages, and print their paths; a file that cannot be read is reported in a line, and on the run's page.

    Args:
        named: run directories, and folders of them.
        page: of the one run, or of all; for one argument it may be left out, and is `report.html` there.

    Returns:
        The greatest of these exit codes: 0 done, 2 wrong usage or a page that cannot be written, 3 a file of a run cannot be
        read, or a run that was named itself has no report. One in a folder may have none: it was cut short, or goes on.

    Raises:
        InconclusiveError: a folder has no run directory.
        RuntimeUnavailableError: a package for pages is not installed.
    """
    if problem := _misused(named, page):
        return _failed(problem)
    require_packages()
    if page is None and not is_run(named[0]):
        page = named[0] / PAGE
    if len(named) == 1 and is_run(named[0]):
        return _of_run(named[0], page, echo, is_named=True)
    assert page is not None  # noqa: S101 - see `_misused`
    return _of_all(named, page, echo)


def _misused(named: Sequence[Path], page: Path | None) -> str:
    if page is None:
        return "" if len(named) == 1 else "several runs need --html PATH, the file for the page of all of them"
    if page.suffix != SUFFIX:
        return f"--html {page}: a file that ends in {SUFFIX} is needed"
    if not page.parent.is_dir():
        return f"--html {page}: its folder is not there"
    return ""


def _of_all(named: Sequence[Path], page: Path, echo: Echo) -> int:
    is_named = {folder: is_run(folder) for folder in named}
    runs = dict.fromkeys(run for folder in named for run in ([folder] if is_named[folder] else runs_in(folder)))
    codes = [_of_run(run, None, _quiet, is_named=is_named.get(run, False)) for run in runs]
    return max(*codes, _tried(lambda: write_session_page([listed(run) for run in runs], page), echo, page))


def _of_run(folder: Path, page: Path | None, echo: Echo, *, is_named: bool) -> int:
    run = read_run(folder)
    _say(run.problems)
    is_cut_short = run.listed.report is None and not run.listed.is_damaged and len(run.problems) == 1
    code = Verdict.UNKNOWN.exit_code if run.problems and (is_named or not is_cut_short) else 0
    return max(code, _tried(lambda: write_run_page(run, page), echo, page or folder / PAGE))


def _tried(write: Callable[[], object], echo: Echo, page: Path) -> int:
    """Write a page, and print its path, or why it cannot be written."""
    try:
        write()
    except OSError as error:
        return _failed(f"{page} cannot be written: {error.strerror}")
    echo(str(page))
    return 0


def _quiet(_text: str) -> None:
    """Print nothing: the page of all runs links to the others."""


def _say(problems: Iterable[str]) -> None:
    for problem in problems:
        sys.stderr.write(f"{_COMMAND}: {problem}\n")


def _failed(problem: str) -> int:
    _say([problem])
    return _WRONG_USAGE
