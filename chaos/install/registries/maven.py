"""Jars from Maven Central, noted by their hashes (`chaos.install.jar_folders`): a folder that has changed is not used.

Spark's own ``--packages`` asks the network at every start, also at a restart in the middle of a run, and knows no mirror.
"""

from dataclasses import dataclass
from pathlib import Path

from chaos.install import jar_folders, jars
from chaos.install.packages import Fetched, Registry

_RECIPE = "1"


@dataclass(frozen=True, slots=True)
class MavenCentral(Registry):
    """Packages ``group:artifact:version``."""

    def recipe(self) -> tuple[str, ...]:
        return (_RECIPE, *sorted(self.packages))

    def fetch(self, folder: Path, ivy: jars.Ivy) -> None:
        jars.resolve(tuple(jars.Module(*one.split(":")) for one in self.packages), folder, ivy)
        jar_folders.note(folder)

    def check(self, folder: Path) -> None:
        jar_folders.check(folder)

    def found(self, folder: Path) -> Fetched:
        return Fetched(tuple(sorted(folder.glob("*.jar"))))
