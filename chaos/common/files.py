"""Atomic writes, so that a reader sees the old text or the new one; and folders of unique names.

Only a regular file can be replaced. A device, a FIFO, or a standard stream of this process (/dev/stdout) is written in place.
Behind a symbolic link, the file that it points to is replaced.
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
    """Write a text file, replacing an older one; a line break is added at its end.

    Raises:
        OSError: it cannot be written; the old text stays.
    """
    write_bytes_atomically(path, f"{text}\n".encode())


def write_bytes_atomically(path: Path, content: bytes) -> None:
    """Write a file of any bytes, replacing an older one.

    Raises:
        OSError: it cannot be written, is a block device, or is a FIFO that nobody reads; the old file stays.
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
    """Descriptor of the standard stream that this file is; None if it is none."""
    for descriptor in _STANDARD:
        try:
            if os.path.samestat(there, os.fstat(descriptor)):
                return descriptor
        except OSError:  # it is closed
            continue
    return None


def _write_in_place(path: Path, mode: int, content: bytes) -> None:
    """Write to a file that is not a regular one."""
    if stat.S_ISBLK(mode):
        raise OSError(errno.EINVAL, "it is a block device")
    descriptor = _opened(path)
    try:
        os.set_blocking(descriptor, True)
        _write_all(descriptor, content)
    finally:
        os.close(descriptor)


def _opened(path: Path) -> int:
    """Open it for writing; wait a moment for the reader of a FIFO."""

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
    """Check that a folder can be made and written to, and leave nothing there.

    Raises:
        OSError: it cannot; the error has the reason.
    """
    nearest = next(one for one in (path, *path.absolute().parents) if one.exists())
    with tempfile.TemporaryDirectory(prefix=".chaos-", dir=nearest):
        pass


def stamp() -> str:
    """The time in UTC, in the form that begins the names of folders."""
    return clock.now_utc().strftime("%Y%m%dT%H%M%SZ")


def new_folder(parent: Path, name: str) -> Path:
    """Make ``<parent>/<UTC time>-<name>``; a second one of that name in the same second, of any process, gets a number.

    Raises:
        RuntimeUnavailableError: all numbers of this second are taken.
    """
    for number in range(1, _MOST):
        folder = parent / f"{stamp()}-{name}{f'-{number}' if number > 1 else ''}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return folder
    raise RuntimeUnavailableError(f"cannot make a new folder in {parent}: all names of this second are taken; try again")
