"""Commands and pytest, in an environment where other packages add faults and verifiers: right ones and wrong ones."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.common.errors import PluginError
from chaos.scenario.model import Scenario
from tests.unit.plugins import FAULT, VERIFIER, install
from tests.unit.scenario.declared import read
from tests.unit.wording import keep, mistakes_in

PACKAGE = Path(__file__).parents[2] / "plugin_package"
PAGE = Path(__file__).parents[3] / "docs" / "plugins.md"
FILE = """\
version: 2
scenarios:
  - name: first
    title: First
    pipeline: none
    faults: [{kind: trim_log, target: "leader(numbers, 0)", keep: 5, when: {after: 1s}}]
    expect: {retention: {trimmed: some}}
    workload: {records: 9, rows: {generator: skewed, with: {customers: 5}}}
topics: {numbers: {partitions: 3}}
"""
TABLE = """\
version: 2
scenarios:
  - name: table
    title: Table
    pipeline:
      kind: spark_submit
      reads: [numbers]
      sink: {reader: json_lines, with: {columns: n BIGINT}}
      application: job.py
      arguments: ["{folder}", "{checkpoint}"]
      expected: {sql: SELECT key AS n FROM numbers}
topics: {numbers: {}}
"""
ASKS = """\
import json
import sys
from pathlib import Path
from chaos.common.errors import ScenarioError
from chaos.scenario.describe import json_schema, listing
from chaos.scenario.load import load_text
from chaos.scenario.plan import describe, plan
from chaos.scenario.reference import page

def loaded(text):
    try:
        return load_text(text, Path("f.yaml")).scenarios[0]
    except ScenarioError as error:
        return str(error).splitlines()

