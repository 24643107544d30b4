"""Packages from PyPI, in an environment of their own: nothing of the framework's own environment can be imported in it.

So a program may need another version of a client than the framework does, or another Python: old wheels are for old ones.
"""

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from chaos.common import processes
from chaos.common.errors import RuntimeUnavailableError, one_line
from chaos.install import jars
from chaos.install.packages import Fetched, Registry

_RECIPE = "pypi 1"
_ENVIRONMENT = "env"
_ASK_WITHIN_S = 30.0
_MADE_WITHIN_S = 600.0  # with a load of two hundred it took more than 120
_FETCHED_WITHIN_S = 900.0
_NO_NETWORK = ("connection broken by", "Failed to establish a new connection", "Name or service not known", "timed out")


@dataclass(frozen=True, slots=True)
class PyPI(Registry):
    """Packages ``name==version``.

    Attributes:
        python: the command of the Python that runs them; "" for the one that runs this framework.
    """

    python: str = ""

    def recipe(self) -> tuple[str, ...]:
        """Name the interpreter, too: an environment has links to it."""
        return (_RECIPE, *self._interpreter(), *sorted(self.packages))

    def fetch(self, folder: Path, ivy: jars.Ivy) -> None:  # noqa: ARG002 - these are no jars
        python, _ = self._interpreter()
        environment = folder / _ENVIRONMENT
        made = processes.run((python, "-I", "-m", "venv", str(environment)), within_s=_MADE_WITHIN_S)
        if made.returncode:
            said = one_line(made.stdout + made.stderr)
            raise RuntimeUnavailableError(f"{python} cannot make an environment; install its module venv: {said}")
        pip = (str(_python_in(folder)), "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input")
        answer = processes.run((*pip, *self.packages), within_s=_FETCHED_WITHIN_S)
        if answer.returncode:
            raise RuntimeUnavailableError(self._why(answer.stderr))

    def check(self, folder: Path) -> None:
        if not _python_in(folder).exists():  # a link to an interpreter that was removed
            shutil.rmtree(folder, ignore_errors=True)
            raise RuntimeUnavailableError(
                f"the Python of {folder} is gone from this machine; the folder was removed, so start again to make it anew"
            )

    def found(self, folder: Path) -> Fetched:
        (packages,) = (folder / _ENVIRONMENT / "lib").glob("python*/site-packages")
        return Fetched((packages,), str(_python_in(folder)))

    def _interpreter(self) -> tuple[str, str]:
        """Return path and version of the interpreter; a name on the path may be a script that chooses one."""
        if not self.python:
            return sys.executable, sys.version.split()[0]
        found = shutil.which(self.python)
        words = ("-I", "-c", "import platform, sys; print(sys.executable, platform.python_version())")
        answer = processes.run((found, *words), within_s=_ASK_WITHIN_S) if found else None
        if answer is None or answer.returncode:
            raise RuntimeUnavailableError(
                f"{self.python} is not a Python of this machine; install it, or name another one: "
                "packages: {pypi: […], python: …}"
            )
        python, _, version = answer.stdout.strip().rpartition(" ")
        return python, version

    def _why(self, said: str) -> str:
        """Return the reason in one line; pip prints many."""
        named = ", ".join(self.packages)
        if any(sign in said for sign in _NO_NETWORK):
            return (
                f"{named} is not in the cache and PyPI cannot be reached; connect to a network once, tell pip of a mirror "
                "(PIP_INDEX_URL), or copy a filled cache and set CHAOS_CACHE"
            )
        if "No matching distribution found" in said:
            missing = said.rpartition("No matching distribution found for ")[2].split()[0]
            return f"PyPI has no {missing} for Python {self._interpreter()[1]}; choose a version that it has"
        return f"{named} could not be installed: {one_line(said[-400:])}"


def _python_in(folder: Path) -> Path:
    return folder / _ENVIRONMENT / "bin" / "python"
