"""Write the files of `chaos init` into a repository, without overwriting any file."""

import os
import shlex
import subprocess
from pathlib import Path

from chaos.common import processes
from chaos.common.errors import ChaosError, RuntimeUnavailableError
from chaos.common.files import write_atomically

NAME = "scenarios.yaml"
"""The name by which pytest finds scenarios in any folder; a file with another name must be named in the ini."""
_GIT_WITHIN_S = 60.0


class InitUsageError(ChaosError):
    """The flags or answers cannot be used: the message says what is missing or wrong, and what to do."""


def check_place(file: Path, how_to_go_on: str) -> None:
    """Check that the file does not exist, and that its folder does.

    Args:
        how_to_go_on: what to do if the file exists, for the message.

    Raises:
        InitUsageError: nothing can be written there.
    """
    if os.path.lexists(file):
        raise InitUsageError(f"{file}: exists already, and is not overwritten; {how_to_go_on}")
    if not file.parent.is_dir():
        raise InitUsageError(f"{file}: its folder does not exist; create it: mkdir -p {shlex.quote(str(file.parent))}")


def write(file: Path, text: str, how_to_go_on: str) -> None:
    """Write a file that does not exist yet.

    Args:
        how_to_go_on: what to do if it cannot be written, for the message.

    Raises:
        InitUsageError: it cannot be written.
    """
    try:
        write_atomically(file, text.rstrip("\n"))
    except OSError as error:
        raise InitUsageError(f"{file}: cannot be written: {error.strerror}; {how_to_go_on}") from None


def git(*words: str) -> subprocess.CompletedProcess[str] | None:
    """Run git in this folder; None if there is no git, or it does not answer."""
    try:
        return processes.run(("git", *words), within_s=_GIT_WITHIN_S)
    except RuntimeUnavailableError:
        return None
