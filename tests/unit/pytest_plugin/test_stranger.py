"""A repository that has the package installed, and tests of its own: the plugin does nothing there that was not asked for."""

import os
import re
import subprocess
import sys

import pytest

from tests.unit.wording import keep, named

OURS = """\
version: 2
scenarios:
  - name: first
    title: First
    tags: [smoke]
    pipeline: {kind: command, run: [app], group: g, reads: [datasource], sink: {topic: datasink}}
topics: {datasource: {partitions: 3}, datasink: {partitions: 3}}
"""
FOREIGN = {
    "without a version": "scenarios:\n  - name: log in\n    steps: [open, type]\n",
    "without scenarios": "version: 3\nservices:\n  web: {image: nginx}\n",
    "with a version of its own": 'version: "3.1"\nscenarios:\n  - name: log in\n',
    "a list": "- version: 1\n- scenarios: []\n",
    "not YAML": "{% for user in users %}\n\tscenarios: {{ user }\n",
    "not text": "\x00\udcff",
    "empty": "",
}
TESTS = """\
import logging
import signal
import warnings

def test_own(request):
    print("seen", logging.getLogger().level, logging.getLogger().handlers[2:], logging.root.manager.disable)
    print("seen", [str(signal.getsignal(number)) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)])
    print("seen", warnings.filters, [mark.name for mark in request.node.iter_markers()])
"""
HEAVY = (
    "allure_commons.types",  # seen to be imported: without it this test would prove nothing
    "chaos.scenario",
    "confluent_kafka",
    "docker",
    "kafka",
    "matplotlib",
    "pandas",
    "pipelines",
    "py4j",
    "pyarrow",
    "pydantic",
    "pyspark",
    "requests",
    "rich",
    "ruamel.yaml",
    "testcontainers",
    "toxiproxy",
    "typer",
    "verifiers",
)
TELLS = f"""\
import sys

def pytest_unconfigure():
    print("imported", *(name for name in {HEAVY!r} if name in sys.modules))
"""


@pytest.fixture
def repository(tmp_path):
    """A folder with a test and an ini file."""
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider --strict-markers\n", encoding="utf-8")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_own.py").write_text(TESTS, encoding="utf-8")
    return tmp_path


def run(folder, *arguments, ini=""):
    """Pytest in that folder."""
    with (folder / "pytest.ini").open("a", encoding="utf-8") as file:
        file.write(ini)
    environment = {**os.environ, "CHAOS_CACHE": str(folder / "cache"), "JAVA_HOME": str(folder / "no-jdk")}
    command = (sys.executable, "-m", "pytest", *arguments)
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=280, check=False)


def said(answer):
    """The output of a run, without the parts that vary: from a minute on, pytest gives its time twice."""
    return re.sub(r"\d+\.\d+s( \(\d+:\d\d:\d\d\))?|=+|plugins: .*", "", answer.stdout), answer.stderr


@pytest.mark.parametrize("text", FOREIGN.values(), ids=FOREIGN.keys())
@pytest.mark.parametrize("arguments", [(), ("-m", "chaos or not chaos")], ids=["plain", "with the mark"])
def test_a_file_of_another_tool_is_left_alone(repository, text, arguments):
    """Not a word about it, not even when scenarios were asked for."""
    (repository / "scenarios.yaml").write_bytes(text.encode("utf-8", "surrogateescape"))

    answer = run(repository, *arguments)

    assert answer.returncode == 0
    assert "collected 1 item\n" in answer.stdout
    assert "scenarios.yaml" not in answer.stdout + answer.stderr


def test_a_plain_run_is_what_it_was_without_the_plugin(repository):
    """Exit code, output, log levels, signals, warnings and marks are the same, also beside scenarios of our own."""
    (repository / "scenarios.yaml").write_text(OURS, encoding="utf-8")

    plain, without = run(repository, "-s", "-v"), run(repository, "-s", "-v", "-p", "no:chaos")

    assert plain.stdout.count("seen") == 3
    assert (plain.returncode, said(plain)) == (0, said(without))


def test_a_plain_run_imports_nothing_heavy(repository):
    """The plugin costs a run that has no scenarios next to nothing."""
    (repository / "scenarios.yaml").write_text(OURS, encoding="utf-8")
    (repository / "conftest.py").write_text(TELLS, encoding="utf-8")

    assert "imported allure_commons.types\n" in run(repository, "-s").stdout


def test_the_ini_may_list_the_file(repository):
    """In `testpaths` it is found under `-m chaos`, and a plain run says nothing about it."""
    (repository / "scenarios.yaml").write_text(OURS, encoding="utf-8")

    plain = run(repository, ini="testpaths = tests scenarios.yaml\n")
    asked = run(repository, "-m", "chaos", "--collect-only", "-q")

    assert plain.returncode == 0
    assert "deselected" not in plain.stdout
    assert asked.stdout.split()[0] == "scenarios.yaml::test_scenario[first]"


def test_the_ini_may_name_other_files(repository):
    """Those it names are ours, whatever is in them, and no others."""
    (repository / "scenarios.yaml").write_text(OURS, encoding="utf-8")
    (repository / "chaos").mkdir()
    (repository / "chaos" / "orders.yaml").write_text(OURS, encoding="utf-8")
    ini = "chaos_files = chaos/*.yaml\n"

    listed = run(repository, "-m", "chaos", "--collect-only", "-q", ini=ini)
    (repository / "chaos" / "orders.yaml").write_text("- first\n", encoding="utf-8")
    wrong = run(repository, "-m", "chaos")

    assert listed.stdout.split()[0] == "chaos/orders.yaml::test_scenario[first]"
    assert "scenarios.yaml" not in listed.stdout
    assert wrong.returncode == 2
    (told,) = {line for line in wrong.stdout.splitlines() if "chaos/orders.yaml:1:1: " in line}
    assert "`version: 2`" in keep(told)