right, table, *wrong = json.loads(sys.argv[1])
of_table = loaded(table)
scenario = loaded(right)
print(json.dumps({
    "plan": list(describe(plan(scenario, 1))),
    "asked": scenario.verify,
    "of_run": type(scenario).of_run(scenario.to_run()).faults[0].kind,
    "brought": {
        group: things | json.loads(of_table.to_run())["plugins"][group]
        for group, things in json.loads(scenario.to_run())["plugins"].items()
    },
    "read": of_table.table.spec,
    "wrong": [loaded(text) for text in wrong],
    "listed": [[fault.kind, fault.does] for fault in listing() if fault.family == "retention-chaos 1.0"],
    "reference": [word for word in json.loads(sys.argv[2]) if word in page()],
    "schema": [name for name in ("TrimLog", "CutLink") if name in json_schema()["$defs"]],
}))
"""
TRIMS = "The oldest records of a partition are deleted: a reader that had not come so far will never see them."
COMMAND = ("-c", "from chaos.cli.main import main; main()")


@pytest.fixture
def run(tmp_path):
    """Runs Python in a folder that has that file and a test; what is installed in `site` is found."""
    (tmp_path / "scenarios.yaml").write_text(FILE, encoding="utf-8")
    (tmp_path / "test_own.py").write_text("def test_own():\n    pass\n", encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n", encoding="utf-8")

    def ran(*arguments):
        path = os.pathsep.join((str(tmp_path / "site"), str(PACKAGE)))
        environment = {**os.environ, "PYTHONPATH": path, "CHAOS_CACHE": str(tmp_path / "cache")}
        command = (sys.executable, *arguments)
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=280, check=False)

    return ran


def test_what_another_package_adds_is_part_of_the_grammar(run, tmp_path):
    """Plan, errors with their place, schema, list of faults, and what a run directory keeps."""
    points = {
        "chaos.faults: trim_log": "retention_chaos.faults:TrimLog",
        "chaos.verifiers: retention": "retention_chaos.verifiers:Retention",
        "chaos.verifiers: tidy": "shop:Tidy",
        "chaos.faults: stall": "bare:Stall",
        "chaos.generators: skewed": "retention_chaos.generators:skewed",
        "chaos.sinks: json_lines": "retention_chaos.sinks:json_lines",
    }
    install(tmp_path / "site", "retention-chaos", points, shop=VERIFIER, bare=FAULT)
    wrong = [
        FILE.replace("trim_log", "trim_lgo"),
        FILE.replace("keep: 5", "keep: -5"),
        FILE.replace("leader(", "follower("),
        FILE.replace("trimmed", "trimed"),
        FILE.replace("expect: {retention: {trimmed: some}}", "leave_out: {retentoin: why}"),
        FILE.replace("generator: skewed", "generator: skewd"),
        FILE.replace("customers: 5", "custmers: 5"),
        TABLE.replace("reader: json_lines", "reader: jason_lines"),
        TABLE.replace("columns: n BIGINT", "colums: n BIGINT"),
        TABLE.replace(", with: {columns: n BIGINT}", ""),
        TABLE.replace("reader: json_lines", "delta: '{folder}/large'"),
    ]
    (tmp_path / "job.py").touch()

    on_the_page = ["#### `stall`", "#### `trim_log`", "| `0` | how many stay. |", "| `retention` |"]

    answer = run("-c", ASKS, json.dumps([FILE, TABLE, *wrong]), json.dumps(on_the_page))

    assert answer.returncode == 0, answer.stderr
    told = json.loads(answer.stdout)
    assert told["plan"] == ["1 s after output flows: trim_log leader(numbers, 0), 5 records stay"]
    assert "retention" in told["asked"]
    assert "tidy" not in told["asked"]  # it judges a sink by what a program was told; the loader alone has neither
    assert told["asked"][-1] == "progress"
    assert told["of_run"] == "trim_log"
    origin = "retention-chaos 1.0"
    assert told["brought"] == {
        "chaos.faults": {"trim_log": origin},
        "chaos.verifiers": {"retention": origin},
        "chaos.generators": {"skewed": origin},
        "chaos.sinks": {"json_lines": origin},
    }
    assert [mistakes_in("\n".join(lines)) for lines in told["wrong"]] == [
        [("6:21", "unknown-kind")],
        [("6:67", "too-small")],
        [("6:14", "wrong-role")],
        [("7:34", "unknown-anomaly")],
        [("7:17", "unknown-choice")],
        [("8:46", "no-such-function")],
        [("8:60", "called-wrongly")],
        [("8:22", "no-such-function")],
        [("8:40", "called-wrongly")],
        [("8:22", "called-wrongly")],
        [("8:13", "with-without-reader")],
    ]
    assert told["read"] == {
        "format": "python",
        "place": "retention_chaos.sinks:json_lines",
        "options": {"folder": str(PACKAGE)},
        "password_in": "",
        "arguments": {"columns": "n BIGINT"},
    }
    assert told["listed"] == [["stall", ""], ["trim_log", TRIMS]]  # one has no docstring
    assert told["reference"] == on_the_page
    assert told["schema"] == ["TrimLog", "CutLink"]


def test_packages_that_cannot_be_used_are_told_where_scenarios_are_asked_for(run, tmp_path):
    """All of them, a line each; the tests of the repository do not care."""
    install(tmp_path / "site", "shop-chaos", {"chaos.faults: stall": "shop:Stall"}, shop=FAULT.replace('"stall"', '"halt"'))
    points = {"chaos.verifiers: tidy": "bank:Tidy", "chaos.generators: rows": "bank:rows", "chaos.sinks: shelf": "bank:shelf"}
    install(tmp_path / "site", "bank-chaos", points, bank="import no_such_module\n")
    missing = "(ModuleNotFoundError: No module named 'no_such_module')"
    wanted = (
        ("shop-chaos 1.0: entry point chaos.faults: stall = shop:Stall: ", 'kind: Literal["stall"]'),
        ("bank-chaos 1.0: entry point chaos.verifiers: tidy = bank:Tidy: ", missing),
        ("bank-chaos 1.0: entry point chaos.generators: rows = bank:rows: ", missing),
        ("bank-chaos 1.0: entry point chaos.sinks: shelf = bank:shelf: ", missing),
    )

    plan = run(*COMMAND, "plan")
    plain = run("-m", "pytest", "-q")
    asked = run("-m", "pytest", "-q", "-m", "chaos")

    assert (plan.returncode, plan.stdout) == (4, "")
    for line, (place, named) in zip(keep(plan.stderr).splitlines(), wanted, strict=True):
        assert line.startswith(place)
        assert named in line
    assert (plain.returncode, plain.stderr) == (0, "")
    assert "1 passed" in plain.stdout
    assert asked.returncode == pytest.ExitCode.INTERRUPTED  # as for a file with errors
    assert plan.stderr.strip() in asked.stdout
    assert "Traceback" not in asked.stdout


def test_a_test_in_python_is_a_scenario_too(run, tmp_path):
    """It is not run with half of the grammar."""
    install(tmp_path / "site", "shop-chaos", {"chaos.faults: stall": "shop:Stall"})
    (tmp_path / "test_own.py").write_text("def test_own(chaos):\n    pass\n", encoding="utf-8")
    (tmp_path / "scenarios.yaml").unlink()

    asked = run("-m", "pytest", "-q", "-m", "chaos")

    assert asked.returncode == pytest.ExitCode.USAGE_ERROR
    assert asked.stderr.startswith("ERROR: shop-chaos 1.0: entry point chaos.faults: stall = shop:Stall: it cannot be imported")


@pytest.mark.parametrize("group", ["chaos.faults", "chaos.verifiers"])
def test_a_run_whose_package_is_not_installed_any_more(group):
    """Without the verifier it would be judged by fewer, and no reader would know."""
    (scenario,) = read().scenarios
    run = json.loads(scenario.to_run())
    run["plugins"][group] = {"stall": "shop-chaos 1.0"}

    with pytest.raises(PluginError, match=r"^'stall' .*shop-chaos 1\.0, .*install it") as caught:
        Scenario.of_run(json.dumps(run))
    keep(str(caught.value))


def test_a_run_of_an_earlier_version_names_no_packages():
    """There were none."""
    (scenario,) = read().scenarios
    run = json.loads(scenario.to_run())
    assert run.pop("plugins") == {"chaos.faults": {}, "chaos.verifiers": {}, "chaos.generators": {}, "chaos.sinks": {}}

    assert Scenario.of_run(json.dumps(run)).verify == scenario.verify


def test_the_rows_of_a_run_are_in_its_folder():
    """So the package that made them is not needed to judge it again."""
    (scenario,) = read("workload: {records: 10, rows: {sql: SELECT 1}}").scenarios
    run = json.loads(scenario.to_run())
    run["plugins"]["chaos.generators"] = {"orders": "shop-chaos 1.0"}
    run["plugins"]["chaos.sinks"] = {"shelf": "shop-chaos 1.0"}
    run["workload"]["rows"] = {"generator": "orders"}

    assert Scenario.of_run(json.dumps(run)).workload.rows.generator == "orders"


@pytest.mark.parametrize(
    "path", ["pyproject.toml", *(f"retention_chaos/{name}.py" for name in ("faults", "verifiers", "generators", "sinks"))]
)
def test_the_page_shows_the_package_that_is_tested(path):
    """Nobody copies code that has never run."""
    text = (PACKAGE / path).read_text(encoding="utf-8")

    assert f"```{'toml' if path.endswith('toml') else 'python'}\n{text}```\n" in PAGE.read_text(encoding="utf-8")


def test_the_verifier_of_that_package_knows_no_framework():
    """As for ours: a judge shares no code with what it judges."""
    text = (PACKAGE / "retention_chaos" / "verifiers.py").read_text(encoding="utf-8")

    assert {line.split()[1] for line in text.splitlines() if line.startswith(("from ", "import "))} == {
        "dataclasses",
        "verifiers.base",
    }
