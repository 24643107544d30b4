"""What a container sees of this machine: the same folders at the same paths, most of them read-only.

So a process has the same command line in a container as on the machine, and runs the same Java, Python and jars to the build:
class archives fit, and ``versions.json`` is right. The image gives what is below them, the C library and its like.

    read-only   the project, its virtual environment and the Python below it, the JDK, the cache of parts, the working directory
    writable    the folder of runs, and the folders that a process names
"""

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from chaos.runtime.base import ProcessSpec

_PROJECT = Path(__file__).parents[3]
_USERS = (Path("/etc/passwd"), Path("/etc/group"))  # a JVM does not start Spark for a user without a name
_OF_THE_IMAGE = tuple(map(Path, ("/", "/usr", "/etc", "/bin", "/lib", "/opt", "/home", "/tmp", "/var")))  # noqa: S108 - compared


def read_only(java: Path, cache: Path) -> tuple[Path, ...]:
    """What every process may read.

    Args:
        java: the binary.
        cache: the folder of parts.
    """
    python = (Path(sys.prefix), Path(sys.base_prefix), *map(Path, sys.path))
    home = java.parent.parent
    return outermost((_PROJECT, Path.cwd(), cache, home, *_linked_from(home), *python, *_USERS))


def writable(spec: ProcessSpec, runs: Path) -> tuple[Path, ...]:
    """Folders that this process may write to, made if they are not there, or Docker would make them for root; and its log."""
    folders = (runs, spec.cwd, spec.log.parent)
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    spec.log.touch()  # whoever reads it begins before the container does
    return outermost(folders)


def outermost(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Those that are there, are no folder that the image must have of its own, and are not inside another of them."""
    there = {path.absolute() for path in paths if path.exists()} - set(_OF_THE_IMAGE)
    return tuple(sorted(path for path in there if not there & set(path.parents)))


def environment() -> dict[str, str]:
    """What is taken over of the harness's own environment; the rest is no matter of a container."""
    kept = {name: os.environ[name] for name in ("PATH", "TZ", "CHAOS_CACHE") if name in os.environ}
    return {"HOME": "/tmp", "LANG": "C.UTF-8", **kept}  # noqa: S108 - the container's own


def _linked_from(home: Path) -> Iterator[Path]:
    """Where the links of a JDK lead to that go out of it: Debian keeps its configuration in ``/etc``."""
    for path in home.rglob("*"):
        if path.is_symlink() and (target := path.resolve()).is_file() and home not in target.parents:
            yield target.parent
