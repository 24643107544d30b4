"""The pytest plugin: its options, and the collection of scenarios as tests, which pytest and Allure report.

    pytest -m chaos                                         every scenario; plain `pytest` runs none
    pytest -m "chaos and smoke" --chaos-seed 7              tags are marks
    pytest -m chaos "scenarios.yaml::test_scenario[NAME]"   one
    pytest -m chaos --chaos-repeat 20                       each twenty times
    pytest -m chaos --chaos-html report.html                and a page of all runs, with a page for each
    pytest -m chaos --chaos-runtime containers              the same in Docker
    … --chaos-runtime external --chaos-external FILE        the same on a cluster that is already there

A test in Python that uses the fixture `chaos` is a scenario, too (docs/python.md).

The plugin serves this project and any repository that installs the package and has its own `scenarios.yaml`. In all others, and
without `-m chaos` on the command line, it does nothing: it reads no file, and does not import what a run needs
(`chaos.pytest_plugin.scenario_file`, Spark, Kafka's client and so on).
"""

import argparse
import math
import os
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from chaos.common.errors import PluginError, RuntimeUnavailableError
from chaos.pytest_plugin.selection import FILE, has_our_lines, is_driven, is_ours, is_selected, keep_named, keep_typed
from chaos.runtime.capabilities import EXTERNAL, RUNTIMES

if TYPE_CHECKING:
    from chaos.engine.session import Session
    from chaos.pytest_plugin.fixture import Chaos
    from chaos.pytest_plugin.scenario_item import ScenarioItem

_SCENARIOS = "chaos-scenarios"
_DRIVEN = "chaos-driven"
_DRIVEN_WITHIN_S = 2700.0  # a workload of ten minutes, and the other phases
_YAML = frozenset({".yaml", ".yml"})
_ONE = re.compile(r"^(?P<test>(?P<file>.+)::test_scenario)\[(?P<name>[^\]#]+)(#(?P<number>\d+))?\]$")
_ASK = "it breaks a real system, and runs only under -m chaos"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of a run."""
    parser.addini(
        "chaos_files",
        f"scenarios files, as patterns below the rootdir (default: every {FILE} with the lines `version: 2` and `scenarios:`)",
        type="args",
        default=[],
    )
    group = parser.getgroup("chaos", "chaos scenarios")
    group.addoption("--chaos-seed", type=int, help="seed of every random choice; drawn and printed if not given")
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
        "--chaos-runs", type=Path, default=Path("runs"), metavar="DIR", help="folder of the run directories (default: runs)"
    )
    group.addoption(
        "--chaos-html",
        type=Path,
        metavar="PATH",
        help="write a page of all runs there, and a page of each into its run directory",
    )
    group.addoption(
        "--chaos-runtime", choices=RUNTIMES, default=RUNTIMES[0], help="where the system runs (default: %(default)s)"
    )
    group.addoption("--chaos-external", type=Path, metavar="FILE", help="the file of an existing system (docs/external.md)")


def pytest_load_initial_conftests(early_config: pytest.Config, parser: pytest.Parser) -> None:
    """Keep the ``-m`` of the command line."""
    keep_typed(early_config, parser)


class Late:
    """Replaces `pytest_load_initial_conftests` if a conftest.py has loaded this plugin, which is too late for that hook."""

    def __init__(self, parser: pytest.Parser) -> None:
        self._parser = parser

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Keep the ``-m`` of the command line, before `pytest_configure` of this plugin needs it."""
        keep_typed(config, self._parser)


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark of scenarios, and check the options.

    Raises:
        UsageError: a pattern of `chaos_files`, an option for the system, or the system's file is wrong; pytest-xdist would
            distribute scenarios; or pages cannot be written.
    """
    config.addinivalue_line("markers", "chaos: breaks a real system; runs only under -m chaos")
    keep_named(config)
    if is_selected(config) and config.getoption("numprocesses", None):
        raise pytest.UsageError("scenarios run one after the other, in one process; leave out -n")
    if config.getoption("--chaos-html"):
        _require_page(config.getoption("--chaos-html"))
    is_meant, file = config.getoption("--chaos-runtime") == EXTERNAL, config.getoption("--chaos-external")
    if is_meant != (file is not None):
        raise pytest.UsageError("--chaos-runtime external and --chaos-external FILE, which declares the system: give both")
    if is_meant:
        _register_scenarios(config)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Find a scenario by its plain name with ``--chaos-repeat``, and by the name of a repetition without it."""
    times = session.config.getoption("--chaos-repeat")
    session.config.args = [one for typed in session.config.args for one in _repeated(typed, times, session.config)]


