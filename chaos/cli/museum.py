"""`chaos museum`: list the holes of a museum, say which of them this machine can show, and run them with pytest.

A hole is a folder with `scenarios.yaml` and `README.md`, whose heading describes it.
"""

import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from chaos.common.errors import RuntimeUnavailableError, ScenarioError
from chaos.grammar.base import did_you_mean
from chaos.install import artifacts, jars, kafka_versions, packages, spark_versions
from chaos.scenario.load import load
from chaos.scenario.model import Scenario

FILE = "scenarios.yaml"
Echo = Callable[[str], None]
_MARKS = "chaos and museum"


@dataclass(frozen=True, slots=True)
class Hole:
    """One folder."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def file(self) -> Path:
        return self.folder / FILE

    def about(self) -> str:
        """Return the heading of its page.

        Raises:
            ScenarioError: it has none.
        """
        page = self.folder / "README.md"
        if not page.is_file():
            raise ScenarioError(f"{page}: there is no such page; write one, whose heading says what the hole is")
        return page.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")

    def lacking(self) -> str:
        """Return the runtime that its packages need and this machine lacks; "" if none is missing."""
        return next(filter(None, map(lacking, load(self.file).scenarios)), "")

    def fetch(self, echo: Echo) -> str:
        """Fetch the versions of Kafka, Spark and packages that it needs, and name the packages.

        Raises:
            RuntimeUnavailableError: a runtime is missing, or a version cannot be had.
        """
        found, parts = load(self.file), artifacts.ensure(echo)
        for system in [one.system or found.system for one in found.scenarios]:
            kafka_versions.ensure(system.kafka.version, parts, echo)
            artifacts.of_spark(system.spark.version, parts, echo)
        registries = [one.pipeline.required_packages for one in found.scenarios]
        for registry in registries:
            packages.ensure(registry, jars.Ivy(parts.java, spark_versions.home_here()), echo)
        return ", ".join(dict.fromkeys(package for registry in registries if registry for package in registry.packages))


def main(museum: Path, names: list[str], *, only_listed: bool, say: Callable[[str], None]) -> int:
    """List the holes, or run those that are named; without names, all that can be shown here.

    Returns:
        The exit code of pytest; 0 if nothing was to be run.

    Raises:
        ScenarioError: there is no such museum, or no such hole.
        RuntimeUnavailableError: a hole that is named cannot be shown here.
    """
    holes = {hole.name: hole for hole in holes_of(museum)}
    unknown = next((name for name in names if name not in holes), None)
    if unknown is not None:
        raise ScenarioError(f"there is no hole {unknown}{did_you_mean(unknown, holes)}; there are: {', '.join(holes)}")
    wanted = {name: (hole, hole.lacking()) for name, hole in holes.items() if name in names or not names}
    if only_listed:
        for name, (hole, lacking) in wanted.items():
            say(f"{name:32}{hole.about()}{f' (not here: {lacking})' if lacking else ''}")
        return 0
    for name, (_, lacking) in wanted.items():
        if lacking and names:
            raise RuntimeUnavailableError(f"{name}: {lacking}")
        if lacking:
            say(f"not run: {name}: {lacking}")
    files = [str(hole.file) for hole, lacking in wanted.values() if not lacking]
    return run_pytest(["-m", _MARKS, *files]) if files else 0


def checks(museum: Path, echo: Echo) -> Mapping[str, Callable[[], str]]:
    """Return a check for each hole: it fetches what the hole needs, and raises if this machine cannot show it.

    Raises:
        ScenarioError: there is no such museum.
    """
    return {hole.name: partial(hole.fetch, echo) for hole in holes_of(museum)}


def lacking(scenario: Scenario) -> str:
    """Return the runtime that the packages of a scenario need and this machine lacks; "" if none is missing."""
    packages_ = scenario.pipeline.required_packages
    try:
        if packages_ is not None:
            packages_.recipe()
    except RuntimeUnavailableError as error:
        return str(error)
    return ""


def run_pytest(words: list[str]) -> int:
    """Run pytest in a process of its own, which shows what it prints; its exit code."""
    return subprocess.run([sys.executable, "-m", "pytest", *words], check=False).returncode


def holes_of(museum: Path) -> list[Hole]:
    """Return the holes of a museum, by name.

    Raises:
        ScenarioError: it has none.
    """
    holes = [Hole(file.parent) for file in sorted(museum.glob(f"*/{FILE}"))]
    if not holes:
        raise ScenarioError(
            f"{museum} has no holes, as the museum calls its defects; the wheel is without them: call this in a clone of the "
            "project, or name the folder: chaos museum --folder"
        )
    return holes
