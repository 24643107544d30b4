"""Files that are written in one step, so that a reader sees the old text or the new one, and folders that nobody else has.

Only a regular file can be replaced. A device, a FIFO, or what this process itself writes to (/dev/stdout) is written to where
it is, and of a symbolic link the file that it points to is replaced.
"""

import errno
import os
import stat
import sys
import tempfile
from pathlib import Path

from chaos.common import clock
from chaos.common.errors import DeadlineError, RuntimeUnavailableError

_MOST = 100
_STANDARD = (1, 2)
_READER_WITHIN_S = 10.0


def write_atomically(path: Path, text: str) -> None:
    """Write a text file, replacing what was there; a line break is added at its end.

    Raises:
        OSError: it cannot be written; the old text stays.
    """
    write_bytes_atomically(path, f"{text}\n".encode())


def write_bytes_atomically(path: Path, content: bytes) -> None:
    """Write a file of any bytes, likewise.

    Raises:
        OSError: it cannot be written; the old file stays. Also where it is a block device, and where nobody reads a FIFO.
    """
    try:
        there = path.stat()
    except FileNotFoundError:
        there = None
    if there is not None and (descriptor := _standard(there)) is not None:
        sys.stdout.flush()
        _write_all(descriptor, content)
    elif there is None or stat.S_ISREG(there.st_mode) or stat.S_ISDIR(there.st_mode):
        _replace(Path(os.path.realpath(path)), content)
    else:
        _write_in_place(path, there.st_mode, content)


def _replace(path: Path, content: bytes) -> None:
    draft = path.with_name(f".{path.name}.draft")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _standard(there: os.stat_result) -> int | None:
    """Which of the standard streams a file is, if it is one."""
    for descriptor in _STANDARD:
        try:
            if os.path.samestat(there, os.fstat(descriptor)):
                return descriptor
        except OSError:  # it is closed
            continue
    return None


def _write_in_place(path: Path, mode: int, content: bytes) -> None:
    """Write to what is no regular file."""
    if stat.S_ISBLK(mode):
        raise OSError(errno.EINVAL, "it is a block device")
    descriptor = _opened(path)
    try:
        os.set_blocking(descriptor, True)
        _write_all(descriptor, content)
    finally:
        os.close(descriptor)


def _opened(path: Path) -> int:
    """Open it for writing; a FIFO has no reader perhaps for a moment."""

    def opened() -> tuple[int] | None:
        try:
            return (os.open(path, os.O_WRONLY | os.O_NONBLOCK),)
        except OSError as error:
            if error.errno == errno.ENXIO and path.is_fifo():
                return None
            raise

    try:
        found = clock.wait_until(opened, within_s=_READER_WITHIN_S, reason=f"a reader of {path}")
    except DeadlineError as error:
        raise OSError(errno.ENXIO, f"it is a FIFO, and nobody reads it within {_READER_WITHIN_S:g} s") from error
    assert found is not None  # noqa: S101 - or the deadline had passed
    return found[0]


def _write_all(descriptor: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


def require_folder(path: Path) -> None:
    """Check that a folder can be made and written to; nothing is left there.

    Raises:
        OSError: it cannot, for the reason that the error has.
    """
    nearest = next(one for one in (path, *path.absolute().parents) if one.exists())
    with tempfile.TemporaryDirectory(prefix=".chaos-", dir=nearest):
        pass


def stamp() -> str:
    """The time in UTC, as the names of folders begin with it."""
    return clock.now_utc().strftime("%Y%m%dT%H%M%SZ")


def new_folder(parent: Path, name: str) -> Path:
    """Make ``<parent>/<UTC time>-<name>``; a second one of that name in the same second, of any process, gets a number.

    Raises:
        RuntimeUnavailableError: there are a hundred of them.
    """
    for number in range(1, _MOST):
        folder = parent / f"{stamp()}-{name}{f'-{number}' if number > 1 else ''}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return folder
    raise RuntimeUnavailableError(f"no new folder could be made in {parent}")
