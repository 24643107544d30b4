"""Twins that are kept in the cache, for all later runs of the same key.

<cache>/twins/<key>/rows/        key string, value string: the rows, as Parquet
<cache>/twins/<key>/about.json   its time, the run that made it, the number of rows, and their source
"""

import json
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from chaos.common import files
from chaos.expectation.definitions import ABOUT, ROWS
from chaos.install import cache

_TWINS = "twins"
_AT_MOST = 50


def folder() -> Path:
    """The folder of twins."""
    return cache.folder() / _TWINS


def is_kept(kept: Path) -> bool:
    """Whether this folder holds a twin."""
    return (kept / ABOUT).is_file()


def keep(kept: Path, rows: DataFrame, about: Mapping[str, Any]) -> None:
    """Put a twin into the cache, complete or not at all; another session may have made this twin meanwhile."""
    half = files.new_folder(kept.parent, f"{kept.name}.half")
    rows.coalesce(1).write.parquet(str(half / ROWS))
    told = {**about, "made": files.stamp(), "rows": rows.count()}
    files.write_atomically(half / ABOUT, json.dumps(told, indent=1))
    try:
        half.rename(kept)
    except OSError:
        shutil.rmtree(half, ignore_errors=True)
    with suppress(FileNotFoundError):  # another session removes the oldest, too
        there = sorted(kept.parent.iterdir(), key=lambda one: one.stat().st_mtime)
        for old in there[:-_AT_MOST]:
            shutil.rmtree(old, ignore_errors=True)


def copied(kept: Path, into: Path) -> Mapping[str, Any]:
    """Copy a twin into a run, and return what is written about it."""
    kept.touch()  # used twins are not removed
    shutil.copytree(kept, into, dirs_exist_ok=True)
    about: Mapping[str, Any] = json.loads((kept / ABOUT).read_text(encoding="utf-8"))
    return about
