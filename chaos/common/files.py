"""Files that are written in one step, so that a reader sees the old text or the new one, and folders that nobody else has."""

from pathlib import Path

from chaos.common import clock
from chaos.common.errors import RuntimeUnavailableError

_MOST = 100


def write_atomically(path: Path, text: str) -> None:
    """Write a text file, replacing what was there; a line break is added at its end.

    Raises:
        OSError: it cannot be written; the old text stays.
    """
    write_bytes_atomically(path, f"{text}\n".encode())


def write_bytes_atomically(path: Path, content: bytes) -> None:
    """Write a file of any bytes, likewise.

    Raises:
        OSError: it cannot be written; the old file stays.
    """
    draft = path.with_name(f".{path.name}.draft")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


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
