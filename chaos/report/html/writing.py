"""Write the page of a run into its directory, and that of a session to the path of the option.

The page of a run is beside the files that it links to, moves with the run directory, and is replaced by a later `chaos report`.
The page of a session links to it.
"""

from collections.abc import Sequence
from pathlib import Path

from chaos.common import files
from chaos.report.html.addresses import PAGE
from chaos.report.html.run_folder import Listed, RunFolder
from chaos.report.html.run_page import page_of
from chaos.report.html.session_page import session_page

SUFFIX = ".html"


def write_run_page(run: RunFolder, page: Path | None = None) -> Path:
    """Write the page of a run, by default into the run directory, and return its path.

    Raises:
        OSError: it cannot be written.
    """
    path = page or run.folder / PAGE
    _write(path, page_of(run, path.parent))
    return path


def write_session_page(runs: Sequence[Listed], page: Path, note: str = "") -> None:
    """Write the page of these runs; the arguments are those of `session_page`.

    Raises:
        OSError: it cannot be written.
    """
    _write(page, session_page(runs, page.parent, note))


def _write(page: Path, text: str) -> None:
    try:
        files.write_atomically(page, text)
    except OSError as error:  # the error may name a draft of the page
        raise OSError(error.errno, error.strerror or str(error), str(page)) from error
