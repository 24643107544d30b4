"""A scenarios file as a module of tests, and pytest's hooks for these tests.

`chaos.pytest_plugin.plugin` imports and registers this module when the first such file is collected, or when a test uses
`chaos_session`.
"""

import os
import secrets
import shutil
from collections.abc import Generator, Iterable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Literal

import pytest

from chaos.common import signals
from chaos.common.errors import InconclusiveError, MisuseError, RuntimeUnavailableError, ScenarioError, ViolationError
from chaos.engine.environment import Environment
from chaos.engine.session import Session
from chaos.external import declaration
from chaos.external.declaration import External
from chaos.pytest_plugin import pages, scenario_item
from chaos.pytest_plugin.scenario_item import ScenarioItem, lasting, uncaptured
from chaos.pytest_plugin.selection import is_driven, is_selected
from chaos.report import coverage, summary, terminal
from chaos.runtime.capabilities import EXTERNAL
from chaos.scenario.load import ScenarioFile, load, refused
from chaos.scenario.model import Scenario

_BESIDES_WORKLOAD_S = 1800.0  # twice the limits of all phases together (chaos.engine.run_plan): reading and judging have none
_TOLD = (ViolationError, InconclusiveError, RuntimeUnavailableError)
_SESSION = pytest.StashKey[Session]()
EXTERNAL_SYSTEM = pytest.StashKey[External | None]()


def pytest_configure(config: pytest.Config) -> None:
    """Read the declaration of the existing system, if the run uses one.

    Raises:
        UsageError: the declaration is wrong.
    """
    path = config.getoption("--chaos-external")
    try:
        config.stash[EXTERNAL_SYSTEM] = declaration.load(path) if path else None
    except ScenarioError as error:
        raise pytest.UsageError(str(error)) from None


class ScenarioModule(pytest.Module):
    """A scenarios file as a Python module with one parametrized test, so that fixtures, -k, marks and ids are pytest's own."""

    file: ScenarioFile

    def _getobj(self) -> ModuleType:
        return scenario_item

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Read the file, and then collect as a module does.

        Raises:
            CollectError: the file is wrong; pytest exits with 2 before anything is started.
        """
        try:
            self.file = load(self.path, refusing(self.config))
        except ScenarioError as error:
            raise self.CollectError(_shown_from(str(error), self.path, self.config.invocation_params.dir)) from None
        for tag in sorted({tag for scenario in self.file.scenarios for tag in scenario.tags}):
            self.config.addinivalue_line("markers", f"{tag}: a tag of {self.path.name}")
        return super().collect()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect scenarios without ``-m chaos``; refuse selected ones that are impossible on an existing system.

    Raises:
        UsageError: a line for each reason, with its place in the file; nothing is started.
    """
    ours = [(module, item) for item in items if (module := item.getparent(ScenarioModule))]
    if not is_selected(config):
        config.hook.pytest_deselected(items=[item for _, item in ours])
        items[:] = [item for item in items if not item.getparent(ScenarioModule)]
        return
    system = config.stash[EXTERNAL_SYSTEM]
    if system is None:
        return
    for module in dict.fromkeys(module for module, _ in ours):
        names = {
            str(item.callspec.params["scenario"]) for own, item in ours if own is module and isinstance(item, pytest.Function)
        }
        error = refused(module.file, names, system)
        if error:
            raise pytest.UsageError(_shown_from(str(error), module.path, config.invocation_params.dir))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test for each scenario, by its name: Allure's history depends on the name."""
    module = metafunc.definition.getparent(ScenarioModule)
    if module is not None:
        times = metafunc.config.getoption("--chaos-repeat")
        cases = [
            pytest.param(
                scenario.name,
                id=scenario.name if times == 1 else f"{scenario.name}#{number}",
                marks=[
                    pytest.mark.chaos,
                    *(getattr(pytest.mark, tag) for tag in scenario.tags),
                    *_time_limit(metafunc.config, scenario),
                ],
            )
            for scenario in module.file.scenarios
            for number in range(1, times + 1)
        ]
        metafunc.parametrize("scenario", cases)


