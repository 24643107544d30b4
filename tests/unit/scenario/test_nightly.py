"""The nightly workflow leaves no scenario out, runs none twice, and delivers one report with a history."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark.expression import Expression
from ruamel.yaml import YAML

from chaos.scenario.load import ScenarioFile, load
from tests.unit.scenario.declared import loaded

ROOT = Path(__file__).parents[3]
SCENARIOS = ROOT / "scenarios.yaml"
SCENARIO_S = 40  # on a runner with two busy cores, the system's share of its start included


@pytest.fixture(scope="module")
def file() -> ScenarioFile:
    """The file that the workflow plays."""
    return load(SCENARIOS)


@pytest.fixture(scope="module")
def workflow() -> Mapping[str, Any]:
    """The jobs of the workflow."""
    jobs: Mapping[str, Any] = YAML(typ="safe").load(ROOT / ".github" / "workflows" / "nightly.yml")["jobs"]
    return jobs


@pytest.fixture(scope="module")
def parts(workflow: Mapping[str, Any]) -> Mapping[str, Expression]:
    """Part -> what it gives to `pytest -m`; without those that play other files than `scenarios.yaml`."""
    listed = workflow["scenarios"]["strategy"]["matrix"]["include"]
    return {part["part"]: Expression.compile(part["select"]) for part in listed if "files" not in part}


def placed(file: ScenarioFile, parts: Mapping[str, Expression]) -> dict[str, list[str]]:
    """Scenario -> the parts that run it; pytest compares a selection with the marks of a test, which are made of tags."""
    marks = {scenario.name: {"chaos", *scenario.tags} for scenario in file.scenarios}
    return {
        name: [part for part, selection in parts.items() if selection.evaluate(lambda mark, own=own, **_: mark in own)]
        for name, own in marks.items()
    }


def misplaced(file: ScenarioFile, parts: Mapping[str, Expression]) -> dict[str, list[str]]:
    """The scenarios that are not in exactly one part; soaks must be in none."""
    soaks = {scenario.name for scenario in file.scenarios if "soak" in scenario.tags}
    return {name: found for name, found in placed(file, parts).items() if len(found) != (name not in soaks)}


def test_every_scenario_but_the_soaks_is_in_one_part(file: ScenarioFile, parts: Mapping[str, Expression]) -> None:
    """A scenario that no part selects would be green every night."""
    assert misplaced(file, parts) == {}


def test_every_scenario_of_the_examples_is_in_one_part(workflow: Mapping[str, Any]) -> None:
    """But those for another cluster; whoever adds an example thinks of its folder, and not of the night."""
    listed = workflow["scenarios"]["strategy"]["matrix"]["include"]
    parts = {part["part"]: Expression.compile(part["select"]) for part in listed if part.get("files") == "examples"}
    files = [load(path) for path in sorted(ROOT.glob("examples/**/scenarios.yaml")) if "node_modules" not in path.parts]

    found = {name: places for file in files for name, places in placed(file, parts).items()}
    outside = {scenario.name for file in files for scenario in file.scenarios if "external" in scenario.tags}
    assert {name for name, places in found.items() if len(places) != 1} == outside  # for a cluster that is already there
    counts = Counter(part for places in found.values() for part in places)
    assert {part: count for part, count in counts.items() if count * SCENARIO_S > 75 * 60} == {}
    assert counts.keys() == parts.keys()
    assert [step["run"] for step in workflow["scenarios"]["steps"] if '-m "$SELECT" $FILES ' in step.get("run", "")]


def test_every_hole_of_the_museum_is_shown_each_night(workflow: Mapping[str, Any]) -> None:
    """Bad and good versions, within the limit of the part."""
    (part,) = (one for one in workflow["scenarios"]["strategy"]["matrix"]["include"] if one.get("files") == "museum")
    selection = Expression.compile(part["select"])
    files = [load(path) for path in sorted(ROOT.glob("museum/*/scenarios.yaml"))]

    found = [name for file in files for name, places in placed(file, {"museum": selection}).items() if places]
    assert len(found) == sum(len(file.scenarios) for file in files)
    assert len(found) * SCENARIO_S <= 75 * 60
    assert all(any(one.is_control for one in file.scenarios) for file in files)
    assert not all(one.is_control for file in files for one in file.scenarios)


def test_the_shards_of_the_conformance_table_are_all_its_cases(workflow: Mapping[str, Any]) -> None:
    """Each shard within its limit, with time left for what follows; the table is made of what all have left."""
    job, table = workflow["conformance"], workflow["conformance-table"]
    shards = job["strategy"]["matrix"]["shard"]
    (step,) = (step for step in job["steps"] if "chaos conformance" in step.get("run", ""))
    cases = load(ROOT / "conformance" / "scenarios.yaml").scenarios

    assert shards == list(range(1, len(shards) + 1))
    assert step["run"].endswith(f"--shard ${{{{ matrix.shard }}}}/{len(shards)}")
    assert len(cases) / len(shards) * SCENARIO_S <= step["timeout-minutes"] * 60
    assert step["timeout-minutes"] + 10 <= job["timeout-minutes"]
    assert job["strategy"]["fail-fast"] is False
    assert (table["needs"], table["if"]) == ("conformance", "always()")


def test_tags_that_no_part_selects_or_two_do_are_noticed(parts: Mapping[str, Expression]) -> None:
    """Whoever adds a scenario thinks of its tags, and not of the night."""
    text = SCENARIOS.read_text(encoding="utf-8")
    changes = {
        '[sweep, "sweep_${pipeline}", transactions, protocol]': "[sweep, transactions, protocol]",  # 120 in no part
        "[late, transactions, protocol]": "[late, sweep]",  # 3 in no part
        "[recovery]": "[recovery, sweep_app]",  # 24 in two
        "[soak]": "[soak, recovery]",  # 2 that must be in none
    }
    for tags, changed in changes.items():
        assert f"tags: {tags}" in text
        text = text.replace(f"tags: {tags}", f"tags: {changed}")

    wrong = Counter(map(tuple, misplaced(loaded(text, SCENARIOS), parts).values()))

    assert wrong == {(): 123, ("sweep-app", "recovery"): 24, ("recovery",): 2}


def test_no_part_takes_longer_than_it_may(
    file: ScenarioFile, workflow: Mapping[str, Any], parts: Mapping[str, Expression]
) -> None:
    """Its scenarios have a limit before that of the job, so that what they left is still delivered."""
    job = workflow["scenarios"]
    (limit_min,) = (step["timeout-minutes"] for step in job["steps"] if "timeout-minutes" in step)
    places = [part for found in placed(file, parts).values() for part in found]

    assert limit_min + 10 <= job["timeout-minutes"] == 90
    assert {part: places.count(part) for part in parts if places.count(part) * SCENARIO_S > limit_min * 60} == {}


def test_a_part_that_failed_delivers_what_it_has(workflow: Mapping[str, Any]) -> None:
    """The night in which a job dies is the one whose report is wanted."""
    job, report = workflow["scenarios"], workflow["report"]
    uploads = [step for step in job["steps"] if "upload-artifact" in step.get("uses", "")]

    assert job["strategy"]["fail-fast"] is False
    assert [step["if"] for step in uploads] == ["always()", "always()"]
    assert (report["needs"], report["if"]) == ("scenarios", "always()")


def test_the_history_of_the_nights_is_kept(workflow: Mapping[str, Any]) -> None:
    """The file that Allure continues is the one that is restored before it, and saved after it."""
    path = json.loads((ROOT / "allurerc.json").read_text(encoding="utf-8"))["historyPath"]
    steps = workflow["report"]["steps"]
    names = [step.get("run") or step["uses"].partition("@")[0] for step in steps]
    around = [names.index(name) for name in ("actions/cache/restore", "make report", "actions/cache/save")]

    assert around == sorted(around)
    assert [step["with"]["path"] for step in steps if "actions/cache/" in step.get("uses", "")] == [path, path]


def test_allure_has_one_version_and_an_exact_one() -> None:
    """Another version may draw the same results in another way, or read no history."""
    texts = [ROOT / "Makefile", *ROOT.glob(".github/workflows/*"), *ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    versions = {found for path in texts for found in re.findall(r"allure@(\S*)", path.read_text(encoding="utf-8"))}

    assert len(versions) == 1
    assert re.fullmatch(r"\d+\.\d+\.\d+", versions.pop())
