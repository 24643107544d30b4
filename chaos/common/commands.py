"""Programs of others, such as java, go or pip: run to their end, with what they print."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from chaos.common.errors import RuntimeUnavailableError


def run(
    argv: Sequence[str], *, within_s: float, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program and return what it printed, whatever its exit code.

    Raises:
        RuntimeUnavailableError: it cannot be started, or does not end in time.
    """
    try:
        return subprocess.run(
            argv,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=within_s,
            check=False,
        )
    except OSError as error:
        raise RuntimeUnavailableError(
            f"cannot start {argv[0]}: {error.strerror}; is it installed, and may it be executed?"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise RuntimeUnavailableError(
            f"`{' '.join(argv[:3])} …` did not end within {within_s:g} s; try again, or look at the network"
        ) from error
