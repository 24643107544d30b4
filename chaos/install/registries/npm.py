"""Packages from npm, in a folder ``node_modules`` of their own."""

from dataclasses import dataclass
from pathlib import Path

from chaos.common import processes
from chaos.common.errors import RuntimeUnavailableError, one_line
from chaos.install import jars
from chaos.install.packages import Fetched, Registry
from chaos.install.registries import programs

_RECIPE = "npm 1"
_FETCHED_WITHIN_S = 600.0
_NOT_THERE = ("E404", "ETARGET")
_NO_NETWORK = ("ENOTFOUND", "ECONNREFUSED", "ECONNRESET", "EAI_AGAIN", "ETIMEDOUT")


@dataclass(frozen=True, slots=True)
class Npm(Registry):
    """Packages ``name@version``, the name perhaps with a scope."""

    def recipe(self) -> tuple[str, ...]:
        programs.find("node", "Node.js")
        return (_RECIPE, *sorted(self.packages))

    def fetch(self, folder: Path, ivy: jars.Ivy) -> None:  # noqa: ARG002 - these are no jars
        quiet = ("--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")
        npm = (programs.find("npm", "Node.js"), "install", "--prefix", str(folder), *quiet, *self.packages)
        answer = processes.run(npm, within_s=_FETCHED_WITHIN_S, cwd=folder)
        if answer.returncode:
            raise RuntimeUnavailableError(self._why(answer.stdout + answer.stderr))

    def found(self, folder: Path) -> Fetched:
        return Fetched((folder / "node_modules",))

    def _why(self, said: str) -> str:
        """Return the reason in one line; npm prints many."""
        named = ", ".join(self.packages)
        if any(sign in said for sign in _NO_NETWORK):
            return (
                f"{named} is not in the cache and npm's registry cannot be reached; connect to a network once, tell npm of a "
                "mirror (npm config set registry), or copy a filled cache and set CHAOS_CACHE"
            )
        if any(sign in said for sign in _NOT_THERE):
            missing = next((one for one in self.packages if one in said), named)
            return f"npm has no {missing}; choose a version that it has: npm view {missing.rpartition('@')[0]} versions"
        return f"{named} could not be installed: {one_line(said[-400:])}"
