"""Programs of the machine that a registry's packages need."""

import shutil

from chaos.common.errors import RuntimeUnavailableError


def find(name: str, mend: str) -> str:
    """Return the path of a program.

    Args:
        mend: what to install.

    Raises:
        RuntimeUnavailableError: it is not on the path.
    """
    found = shutil.which(name)
    if found is None:
        raise RuntimeUnavailableError(f"{name} is not on the path; install {mend}, or leave out what needs it")
    return found
