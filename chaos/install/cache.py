"""The folder of parts: each is complete or absent, and only one process at a time makes any.

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

import platformdirs

from chaos.common import warden
from chaos.common.errors import RuntimeUnavailableError

SESSIONS = "sessions"

_HALF = ".half"

Echo = Callable[[str], None]


def folder() -> Path:
    """The folder of all parts: ``$CHAOS_CACHE``, or the user's cache folder."""
    named = os.environ.get("CHAOS_CACHE")
    return Path(named).expanduser().absolute() if named else platformdirs.user_cache_path("kafka-spark-chaos")


def digest(*texts: str) -> str:
    """Twelve hexadecimal digits that differ for different texts."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]


def make(part: Path, how: Callable[[Path], None]) -> None:
    """Make a part's folder if it does not exist. Needs the lock; all processes started for it end with this one at the latest.

    Args:
        part: the folder.
        how: fills an empty folder; if it raises, the part does not exist afterwards.
    """
    if part.is_dir():
        return
    for left in part.parent.glob(f"*{_HALF}"):  # left by a process that was killed while it made a part
        shutil.rmtree(left, ignore_errors=True)
    half = part.with_name(part.name + _HALF)
    half.mkdir(parents=True)
    sessions = part.parent / SESSIONS
    warden.leftovers(sessions)  # the training broker of a process that was killed would keep its port
    with warden.Session(sessions) as session:
        session.mark()
        how(half)
    half.rename(part)


@contextmanager
def locked(cache: Path, echo: Echo) -> Iterator[None]:
    """Hold the lock of the cache, and wait for it if another process has it; a process that dies releases it.

    Raises:
        RuntimeUnavailableError: the folder cannot be written.
    """
    try:
        cache.mkdir(parents=True, exist_ok=True)
        lock = (cache / "lock").open("w", encoding="utf-8")
    except OSError as error:
        raise RuntimeUnavailableError(
            f"{cache} cannot be written ({error.strerror}); set CHAOS_CACHE to a writable folder"
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            echo(f"another process is filling {cache}; waiting for it …")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
