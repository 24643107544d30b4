"""The files that `chaos init` writes, and the repository that they go to: none is written over another."""

import os
import shlex
import subprocess
from pathlib import Path

from chaos.common import processes
from chaos.common.errors import ChaosError, RuntimeUnavailableError
from chaos.common.files import write_atomically

NAME = "scenarios.yaml"
"""What pytest takes for scenarios wherever it is; a file with another name must be named in the ini."""
_GIT_WITHIN_S = 60.0


class InitUsageError(ChaosError):
    """Nothing can be made of what was given: the message says what is missing or wrong, and what to do."""


def check_place(file: Path, how_to_go_on: str) -> None:
    """Check that no file is there, and that its folder is.

    Args:
        how_to_go_on: what to do if one is there.

    Raises:
        InitUsageError: nothing can be written there.
    """
    if os.path.lexists(file):
        raise InitUsageError(f"{file}: is there already, and is not overwritten; {how_to_go_on}")
    if not file.parent.is_dir():
        raise InitUsageError(f"{file}: its folder is not there; make it: mkdir -p {shlex.quote(str(file.parent))}")


def write(file: Path, text: str, how_to_go_on: str) -> None:
    """Write a file that is not there.

    Args:
        how_to_go_on: what to do if it cannot be written.

    Raises:
        InitUsageError: it cannot be.
    """
    try:
        write_atomically(file, text.rstrip("\n"))
    except OSError as error:
        raise InitUsageError(f"{file}: cannot be written: {error.strerror}; {how_to_go_on}") from None


def git(*words: str) -> subprocess.CompletedProcess[str] | None:
    """What git says of this folder; None where there is no git, or it does not answer."""
    try:
        return processes.run(("git", *words), within_s=_GIT_WITHIN_S)
    except RuntimeUnavailableError:
        return None
