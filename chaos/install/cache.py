"""The folder of parts: each made whole or not at all, by one process at a time.

A part's folder carries a digest of what the part is made of, so a part is never stale. It is made beside its place and moved
there when it is right, so a half download is never taken for a whole one.
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
    """Where parts are kept: ``$CHAOS_CACHE``, or the user's cache folder."""
    named = os.environ.get("CHAOS_CACHE")
    return Path(named).expanduser().absolute() if named else platformdirs.user_cache_path("kafka-spark-chaos")


def digest(*texts: str) -> str:
    """Twelve hexadecimal digits that tell one set of ingredients from another."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]


def make(part: Path, how: Callable[[Path], None]) -> None:
    """Make a part's folder if it is not there; needs the lock. What is started for it ends with this process at the latest.

    Args:
        part: its place.
        how: fills the empty folder that it is given; one that raises leaves nothing in the part's place.
    """
    if part.is_dir():
        return
    for left in part.parent.glob(f"*{_HALF}"):  # of a process that was ended while it made something
        shutil.rmtree(left, ignore_errors=True)
    half = part.with_name(part.name + _HALF)
    half.mkdir(parents=True)
    sessions = part.parent / SESSIONS
    warden.leftovers(sessions)  # a training broker of a process that was killed would keep its port
    with warden.Session(sessions) as session:
        session.mark()
        how(half)
    half.rename(part)


@contextmanager
def locked(cache: Path, echo: Echo) -> Iterator[None]:
    """One process at a time; the lock goes with the process that holds it.

    Raises:
        RuntimeUnavailableError: nothing can be written there.
    """
    try:
        cache.mkdir(parents=True, exist_ok=True)
        lock = (cache / "lock").open("w", encoding="utf-8")
    except OSError as error:
        raise RuntimeUnavailableError(
            f"{cache} cannot be written ({error.strerror}); set CHAOS_CACHE to a folder that can"
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            echo(f"another process is filling {cache}; waiting for it …")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