def opened(config: pytest.Config) -> Iterator[Session]:
    """Yield the value of the fixture `chaos_session`."""
    signals.obey()
    seed = config.getoption("--chaos-seed")
    environment = Environment(
        runs=config.getoption("--chaos-runs").resolve(),
        echo=partial(_say, config),
        runtime=config.getoption("--chaos-runtime"),
        external=config.stash[EXTERNAL_SYSTEM],
    )
    session = Session(
        environment,
        secrets.randbelow(2**31) if seed is None else seed,
        timeouts=(pytest.fail.Exception,),  # as pytest-timeout raises it
    )
    config.stash[_SESSION] = session
    yield session
    session.close()


def item_of(request: pytest.FixtureRequest, session: Session) -> ScenarioItem:
    """Return the value of the fixture `chaos_item`."""
    module = request.node.getparent(ScenarioModule)
    is_last = request.session.items[-1] is request.node
    return ScenarioItem(session, module.file, request.node.nodeid, request.config, is_last)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show only the text of a verdict or of a missing system, and of a mistake in a test its line too.

    The traceback through this framework would tell a reader nothing.
    """
    report = yield
    if call.excinfo is None or not (item.getparent(ScenarioModule) or is_driven(item)):
        return report
    if isinstance(call.excinfo.value, _TOLD):
        shown = call.excinfo.getrepr(style="value", chain=False, tbfilter=False)
        if shown.reprcrash is not None:
            shown.reprcrash.message = str(call.excinfo.value).partition("\n")[0]  # for pytest's short summary
        report.longrepr = shown
    elif is_driven(item) and isinstance(call.excinfo.value, ScenarioError | MisuseError):
        of_test = call.excinfo.traceback.filter(lambda entry: entry.path == item.path)
        style: Literal["short", "value"] = "short" if of_test else "value"
        report.longrepr = call.excinfo.getrepr(style=style, chain=False, tbfilter=(lambda _info: of_test) if of_test else False)
    return report


# The type of the first argument is quoted because pytest 8.0 does not export it.
def pytest_terminal_summary(terminalreporter: "pytest.TerminalReporter", exitstatus: int, config: pytest.Config) -> None:
    """Print a table with the outcome of each scenario, and one with the cost of the session."""
    session = config.stash.get(_SESSION, None)
    if session is None or not session.reports:
        return
    terminalreporter.section("chaos")
    width, colour = shutil.get_terminal_size((120, 24)).columns, terminalreporter.hasmarkup
    table = summary.summary_table(session.reports, width)
    costs = summary.costs(session.reports, session.environment.ups_s, session.total_s())
    matrices = coverage.tables(session.reports, width)
    terminalreporter.write(summary.as_text(table, *matrices, costs, width=width, colour=colour))
    if matrices:
        terminalreporter.write_line(f"coverage: {session.write_coverage()}")
    page = pages.write_session(session, config, pages.note_of(exitstatus))
    if page is not None:
        terminalreporter.write_line(f"page: {page}")


def _time_limit(config: pytest.Config, scenario: Scenario) -> Iterator[pytest.MarkDecorator]:
    """Yield a time limit for this scenario if pytest-timeout is installed: the limit of ordinary tests would end a soak.

    The limit grows by more than the time of loading, because the loaded records have to be judged too.
    """
    if config.pluginmanager.hasplugin("timeout"):
        runs = 1 + scenario.pipeline.way.runs_before
        yield pytest.mark.timeout(runs * (_BESIDES_WORKLOAD_S + 1.5 * lasting(scenario, config).workload.loading_s))


def refusing(config: pytest.Config) -> str:
    """Return the runtime whose limits apply to a whole file; those of an external system apply to selected scenarios only."""
    runtime: str = config.getoption("--chaos-runtime")
    return "" if runtime == EXTERNAL else runtime


def _say(config: pytest.Config, text: str) -> None:
    with uncaptured(config):
        terminal.say(text)


def _shown_from(text: str, path: Path, folder: Path) -> str:
    """Show errors with the path as the user would type it."""
    return text.replace(str(path), os.path.relpath(path, folder))
