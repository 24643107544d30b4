"""TCP connections of a process, in whatever network it lives: a container has tables of its own (``/proc/PID/net``)."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

_ESTABLISHED = "01"
_SOCKET = "socket:["
_REMOTE, _STATE, _INODE = 2, 3, 9


def remote_ports(pid: int, proc: Path = Path("/proc")) -> set[int]:
    """The ports that it is connected to; none for one that is gone.

    Args:
        pid: of the process.
        proc: where the kernel's tables are.
    """
    folder = proc / str(pid)
    inodes = set(_inodes(folder))
    return {port for port, inode in _established(folder) if inode in inodes}


def _inodes(folder: Path) -> Iterator[str]:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for link in (folder / "fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                target = str(link.readlink())
                if target.startswith(_SOCKET):
                    yield target.removeprefix(_SOCKET).removesuffix("]")


def _established(folder: Path) -> Iterator[tuple[int, str]]:
    """Port of the other end, and inode."""
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in (folder / "net" / table).read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if fields[_STATE] == _ESTABLISHED:
                    yield int(fields[_REMOTE].rpartition(":")[2], 16), fields[_INODE]
