"""Between pytest and a run: the live line, the timeline, the Allure report, `report.json`; all in the main thread."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from chaos.common.history import load
from chaos.engine.session import Harness, Outcome
from chaos.report import allure, summary
from chaos.report.terminal import Live
from chaos.scenario.load import ScenarioFile
from chaos.scenario.model import Scenario
from chaos.scenario.support import RUNTIMES

_WIDTH = 120


@dataclass(frozen=True, slots=True)
class Stage:
    """Where the scenarios of one file are played.

    Attributes:
        node: id of the test, for the line that repeats it.
        is_last: of the session: its report carries the table of a matrix.
    """

    harness: Harness
    file: ScenarioFile
    node: str
    config: pytest.Config
    is_last: bool = False

    def play(self, name: str) -> Outcome:
        """Run one scenario and report it, whatever comes of it."""
        replay = f'pytest -m chaos "{self.node}" --chaos-seed {self.harness.seed}{self._how_long(name)}{self._where()}'
        with uncaptured(self.config), Live(name) as live:
            outcome = self.harness.run(played(self.file.scenario(name), self.config), self.file.system, replay, live)
        self._report(outcome)
        return outcome

    def _how_long(self, name: str) -> str:
        minutes = self.config.getoption("--chaos-minutes")
        return f" --chaos-minutes {minutes:g}" if minutes and self.file.scenario(name).random else ""

    def _where(self) -> str:
        """The options that say where it ran, when that is not this machine's own system."""
        runtime, file = self.config.getoption("--chaos-runtime"), self.config.getoption("--chaos-external")
        return ("" if runtime == RUNTIMES[0] else f" --chaos-runtime {runtime}") + (f" --chaos-external {file}" if file else "")

    def _report(self, outcome: Outcome) -> None:
        report = outcome.report
        events = tuple(load(report.run_dir / "history.jsonl"))
        report.write()
        from chaos.report import timeline  # noqa: PLC0415 - matplotlib takes a second, and is needed here only

        timeline.draw(report, events, report.run_dir)
        allure.render(report, events, self.harness.logs(report.run_dir))
        crossed = summary.coverage_tables(self.harness.reports, _WIDTH)
        if self.is_last and crossed:
            allure.attach_text("coverage", summary.as_text(*crossed, width=_WIDTH, colour=False))
        write_beside_results(self.config, report.run_dir)


def played(scenario: Scenario, config: pytest.Config) -> Scenario:
    """A scenario as the options of this run want it."""
    minutes = config.getoption("--chaos-minutes")
    return scenario.lasting(minutes) if scenario.random and minutes else scenario


def write_beside_results(config: pytest.Config, run_dir: Path) -> None:
    """The files of Allure that allure-pytest does not write: environment, categories, executor."""
    folder = config.getoption("--alluredir", default=None)
    results = Path(folder) if folder else None
    versions = run_dir / "versions.json"
    environment = json.loads(versions.read_text(encoding="utf-8")) if versions.exists() else {}
    allure.write_environment(results, environment)
    allure.write_categories(results)
    allure.write_executor(results, os.environ)


@contextmanager
def uncaptured(config: pytest.Config) -> Iterator[None]:
    """What is written in this block is seen at once."""
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is None:
        yield
        return
    with capture.global_and_fixture_disabled():
        yield
