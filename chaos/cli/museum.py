"""`chaos museum`: list the holes of a museum, say which of them this machine can show, and run them with pytest.

A hole is a folder with `scenarios.yaml` and `README.md`, whose heading describes it.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from chaos.common.errors import RuntimeUnavailableError, ScenarioError
from chaos.grammar.base import did_you_mean
from chaos.scenario.load import load

FILE = "scenarios.yaml"
_MARKS = "chaos and museum"


@dataclass(frozen=True, slots=True)
class Hole:
    """One folder.

    Attributes:
        about: the heading of its page.
        lacking: why it cannot be shown on this machine; "" if it can.
    """

    folder: Path
    about: str
    lacking: str

    @property
    def name(self) -> str:
        return self.folder.name


def main(museum: Path, names: list[str], *, only_listed: bool, say: Callable[[str], None]) -> int:
    """List the holes, or run those that are named; without names, all that can be shown here.

    Returns:
        The exit code of pytest; 0 if nothing was to be run.

    Raises:
        ScenarioError: there is no such museum, or no such hole.
        RuntimeUnavailableError: a hole that is named cannot be shown here.
    """
    holes = {hole.name: hole for hole in _holes(museum)}
    if not holes:
        raise ScenarioError(
            f"{museum} has no holes, as the museum calls its defects; the wheel is without them: call this in a clone of the "
            "project, or name the folder: --folder"
        )
    unknown = next((name for name in names if name not in holes), None)
    if unknown is not None:
        raise ScenarioError(f"there is no hole {unknown}{did_you_mean(unknown, holes)}; there are: {', '.join(holes)}")
    wanted = [hole for name, hole in holes.items() if name in names or not names]
    if only_listed:
        for hole in wanted:
            say(f"{hole.name:32}{hole.about}{f' (not here: {hole.lacking})' if hole.lacking else ''}")
        return 0
    lacking = [hole for hole in wanted if hole.lacking]
    if lacking and names:
        raise RuntimeUnavailableError(f"{lacking[0].name}: {lacking[0].lacking}")
    for hole in lacking:
        say(f"not run: {hole.name}: {hole.lacking}")
    files = [str(hole.folder / FILE) for hole in wanted if not hole.lacking]
    return run_pytest(["-m", _MARKS, *files]) if files else 0


def run_pytest(words: list[str]) -> int:
    """Run pytest in a process of its own, which shows what it prints; its exit code."""
    return subprocess.run([sys.executable, "-m", "pytest", *words], check=False).returncode


def _holes(museum: Path) -> Iterator[Hole]:
    for file in sorted(museum.glob(f"*/{FILE}")):
        heading = (file.parent / "README.md").read_text(encoding="utf-8").partition("\n")[0]
        yield Hole(file.parent, heading.lstrip("# "), _lacking(file))


def _lacking(file: Path) -> str:
    """Return what this machine lacks for the packages of a file; "" if nothing."""
    for scenario in load(file).scenarios:
        packages = scenario.pipeline.required_packages
        try:
            if packages is not None:
                packages.recipe()
        except RuntimeUnavailableError as error:
            return str(error)
    return ""
