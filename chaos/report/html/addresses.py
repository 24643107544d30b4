"""Where pages are, and how they find each other and the files of a run: by relative addresses, so a folder may be moved."""

import os
from pathlib import Path
from urllib.parse import quote

PAGE = "report.html"


def address(path: Path, page_folder: Path) -> str:
    """Where a file is, seen from the folder of a page."""
    return quote(os.path.relpath(path.resolve(), page_folder.resolve()))
