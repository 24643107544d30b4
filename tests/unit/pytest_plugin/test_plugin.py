"""The plugin collects, selects and refuses scenarios as pytest does its own tests. No system is started here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.wording import keep

GOOD = """\
version: 2
scenarios:
  - name: first
    title: First
    tags: [smoke]
    pipeline: {kind: command, run: [app], group: g, reads: [datasource], sink: {topic: datasink}}
  - name: second
    title: Second
    pipeline: {kind: command, run: [app], group: g, reads: [datasource], sink: {topic: datasink}}
topics: {datasource: {partitions: 3}, datasink: {partitions: 3}}
"""
TOPICS = "topics: {datasource: {partitions: 3}, datasink: {partitions: 3}}\n"
BAD = GOOD.replace("title: First", "titel: First").replace("kind: command", "kind: comand", 1)


@pytest.fixture
def run_pytest(tmp_path):
    """Runs pytest in a user's repository that has nothing but a scenarios file."""

    def run(text, *arguments):
        (tmp_path / "scenarios.yaml").write_text(text, encoding="utf-8")
        (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n", encoding="utf-8")
        environment = {**os.environ, "CHAOS_CACHE": str(tmp_path / "cache"), "JAVA_HOME": str(tmp_path / "no-jdk")}
        command = (sys.executable, "-m", "pytest", *arguments)
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=280, check=False)

    return run


def test_plain_pytest_runs_no_scenario(run_pytest):
    """A plain `pytest` must not kill brokers, and does not even read the file."""
    answer = run_pytest(BAD)

    assert answer.returncode == 5
    assert "collected 0 items" in answer.stdout
    assert "titel" not in answer.stdout + answer.stderr


@pytest.mark.parametrize("typed", ["scenarios.yaml", "scenarios.yaml::test_scenario[first]"])
def test_a_scenario_that_is_named_without_a_mark_is_deselected(run_pytest, typed):
    """Its name alone does not run it: what kills brokers is asked for by `-m chaos`."""
    answer = run_pytest(GOOD, typed)

    assert answer.returncode == 5
    assert f"{1 if '[' in typed else 2} deselected" in answer.stdout


def test_a_mark_of_other_tests_runs_no_scenario(run_pytest):
    """A tag of a scenario may be a mark of the repository's own tests."""
    answer = run_pytest(GOOD, "-m", "smoke")

    assert answer.returncode == 5
    assert "collected 0 items" in answer.stdout


@pytest.mark.parametrize(("variable", "ini"), [("", "-m chaos"), ("-m chaos", "")])
def test_the_ini_cannot_ask_for_scenarios(run_pytest, monkeypatch, variable, ini):
    """Only who types `-m chaos` starts them."""
    monkeypatch.setenv("PYTEST_ADDOPTS", variable)
    answer = run_pytest(GOOD, "-o", f"addopts={ini}")

    assert answer.returncode == 5
    assert "collected 0 items" in answer.stdout


def test_every_scenario_is_a_test_of_its_name_with_its_tags_as_marks(run_pytest):
    """The names are stable, because Allure's history depends on them."""
    everything = run_pytest(GOOD, "-m", "chaos", "--collect-only", "-q")
    smoke = run_pytest(GOOD, "-m", "chaos and smoke", "--collect-only", "-q", "--strict-markers")

    assert everything.stdout.split()[:2] == ["scenarios.yaml::test_scenario[first]", "scenarios.yaml::test_scenario[second]"]
    assert smoke.stdout.split()[0] == "scenarios.yaml::test_scenario[first]"
    assert "second" not in smoke.stdout


@pytest.mark.parametrize(
    ("typed", "options", "found"),
    [
        ("first", ("--chaos-repeat", "3"), ["first#1", "first#2", "first#3"]),
        ("first#2", ("--chaos-repeat", "3"), ["first#2"]),
        ("first#4", ("--chaos-repeat", "2"), ["first#1", "first#2"]),
        ("first#2", (), ["first"]),
        ("first", (), ["first"]),
    ],
)
def test_a_scenario_is_found_by_its_name_however_often_it_is_repeated(run_pytest, typed, options, found):
    """And a line that names one repetition runs without the option, too."""
    answer = run_pytest(GOOD, "-m", "chaos", "--collect-only", "-q", f"scenarios.yaml::test_scenario[{typed}]", *options)

    assert answer.returncode == 0, answer.stdout
    lines = [line for line in answer.stdout.splitlines() if "::" in line]
    assert lines == [f"scenarios.yaml::test_scenario[{name}]" for name in found]


def test_no_other_test_is_found_by_another_name(run_pytest, tmp_path):
    """A repository may have a `test_scenario` of its own, with such an id."""
    (tmp_path / "test_own.py").write_text(
        "import pytest\n@pytest.mark.parametrize('a', [pytest.param(1, id='x#1', marks=pytest.mark.chaos)])\n"
        "def test_scenario(a): pass\n",
        encoding="utf-8",
    )

    answer = run_pytest(GOOD, "-m", "chaos", "--collect-only", "-q", "test_own.py::test_scenario[x#1]")

    assert "test_own.py::test_scenario[x#1]" in answer.stdout
    assert answer.returncode == 0


