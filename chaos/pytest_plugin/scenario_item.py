"""One scenario as a pytest item: its test function, the live line, the timeline, the Allure report and `report.json`.

`ScenarioModule` of `scenario_file.py` puts this module in place of a scenarios file; its only test is `test_scenario`.
"""

import json
import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from chaos.common.history import load
from chaos.engine.session import Outcome, Session
from chaos.pytest_plugin import pages
from chaos.report import allure, coverage, summary
from chaos.report.terminal import Live
from chaos.runtime.capabilities import RUNTIMES
from chaos.scenario.load import ScenarioFile
from chaos.scenario.model import Scenario

_WIDTH = 120


@dataclass(frozen=True, slots=True)
class ScenarioItem:
    """One scenario, with what is needed to run and to report it.

    Attributes:
        node: id of the test, for the command that repeats it.
        is_last: whether it is the last of the session: its report has the table of a matrix.
    """

    session: Session
    file: ScenarioFile
    node: str
    config: pytest.Config
    is_last: bool = False

    def run(self, name: str) -> Outcome:
        """Run one scenario and report it, however it ends."""
        minutes = self.config.getoption("--chaos-minutes")
        more = f" --chaos-minutes {minutes:g}" if minutes and self.file.scenario(name).random else ""
        replay = replay_of(self.node, self.session, self.config, more)
        scenario = lasting(self.file.scenario(name), self.config)
        with uncaptured(self.config), Live(name) as live:
            outcome = self.session.run(scenario, scenario.system or self.file.system, replay, live)
        report(outcome, self.session, self.config, is_last=self.is_last)
        return outcome


def test_scenario(scenario: str, chaos_item: ScenarioItem) -> None:
    """Break the system as the scenario says, and prove from the logs what the pipeline wrote."""
    __tracebackhide__ = True
    chaos_item.run(scenario).settle()


def replay_of(node: str, session: Session, config: pytest.Config, options: str = "") -> str:
    """Return the command line that repeats the run of a test."""
    runtime, file = config.getoption("--chaos-runtime"), config.getoption("--chaos-external")
    elsewhere = ("" if runtime == RUNTIMES[0] else f" --chaos-runtime {runtime}") + (
        f" --chaos-external {file}" if file else ""
    )
    overridden = (setting for setting in config.getoption("override_ini", None) or () if setting.startswith("chaos_files="))
    named = "".join(f" -o {shlex.quote(setting)}" for setting in overridden)
    node = re.sub(r"#\d+\]$", "]", node)  # all repetitions are alike, and one is enough
    return f'pytest -m chaos{named} "{node}" --chaos-seed {session.seed}{options}{elsewhere}'


def report(outcome: Outcome, session: Session, config: pytest.Config, *, is_last: bool) -> None:
    """Write all reports of a run, and draw its timeline.

    Args:
        is_last: whether it is the last of the session: its report has the table of a matrix.
    """
    of_run = outcome.report
    events = tuple(load(of_run.run_dir / "history.jsonl"))
    of_run.write()
    from chaos.report import timeline  # noqa: PLC0415 - matplotlib takes a second, and is needed here only

    timeline.draw(of_run, events, of_run.run_dir)
    pages.write_run(of_run, config)  # after the files that it shows, and before it is attached
    pages.write_session(session, config)
    allure.render(of_run, events, session.logs(of_run.run_dir))
    tables = coverage.tables(session.reports, _WIDTH)
    if is_last and tables:
        allure.attach_text("coverage", summary.as_text(*tables, width=_WIDTH, colour=False))
    _write_beside_results(config, of_run.run_dir)


def lasting(scenario: Scenario, config: pytest.Config) -> Scenario:
    """Make a scenario with `random` faults last as long as ``--chaos-minutes`` says."""
    minutes = config.getoption("--chaos-minutes")
    return scenario.lasting(minutes) if scenario.random and minutes else scenario


def _write_beside_results(config: pytest.Config, run_dir: Path) -> None:
    """Write the files of Allure that allure-pytest does not write: environment, categories, executor."""
    folder = config.getoption("--alluredir", default=None)
    results = Path(folder) if folder else None
    versions = run_dir / "versions.json"
    environment = json.loads(versions.read_text(encoding="utf-8")) if versions.exists() else {}
    allure.write_environment(results, environment)
    allure.write_categories(results)
    allure.write_executor(results, os.environ)


@contextmanager
def uncaptured(config: pytest.Config) -> Iterator[None]:
    """Show output of this block at once: pytest does not capture it."""
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is None:
        yield
        return
    with capture.global_and_fixture_disabled():
        yield