def _repeated(typed: str, times: int, config: pytest.Config) -> Iterator[str]:
    """Translate an argument that names one scenario into the ids of its repetitions."""
    found = _ONE.match(typed)
    if found is None or not is_ours(config.invocation_params.dir / found["file"], config):
        yield typed
        return
    test, name, number = found["test"], found["name"], int(found["number"] or 0)
    if times == 1:
        yield f"{test}[{name}]"
    elif 1 <= number <= times:
        yield typed
    else:
        yield from (f"{test}[{name}#{each}]" for each in range(1, times + 1))


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a scenarios file that is selected by ``-m chaos`` or by its path.

    Raises:
        CollectError: a package that adds faults or verifiers cannot be used, or the path names a scenarios file that is not in
            `chaos_files`; pytest exits with 2, as for a wrong file.
    """
    config = parent.config
    is_path = parent.session.isinitpath(file_path)
    if not is_ours(file_path, config):
        if is_path and is_selected(config) and file_path.suffix in _YAML and has_our_lines(file_path):
            shown = os.path.relpath(file_path, config.rootpath)
            raise parent.CollectError(
                f"{shown} is a scenarios file that pytest does not collect; add -o chaos_files={shlex.quote(shown)}"
            )
        return None
    if is_selected(config) or (is_path and config.args_source is pytest.Config.ArgsSource.ARGS):
        try:
            module: pytest.Collector = _register_scenarios(config).ScenarioModule.from_parent(parent, path=file_path)
        except pytest.UsageError as error:
            raise parent.CollectError(str(error)) from None
        return module
    return UnreadFile.from_parent(parent, path=file_path) if is_path else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that drive a run, so that ``-m chaos`` selects them; without it, deselect them like scenarios."""
    driven = [item for item in items if is_driven(item)]
    if driven and is_selected(config):
        _register_scenarios(config)
    for item in driven:
        item.add_marker(pytest.mark.chaos)
        if config.pluginmanager.hasplugin("timeout") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(_DRIVEN_WITHIN_S))  # the limit of ordinary tests would end it
    if driven and not is_selected(config):
        config.hook.pytest_deselected(items=driven)
        items[:] = [item for item in items if item not in driven]


class UnreadFile(pytest.File):
    """A scenarios file among the `testpaths` of a run without ``-m chaos``: pytest wants a collector for it."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield nothing."""
        yield from ()


@pytest.fixture(scope="session")
def chaos_session(pytestconfig: pytest.Config) -> "Iterator[Session]":
    """Environment and judge's Spark, which all scenarios share."""
    yield from _register_scenarios(pytestconfig).opened(pytestconfig)


@pytest.fixture
def chaos_item(request: pytest.FixtureRequest, chaos_session: "Session") -> "ScenarioItem":
    """The scenario that this test runs."""
    item: ScenarioItem = _register_scenarios(request.config).item_of(request, chaos_session)
    return item


@pytest.fixture
def chaos(request: pytest.FixtureRequest, chaos_session: "Session") -> "Iterator[Chaos]":
    """One run, driven by this test: start, faults in blocks, judge (docs/python.md)."""
    if not is_selected(request.config):  # such a test is deselected, unless it uses the fixture indirectly
        pytest.skip(_ASK)
    from chaos.pytest_plugin import fixture  # noqa: PLC0415 - takes a second

    if not request.config.pluginmanager.has_plugin(_DRIVEN):
        request.config.pluginmanager.register(fixture, _DRIVEN)
    yield from fixture.opened(request, chaos_session)


def _register_scenarios(config: pytest.Config) -> ModuleType:
    """Add the hooks of scenarios, once; return `chaos.pytest_plugin.scenario_file`.

    Raises:
        UsageError: a package that adds faults or verifiers cannot be used, or a package that scenarios need is missing.
    """
    try:
        from chaos.pytest_plugin import scenario_file  # noqa: PLC0415 - takes a second
    except PluginError as error:
        raise pytest.UsageError(str(error)) from None
    except ImportError as error:
        raise pytest.UsageError(f"scenarios cannot run here ({error}); install what is missing: pip install -e .") from None
    if not config.pluginmanager.has_plugin(_SCENARIOS):
        config.pluginmanager.register(scenario_file, _SCENARIOS)
    return scenario_file


def _require_page(page: Path) -> None:
    """Refuse a page that could not be written at the end, an hour later.

    Raises:
        UsageError: the path does not end in .html, its folder cannot be written to, or packages for pages are missing.
    """
    from chaos.common import files  # noqa: PLC0415 - only sessions with pages need it
    from chaos.report.html.templates import require_packages  # noqa: PLC0415

    if page.suffix != ".html":
        raise pytest.UsageError(f"--chaos-html {page}: a file that ends in .html is needed")
    try:
        files.require_folder(page.absolute().parent)
        require_packages()
    except OSError as error:
        raise pytest.UsageError(f"--chaos-html {page}: its folder cannot be written to: {error.strerror}") from None
    except RuntimeUnavailableError as error:
        raise pytest.UsageError(f"--chaos-html {page}: {error}") from None


def _positive(kind: Callable[[str], float]) -> Callable[[str], float]:
    """Return the type of an option that must be above 0, because a run of nothing would be green."""

    def parsed(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = 0
        if not 0 < value < math.inf:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
        return value

    return parsed
