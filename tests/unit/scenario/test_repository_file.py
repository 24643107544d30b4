from pathlib import Path

import pytest
from ruamel.yaml import YAML

from chaos.scenario.describe import json_schema
from chaos.scenario.load import ScenarioFile, load
from chaos.scenario.plan import describe, from_json, plan, to_json
from tests.unit.scenario.declared import loaded
from tests.unit.scenario.validator import problems

PATH = Path(__file__).parents[3] / "scenarios.yaml"
EXAMPLES = sorted(path for path in PATH.parent.glob("examples/**/scenarios.yaml") if "node_modules" not in path.parts)
MUSEUM = sorted(PATH.parent.glob("museum/*/scenarios.yaml"))
CONFORMANCE = PATH.with_name("conformance") / "scenarios.yaml"
DEMO = PATH.with_name("chaos") / "demo" / "files" / "scenarios.yaml"
LONGEST_TITLE = 72


@pytest.fixture(scope="module")
def file() -> ScenarioFile:
    """The file that `pytest -m chaos` plays."""
    return load(PATH)


def test_every_scenario_of_this_repository_loads_and_can_be_planned(file: ScenarioFile) -> None:
    """A mistake in the file is found by the unit tests, before anything is started."""
    for scenario in file.scenarios:
        schedule = plan(scenario, 1)
        assert len(describe(schedule)) == len(scenario.faults) or scenario.random
        assert from_json(to_json(schedule)) == schedule


@pytest.mark.parametrize(
    "path", [PATH, DEMO, CONFORMANCE, *EXAMPLES, *MUSEUM], ids=lambda path: str(path.relative_to(PATH.parent))
)
def test_a_title_fits_into_one_line_of_a_terminal(path: Path) -> None:
    """Terminals, reports and tables show titles beside a verdict; words of a matrix count too."""
    too_long = [scenario.title for scenario in load(path).scenarios if len(scenario.title) > LONGEST_TITLE]

    assert too_long == []


def test_the_scenarios_of_the_documentation_load(tmp_path: Path) -> None:
    """The first file that a new user copies has no mistake, if the job that it names exists."""
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "orders.py").touch()
    page = PATH.with_name("docs") / "install.md"
    text = page.read_text(encoding="utf-8").partition("```yaml\n")[2].partition("```")[0]

    assert loaded(text, tmp_path / "scenarios.yaml").scenarios


def test_the_page_about_python_shows_the_tests_that_are_run() -> None:
    """Else it would be wrong one day, and nobody would see it."""
    shown = (PATH.with_name("docs") / "python.md").read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]
    tests = (PATH.with_name("tests") / "python_scenarios" / "test_as_in_yaml.py").read_text(encoding="utf-8")

    assert tests.endswith(shown)


def test_the_schema_accepts_the_file_of_this_repository() -> None:
    """No editor underlines what is right."""
    schema = json_schema()

    assert list(problems(YAML(typ="safe").load(PATH), schema, schema)) == []


def test_the_smoke_set_has_its_controls_on_both_sides(file: ScenarioFile) -> None:
    """One scenario without faults that must be valid, and one that must be caught: without them green means nothing."""
    smoke = [scenario for scenario in file.scenarios if "smoke" in scenario.tags]

    assert any(not scenario.faults and not scenario.is_control for scenario in smoke)
    assert any(scenario.is_control for scenario in smoke)


def test_controls_are_tagged_as_controls(file: ScenarioFile) -> None:
    """`-m "not control"` must leave out exactly those that are meant to fail."""
    assert [scenario.name for scenario in file.scenarios if scenario.is_control != ("control" in scenario.tags)] == []


def test_the_smoke_set_is_short(file: ScenarioFile) -> None:
    """Five minutes for all of it: no smoke scenario loads for longer than ten seconds."""
    assert [s.name for s in file.scenarios if "smoke" in s.tags and s.workload.loading_s > 10] == []