@pytest.mark.parametrize(("text", "said"), [(GOOD, True), ("services: {}\n", False)])
def test_a_scenarios_file_of_another_name_is_told_how_to_be_found(run_pytest, tmp_path, text, said):
    """By `chaos_files`; a file of another tool is none of our business."""
    (tmp_path / "other.yaml").write_text(text, encoding="utf-8")

    answer = run_pytest(GOOD, "-m", "chaos", "other.yaml", "--collect-only", "-q")
    hint = "-o chaos_files=other.yaml"

    assert (hint in answer.stdout, answer.returncode != 0) == (said, True)
    if said:
        keep(next(line for line in answer.stdout.splitlines() if hint in line))
        named = run_pytest(GOOD, "-m", "chaos", "-o", "chaos_files=other.yaml", "other.yaml", "--collect-only", "-q")
        assert "other.yaml::test_scenario[first]" in named.stdout


def test_a_scenario_can_be_repeated(run_pytest):
    """Each repetition has a name of its own, and tags select all of them."""
    answer = run_pytest(GOOD, "-m", "chaos and smoke", "--collect-only", "-q", "--chaos-repeat", "3")

    assert answer.stdout.split()[:3] == [f"scenarios.yaml::test_scenario[first#{number}]" for number in (1, 2, 3)]
    assert "second" not in answer.stdout


SOAK = """\
  - name: soak
    title: Soak
    pipeline: {kind: command, run: [app], group: g, reads: [datasource], sink: {topic: datasink}}
    workload: {records: 60000, rate: 1000/s}
    random: {every: 10s, pick: [{fault: {kind: crash_pipeline}}]}
"""
SHOWS_LIMITS = """\
def pytest_collection_modifyitems(items):
    for item in items:
        print("limit", item.name, item.get_closest_marker("timeout").args[0])
"""


@pytest.mark.parametrize(("minutes", "limit"), [((), 1890), (("--chaos-minutes", "30"), 4500)])
def test_a_long_workload_has_the_time_it_takes(run_pytest, tmp_path, minutes, limit):
    """The limit grows with the workload, whatever the limit of ordinary tests is."""
    (tmp_path / "conftest.py").write_text(SHOWS_LIMITS, encoding="utf-8")
    answer = run_pytest(
        GOOD.replace(TOPICS, SOAK + TOPICS), "-m", "chaos", "--collect-only", "-q", "-s", "-o", "timeout=20", *minutes
    )

    assert f"limit test_scenario[soak] {limit}.0" in answer.stdout
    assert "limit test_scenario[first] 1815.0" in answer.stdout


@pytest.mark.parametrize(
    ("option", "value"),
    [("--chaos-minutes", "0"), ("--chaos-minutes", "nan"), ("--chaos-repeat", "-1"), ("--chaos-repeat", "many")],
)
def test_a_run_of_nothing_is_refused(run_pytest, option, value):
    """It would test nothing, and be green."""
    answer = run_pytest(GOOD, "-m", "chaos", f"{option}={value}")

    assert answer.returncode == 4
    assert f"argument {option}: '{value}' is not a number above 0" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_wrong_yaml_ends_with_2_and_every_error_at_once(run_pytest):
    """Nothing is started, and the user sees everything that is wrong in one go."""
    answer = run_pytest(BAD, "-m", "chaos")

    assert answer.returncode == 2
    assert "scenarios.yaml:3:5: 'title' is missing" in answer.stdout
    assert "scenarios.yaml:4:5: 'titel' is not known here (did you mean title?)" in answer.stdout
    assert "did you mean command?" in answer.stdout
    assert "Traceback" not in answer.stdout


def test_a_machine_without_a_jdk_is_broken_not_skipped(run_pytest):
    """One line says what is missing and what to do; nothing is green."""
    answer = run_pytest(GOOD, "-m", "chaos")

    assert answer.returncode == 1
    assert "holds no bin/java; install a JDK, 17 or newer" in answer.stdout
    assert "skipped" not in answer.stdout
    assert "def run(" not in answer.stdout


UNKNOWN_RUN = """\
import pytest
from chaos.common.errors import InconclusiveError

class Item:
    def run(self, name):
        return self

    def settle(self):
        raise InconclusiveError("UNKNOWN: gaps ?\\nWhy: the pipeline ended") from ValueError("in the middle")

@pytest.fixture
def chaos_item():
    return Item()
"""


def test_a_verdict_is_shown_without_the_places_in_the_framework(run_pytest, tmp_path):
    """The text of the verdict says it all, and its first line is what pytest's short summary shows."""
    (tmp_path / "conftest.py").write_text(UNKNOWN_RUN, encoding="utf-8")
    answer = run_pytest(GOOD, "-m", "chaos and smoke")

    assert answer.returncode == 1
    assert "UNKNOWN: gaps ?\nWhy: the pipeline ended\n" in answer.stdout
    assert "FAILED scenarios.yaml::test_scenario[first] - UNKNOWN: gaps ?\n" in answer.stdout
    assert not {"settle", "Traceback", "in the middle", "InconclusiveError"} & set(answer.stdout.replace(":", " ").split())


def test_the_command_line_says_what_is_wrong_in_one_message(tmp_path):
    """`chaos plan` of a wrong file prints the errors without a traceback, and ends with 2."""
    (tmp_path / "scenarios.yaml").write_text(BAD, encoding="utf-8")
    answer = subprocess.run(
        (str(Path(sys.executable).with_name("chaos")), "plan"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )

    assert answer.returncode == 2
    assert answer.stdout == ""
    assert all(line.startswith("scenarios.yaml:") for line in answer.stderr.splitlines())
