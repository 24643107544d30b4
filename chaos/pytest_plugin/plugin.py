"""The pytest plugin: `scenarios.yaml` becomes tests, their outcome pytest's and Allure's.

    pytest -m chaos                                   every scenario; plain `pytest` runs none
    pytest -m "chaos and smoke" --chaos-seed 7        tags are marks
    pytest "scenarios.yaml::test_scenario[NAME]"      one
    pytest -m chaos --chaos-repeat 20                 each twenty times
    pytest -m chaos --chaos-runtime containers        the same in Docker
    … --chaos-runtime external --chaos-external FILE  the same on a cluster that is already there

It serves this project and any repository that installs the package and has a `scenarios.yaml` of its own.
"""

import argparse
import math
import os
import secrets
import shutil
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

from chaos.common import signals
from chaos.common.errors import InconclusiveError, ScenarioError, ViolationError
from chaos.engine.environment import Environment
from chaos.engine.session import Session
from chaos.external import declaration
from chaos.external.declaration import External
from chaos.pytest_plugin import scenario_item
from chaos.pytest_plugin.scenario_item import ScenarioItem, lasting, uncaptured
from chaos.report import summary, terminal
from chaos.scenario.load import ScenarioFile, load, refused
from chaos.scenario.model import Scenario
from chaos.scenario.support import EXTERNAL, RUNTIMES

FILE = "scenarios.yaml"
_BESIDES_WORKLOAD_S = 300.0
_SESSION = pytest.StashKey[Session]()
_EXTERNAL = pytest.StashKey[External | None]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of a run."""
    group = parser.getgroup("chaos", "chaos scenarios")
    group.addoption("--chaos-seed", type=int, help="seed of every random choice; drawn and printed when not given")
    group.addoption(
        "--chaos-repeat",
        type=_positive(int),
        default=1,
        metavar="N",
        help="run every scenario N times, with the same schedule",
    )
    group.addoption(
        "--chaos-minutes", type=_positive(float), metavar="N", help="how long scenarios with `random` faults last (a soak)"
    )
    group.addoption(
        "--chaos-runs", type=Path, default=Path("runs"), metavar="DIR", help="where run directories are made (default: runs)"
    )
    group.addoption(
        "--chaos-runtime", choices=RUNTIMES, default=RUNTIMES[0], help="where the system runs (default: %(default)s)"
    )
    group.addoption(
        "--chaos-early-audit", action="store_true", help="audit the output while it grows too, and tell what is wrong at once"
    )
    group.addoption("--chaos-external", type=Path, metavar="FILE", help="the system that is already there (docs/external.md)")


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark that keeps scenarios out of a plain `pytest`."""
    config.addinivalue_line("markers", "chaos: breaks a real system; runs only under -m chaos")
    config.stash[_EXTERNAL] = _external(config)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect every scenarios file."""
    return ScenarioModule.from_parent(parent, path=file_path) if file_path.name == FILE else None


class ScenarioModule(pytest.Module):
    """A scenarios file as a Python module with one parametrized test, so that fixtures, -k, marks and ids are pytest's own."""

    file: ScenarioFile

    def _getobj(self) -> ModuleType:
        return scenario_item

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Read the file, and then collect as a module does.

        Raises:
            CollectError: the file is wrong; pytest ends with 2 before anything is started.
        """
        try:
            self.file = load(self.path, _refusing(self.config))
        except ScenarioError as error:
            raise self.CollectError(_shown_from(str(error), self.path, self.config.invocation_params.dir)) from None
        for tag in sorted({tag for scenario in self.file.scenarios for tag in scenario.tags}):
            self.config.addinivalue_line("markers", f"{tag}: a tag of {FILE}")
        return super().collect()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse selected scenarios that are not possible on a system that is already there.

    Raises:
        UsageError: a line for each reason, with its place in the file; nothing is started.
    """
    system = config.stash[_EXTERNAL]
    if system is None:
        return
    ours = [(module, item) for item in items if (module := item.getparent(ScenarioModule))]
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


