"""A small disk for a process: one of its folders on a file system of its own, with so much room and no more.

The folder is copied there before the process starts, and back when it has ended, whatever ended it but SIGKILL: what it wrote
last, full disk or not, is what it finds when it is started on its own disk again. Memory is the disk (tmpfs): a real
``No space left on device``, without a right that this user may not have.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from chaos.runtime.base import ProcessSpec

REAL = "/real-disk"
_PAGE = 4096
# The process is not this shell's successor but its child: somebody must be left to copy. SIGTERM is handed on to it.
_SCRIPT = """
real=$1 small=$2; shift 2
cp --archive --sparse=always "$real/." "$small/" || exit 1
trap 'kill -TERM "$child"' TERM
"$@" &
child=$!
wait "$child"; code=$?
while kill -0 "$child" 2>/dev/null; do wait "$child"; code=$?; done
find "$real" -mindepth 1 -delete && cp --archive --sparse=always "$small/." "$real/" || exit 1
exit "$code"
"""


@dataclass(frozen=True, slots=True)
class Disk:
    """What is put on a file system of its own, and its size."""

    folder: Path
    size_bytes: int


def used_bytes(folder: Path) -> int:
    """What a folder takes on a tmpfs, which knows whole pages only."""
    return sum(_pages(path.stat().st_blocks * 512) for path in (folder, *folder.rglob("*")))


def on_disk(spec: ProcessSpec, disk: Disk) -> ProcessSpec:
    """The same process with its folder copied to and fro."""
    argv = ("sh", "-c", _SCRIPT, "sh", REAL, str(disk.folder), *spec.argv)
    return replace(spec, name=f"{spec.name}-on-small-disk", argv=argv)


def _pages(size_bytes: int) -> int:
    return -(-size_bytes // _PAGE) * _PAGE
