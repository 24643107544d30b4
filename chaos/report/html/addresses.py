"""Addresses of pages and of the files of a run; they are relative, so a folder may be moved."""

import os
from pathlib import Path
from urllib.parse import quote

PAGE = "report.html"


def address(path: Path, page_folder: Path) -> str:
    """Return the address of a file, relative to the folder of a page."""
    return quote(os.path.relpath(path.resolve(), page_folder.resolve()))