@pytest.fixture(scope="session")
def chaos_session(pytestconfig: pytest.Config) -> Iterator[Session]:
    """What scenarios share: the environment, and the judge's Spark."""
    signals.obey()
    seed = pytestconfig.getoption("--chaos-seed")
    environment = Environment(
        runs=pytestconfig.getoption("--chaos-runs").resolve(),
        echo=partial(_say, pytestconfig),
        runtime=pytestconfig.getoption("--chaos-runtime"),
        external=pytestconfig.stash[_EXTERNAL],
    )
    session = Session(
        environment,
        secrets.randbelow(2**31) if seed is None else seed,
        early_audit=pytestconfig.getoption("--chaos-early-audit"),
        timeouts=(pytest.fail.Exception,),  # as pytest-timeout raises it
    )
    pytestconfig.stash[_SESSION] = session
    yield session
    session.close()


@pytest.fixture
def chaos_item(request: pytest.FixtureRequest, chaos_session: Session) -> ScenarioItem:
    """The scenario that this test runs."""
    module = request.node.getparent(ScenarioModule)
    is_last = request.session.items[-1] is request.node
    return ScenarioItem(chaos_session, module.file, request.node.nodeid, request.config, is_last)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show a verdict as its text alone: where in this framework it was raised tells a reader nothing."""
    report = yield
    if item.getparent(ScenarioModule) and call.excinfo and isinstance(call.excinfo.value, ViolationError | InconclusiveError):
        shown = call.excinfo.getrepr(style="value", chain=False)
        if shown.reprcrash is not None:
            shown.reprcrash.message = str(call.excinfo.value).partition("\n")[0]  # for pytest's short summary
        report.longrepr = shown
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """End with a table of the outcome of each scenario, and of what the session cost."""
    session = config.stash.get(_SESSION, None)
    if session is None or not session.reports:
        return
    terminalreporter.section("chaos")
    width, colour = shutil.get_terminal_size((120, 24)).columns, terminalreporter.hasmarkup
    table = summary.summary_table(session.reports, width)
    costs = summary.costs(session.reports, session.environment.ups_s, session.total_s())
    matrices = summary.coverage_tables(session.reports, width)
    terminalreporter.write(summary.as_text(table, *matrices, costs, width=width, colour=colour))
    if matrices:
        terminalreporter.write_line(f"coverage: {session.write_coverage()}")


def _time_limit(config: pytest.Config, scenario: Scenario) -> Iterator[pytest.MarkDecorator]:
    """A limit for this scenario, where pytest-timeout is installed: one that is set for ordinary tests would end a soak.

    It grows by more than the time of loading, because what is loaded has to be judged too.
    """
    if config.pluginmanager.hasplugin("timeout"):
        yield pytest.mark.timeout(_BESIDES_WORKLOAD_S + 1.5 * lasting(scenario, config).workload.loading_s)


def _positive(kind: Callable[[str], float]) -> Callable[[str], float]:
    """The type of an option that must be above 0, because a run of nothing would be green."""

    def parsed(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = 0
        if not 0 < value < math.inf:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
        return value

    return parsed


def _external(config: pytest.Config) -> External | None:
    """The declaration of the system that is already there, if one is to be used.

    Raises:
        UsageError: it is missing or wrong, or it was given for another runtime.
    """
    path, is_meant = config.getoption("--chaos-external"), config.getoption("--chaos-runtime") == EXTERNAL
    if is_meant != (path is not None):
        raise pytest.UsageError("--chaos-runtime external and --chaos-external FILE go together: FILE says where the system is")
    try:
        return declaration.load(path) if is_meant else None
    except ScenarioError as error:
        raise pytest.UsageError(str(error)) from None


def _refusing(config: pytest.Config) -> str:
    """The runtime whose limits apply to a whole file; those of an external system apply to selected scenarios only."""
    runtime: str = config.getoption("--chaos-runtime")
    return "" if runtime == EXTERNAL else runtime


def _say(config: pytest.Config, text: str) -> None:
    with uncaptured(config):
        terminal.say(text)


def _shown_from(text: str, path: Path, folder: Path) -> str:
    """The errors with the path as the user would type it."""
    return text.replace(str(path), os.path.relpath(path, folder))
