"""Packages that a pipeline declares, of one registry, with their dependencies.

They are fetched once, before a run; then no network is needed. Each set of packages has a folder of its own, so one scenario
may run under several versions of a client. A registry is one class in `chaos.install.registries`.

$CHAOS_CACHE/packages-<digest>/     jars of Maven Central; `env/` is an environment of Python, `node_modules/` is npm's
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from chaos.common.errors import RuntimeUnavailableError
from chaos.install import cache, jars

Echo = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Fetched:
    """Packages that were fetched, as a program gets them.

    Attributes:
        paths: jars, or one folder.
        python: the interpreter that imports them; "" if they are not for Python.
    """

    paths: tuple[Path, ...] = ()
    python: str = ""


NO_PACKAGES = Fetched()


@dataclass(frozen=True, slots=True)
class Registry(ABC):
    """Packages of one registry.

    Attributes:
        packages: with their versions, as the registry's own client writes them.
    """

    packages: tuple[str, ...]

    @abstractmethod
    def recipe(self) -> tuple[str, ...]:
        """Return words that identify this set; each recipe has a folder of its own.

        Raises:
            RuntimeUnavailableError: the program that fetches or runs them is not on this machine.
        """

    @abstractmethod
    def fetch(self, folder: Path, ivy: jars.Ivy) -> None:
        """Fill an empty folder, which is renamed afterwards.

        Args:
            ivy: fetches jars.

        Raises:
            RuntimeUnavailableError: a package does not exist, or the registry does not answer.
        """

    def check(self, folder: Path) -> None:  # noqa: B027 - most need no check
        """Remove a folder that cannot be used any more.

        Raises:
            RuntimeUnavailableError: the folder was removed, or must be.
        """

    @abstractmethod
    def found(self, folder: Path) -> Fetched:
        """Return the packages in the folder."""


def ensure(registry: Registry | None, ivy: jars.Ivy, echo: Echo) -> Fetched:
    """Return these packages, and fetch them if they are not in the cache.

    Raises:
        RuntimeUnavailableError: there is no such package, no network, or no program that fetches them.
    """
    if registry is None or not registry.packages:
        return NO_PACKAGES
    place = cache.folder()
    try:
        folder = place / f"packages-{cache.digest(*registry.recipe())}"
        if not folder.is_dir():
            echo(f"fetching {', '.join(registry.packages)} and their dependencies …")
            cache.make(folder, lambda half: registry.fetch(half, ivy), echo)
        registry.check(folder)
    except RuntimeUnavailableError as error:
        raise RuntimeUnavailableError(f"packages of the pipeline: {error}") from error
    return registry.found(folder)
