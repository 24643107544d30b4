"""The folder of parts: each is complete or absent, and only one process at a time makes it.

The name of a part's folder contains a digest of the part's ingredients, so a part is never stale. It is made under another
name and renamed when it is complete, so half a download is never taken for a whole one.
"""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import platformdirs

from chaos.common import warden
from chaos.common.errors import RuntimeUnavailableError

SESSIONS = "sessions"

_HALF = ".half"
_LOCKS = "locks"

Echo = Callable[[str], None]


def folder() -> Path:
    """The folder of all parts: ``$CHAOS_CACHE``, or the user's cache folder."""
    named = os.environ.get("CHAOS_CACHE")
    return Path(named).expanduser().absolute() if named else platformdirs.user_cache_path("kafka-spark-chaos")


def digest(*texts: str) -> str:
    """Twelve hexadecimal digits that differ for different texts."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]


def make(part: Path, how: Callable[[Path], None], echo: Echo) -> None:
    """Make a part's folder if it does not exist; all processes started for it end with this one at the latest.

    A process that needs the same part waits until it is made; other parts can be made meanwhile.

    Args:
        part: the folder.
        how: fills an empty folder; if it raises, the part does not exist afterwards.

    Raises:
        RuntimeUnavailableError: the folder of parts cannot be written.
    """
    if part.is_dir():
        return
    with locked(part, echo):
        _remove_left(part)
        if part.is_dir():
            return
        half = _half(part)
        half.mkdir()
        sessions = part.parent / SESSIONS
        warden.leftovers(sessions)  # the training broker of a process that was killed would keep its port
        with warden.Session(sessions) as session:
            session.mark()
            how(half)
        half.rename(part)


@contextmanager
def locked(part: Path, echo: Echo) -> Iterator[None]:
    """Hold the lock of a part, and wait for it if another process makes the part.

    Raises:
        RuntimeUnavailableError: the folder of parts cannot be written.
    """
    with _lock_file(part) as lock:
        if not _took(lock):
            echo(f"another process is making {part.name} in {part.parent}; waiting for it …")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _half(part: Path) -> Path:
    return part.with_name(part.name + _HALF)


def _lock_file(part: Path) -> IO[str]:
    """Open the file whose lock the maker of a part holds; a process that dies releases it."""
    try:
        (part.parent / _LOCKS).mkdir(parents=True, exist_ok=True)
        return (part.parent / _LOCKS / part.name).open("w", encoding="utf-8")
    except OSError as error:
        raise RuntimeUnavailableError(
            f"{part.parent} cannot be written ({error.strerror}); set CHAOS_CACHE to a writable folder"
        ) from error


def _took(lock: IO[str]) -> bool:
    """Take a lock if it is free; return whether it was."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove_left(mine: Path) -> None:
    """Remove parts that killed processes left half made: this one, and each that no process makes now."""
    shutil.rmtree(_half(mine), ignore_errors=True)
    for left in mine.parent.glob(f"*{_HALF}"):
        with _lock_file(left.with_suffix("")) as lock:
            if _took(lock):
                shutil.rmtree(left, ignore_errors=True)
