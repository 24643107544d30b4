"""Packages for Go: a folder with a ``go.mod`` that has them, and a ``go.sum`` by which each later build checks them.

Modules stay in the Go module cache, which all programs of this user share.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from chaos.common import processes
from chaos.common.errors import RuntimeUnavailableError, one_line
from chaos.install import jars
from chaos.install.packages import Fetched, Registry
from chaos.install.registries import programs

_RECIPE = "go 1"
_FETCHED_WITHIN_S = 600.0
_NOT_THERE = ("unknown revision", "not found", "not available", "invalid version", "no matching versions")
_NO_NETWORK = ("dial tcp", "no such host", "i/o timeout", "connection refused")


@dataclass(frozen=True, slots=True)
class GoModules(Registry):
    """Packages ``path@version``."""

    def recipe(self) -> tuple[str, ...]:
        _go()
        return (_RECIPE, *sorted(self.packages))

    def fetch(self, folder: Path, ivy: jars.Ivy) -> None:  # noqa: ARG002 - these are no jars
        environment = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "", "GOWORK": "off"}
        for words in (("mod", "init", "packages"), ("get", *self.packages)):
            answer = processes.run((_go(), *words), within_s=_FETCHED_WITHIN_S, cwd=folder, env=environment)
            if answer.returncode:
                raise RuntimeUnavailableError(self._why(answer.stderr))

    def found(self, folder: Path) -> Fetched:
        return Fetched((folder,))

    def _why(self, said: str) -> str:
        """Return the reason in one line; go prints many."""
        named = ", ".join(self.packages)
        if any(sign in said for sign in _NO_NETWORK):
            return (
                f"{named} is not in the cache and the proxy of Go's modules cannot be reached; connect to a network once, or "
                "tell go of another proxy (GOPROXY)"
            )
        if any(sign in said.lower() for sign in _NOT_THERE):
            missing = next((one for one in self.packages if one in said), named)
            return f"the proxy of Go's modules has no {missing}; choose a version that it has: go list -m -versions MODULE"
        return f"{named} could not be fetched: {one_line(said[-400:])}"


def _go() -> str:
    return programs.find("go", "Go")
