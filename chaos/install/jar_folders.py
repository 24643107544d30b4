"""Folders of jars in the cache: those that `parts.lock` names by SHA-256, and those that are resolved when first needed.

A note beside resolved jars has their hashes, as `sha256sum` prints them; a folder that differs from its note is not used.
"""

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

from chaos.common.errors import RuntimeUnavailableError
from chaos.install import cache, jars

_NOTE = "jars.sha256"

Echo = Callable[[str], None]


# locked --------------------------------------------------------------------------------------------------------------------


def locked(place: Path, section: str, ivy: jars.Ivy, echo: Echo, *, verify: bool = False) -> Path:
    """Return the folder with the jars of a section, and fetch them if it does not exist.

    Args:
        place: the folder of parts.
        verify: also check the hashes of jars that are there already.
    """
    wanted, folder = jars.read_lock()[section], place_of(place, section)
    if verify and folder.is_dir():
        with cache.locked(folder, echo):  # or two processes would remove it, and one of them what was fetched meanwhile
            _remove_damaged(wanted, folder, echo)
    if not folder.is_dir():
        echo(f"fetching {len(wanted)} jars for {_name(section)} …")
        cache.make(folder, lambda half: jars.fetch(wanted, half, ivy, echo), echo)
    return folder


def place_of(place: Path, section: str) -> Path:
    """Return the folder for the jars of a section, whether or not it exists yet."""
    wanted = jars.read_lock()[section]
    return place / f"{_name(section)}-{cache.digest(*(f'{jar} {jar.sha256}' for jar in wanted))}"


def _name(section: str) -> str:
    """Return the name of a section without its version."""
    return section.partition(" ")[0]


def _remove_damaged(wanted: tuple[jars.Jar, ...], folder: Path, echo: Echo) -> None:
    try:
        jars.check(wanted, folder)
    except RuntimeUnavailableError as error:
        echo(f"removed from the cache: {error}")
        shutil.rmtree(folder)


# noted ---------------------------------------------------------------------------------------------------------------------


def note(folder: Path) -> str:
    """Write down the hashes of all jars in a folder and below it, and return that text."""
    found = _hashes(folder)
    (folder / _NOTE).write_text(found, encoding="utf-8")
    return found


def check(folder: Path) -> None:
    """Remove a folder that differs from its note.

    Raises:
        RuntimeUnavailableError: it does.
    """
    if (folder / _NOTE).read_text(encoding="utf-8") != _hashes(folder):
        shutil.rmtree(folder, ignore_errors=True)
        raise RuntimeUnavailableError(
            f"{folder} has changed since it was fetched: its jars differ from {_NOTE}; it was removed, start again to fetch it"
        )


def _hashes(folder: Path) -> str:
    found = sorted(folder.rglob("*.jar"))
    return "".join(f"{hashlib.sha256(jar.read_bytes()).hexdigest()}  {jar.relative_to(folder)}\n" for jar in found)