def test_a_pattern_that_leads_out_of_the_repository_is_refused(repository):
    """The message says what is wrong; nothing is run."""
    answer = run(repository, ini="chaos_files = /srv/*.yaml\n")

    assert answer.returncode == 4
    assert "chaos_files: '/srv/*.yaml' is not a pattern below" in answer.stderr


def test_a_file_of_ours_with_a_mistake_is_not_taken_for_one_of_another_tool(repository):
    """The message says what is wrong, as ever."""
    (repository / "scenarios.yaml").write_text(OURS.replace("scenarios:", "scenario:"), encoding="utf-8")

    answer = run(repository, "-m", "chaos")

    assert answer.returncode == 2
    assert "scenarios.yaml:2:1: 'scenario' is not known here (did you mean scenarios?)" in answer.stdout


def test_tags_are_marks_that_strict_repositories_accept(repository):
    """Each is registered before it is used."""
    (repository / "scenarios.yaml").write_text(OURS, encoding="utf-8")

    answer = run(repository, "-m", "chaos and smoke", "--collect-only", "-q", "-W", "error")

    assert answer.returncode == 0
    assert answer.stdout.split()[0] == "scenarios.yaml::test_scenario[first]"


def test_a_test_of_the_repository_may_use_the_session(repository):
    """It needs no scenarios file, and no `-m chaos`."""
    uses = "def test_session(chaos_session):\n    assert chaos_session.seed == 7\n"
    (repository / "tests" / "test_session.py").write_text(uses, encoding="utf-8")

    assert run(repository, "--chaos-seed", "7").returncode == 0


def test_a_package_named_pipelines_of_its_own_can_be_tested(repository):
    """It comes before the one that this project installs, where the repository is on the path first."""
    (repository / "pipelines").mkdir()
    (repository / "pipelines" / "__init__.py").write_text("ORDERS = 1\n", encoding="utf-8")
    own = "from pipelines import ORDERS\n\ndef test_orders():\n    assert ORDERS\n"
    (repository / "tests" / "test_orders.py").write_text(own, encoding="utf-8")

    assert run(repository).returncode == 0


def test_scenarios_are_not_dealt_out_to_several_processes(repository):
    """They break one system; a plain run is dealt out as ever."""
    (repository / "scenarios.yaml").write_text(OURS, encoding="utf-8")

    refused = run(repository, "-n", "2", "-m", "chaos")

    assert refused.returncode == pytest.ExitCode.USAGE_ERROR
    (told,) = (line for line in (refused.stdout + refused.stderr).splitlines() if "scenarios" in line)
    assert "-n" in keep(told)
    assert run(repository, "-n", "2").returncode == 0


DRIVEN = """\
import pytest

@pytest.mark.chaos
def test_marked(chaos):
    chaos.start("none")

def test_unmarked(chaos, tmp_path):
    pass

def test_hidden(request):
    request.getfixturevalue("chaos")
"""


def test_a_test_that_drives_a_run_is_deselected_where_scenarios_are(repository):
    """With or without the mark; `-m chaos` on the command line selects both, and what hides from that is skipped."""
    (repository / "tests" / "test_driven.py").write_text(DRIVEN, encoding="utf-8")

    plain = run(repository, "-rs")
    by_ini = run(repository, "-o", "addopts=-p no:cacheprovider -m chaos")
    asked = run(repository, "-m", "chaos", "--collect-only", "-q")

    assert "1 passed, 1 skipped, 2 deselected" in plain.stdout
    (told,) = {line.rpartition(": ")[2] for line in plain.stdout.splitlines() if "SKIPPED" in line}
    assert "-m chaos" in keep(told)
    assert "4 deselected" in by_ini.stdout
    assert asked.stdout.split()[:2] == ["tests/test_driven.py::test_marked", "tests/test_driven.py::test_unmarked"]


def test_a_plain_run_beside_driven_tests_imports_nothing_heavy(repository):
    """Imports of the test itself do not count."""
    (repository / "tests" / "test_driven.py").write_text(DRIVEN.partition("def test_hidden")[0], encoding="utf-8")
    (repository / "conftest.py").write_text(TELLS, encoding="utf-8")

    assert "imported allure_commons.types\n" in run(repository, "-s").stdout


NOT_OURS = """\
import pytest

@pytest.fixture
def chaos():
    return 1

@pytest.mark.chaos
def test_own(chaos):
    assert chaos
"""


def test_a_fixture_of_the_repository_with_the_same_name_is_left_alone(repository):
    """And so are its own tests with a mark of that name."""
    (repository / "tests" / "test_chaos.py").write_text(NOT_OURS, encoding="utf-8")

    assert "2 passed" in run(repository).stdout


MISUSED = """\
def test_forgotten(chaos):
    pass

def test_wrong(chaos):
    chaos.start("none", {"records": 0})
"""


def test_a_misused_fixture_is_told_in_one_message(repository):
    """Nothing is started for it: there is no JDK here."""
    (repository / "tests" / "test_driven.py").write_text(MISUSED, encoding="utf-8")

    answer = run(repository, "-m", "chaos", "-p", "no:timeout")

    assert "2 failed, 1 deselected" in answer.stdout
    forgotten = re.search(r"the test uses the fixture .+", answer.stdout)
    wrong = re.search(r"ScenarioError: .+", answer.stdout)
    assert forgotten
    assert wrong
    named(forgotten[0], "`chaos`", "chaos.start")
    named(wrong[0], "workload.records: 0 ", "[too-small]")
    assert "tests/test_driven.py:5: in test_wrong\n" in answer.stdout
    assert "draft.py" not in answer.stdout
