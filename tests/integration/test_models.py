"""Models in SQL and in Python on the real system: a job that filters and enriches, and a plain application."""

import json
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from chaos.judging.findings_file import load_findings
from chaos.judging.landing import landed
from chaos.scenario.load import load, load_text
from tests.integration.conftest import ROOT
from verifiers.base import Verdict

ORDERS = ROOT / "examples" / "orders" / "scenarios.yaml"
RECORDS = 12_000
JUDGE = (sys.executable, "-c", "from chaos.cli.main import main; main()", "judge")
COPY = {
    "kind": "command",
    "reads": ["orders"],
    "sink": {"topic": "copies"},
    "run": [
        "{python}",
        str(ROOT / "examples" / "command" / "copy_topic.py"),
        "{bootstrap}",
        "{source}",
        "{sink}",
        "copy-{suffix}",
    ],
    "group": "copy-{suffix}",
    "transactions": False,
}
ROWS = "SELECT concat('customer-', id % 97) AS key, to_json(named_struct('order', id, 'amount', id % 10)) AS value FROM ids"
MODEL = """
from pyspark.sql import functions as F

def large(sources, spark):
    return sources["orders"].where(F.get_json_object("value", "$.amount") >= 4).select("key", "value", "partition", "offset")
"""
STOCK = "orders-stock-executors-crashed"
pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]


def demanded(id_):
    """Key and value of the row that an order of the example demands; none of a small one."""
    amount, region = id_ * 7 % 300, ("north", "south", "west")[id_ % 97 % 3]
    value = json.dumps({"order": id_, "amount": amount, "region": region}, separators=(",", ":"))
    return [(f"customer-{id_ % 97}", value)] if amount >= 100 else []


def played(session, name):
    """The report of one of the example's scenarios, and its findings by verifier and log."""
    file = load(ORDERS)
    scenario = file.scenario(name)
    report = session.run(scenario, scenario.system or file.system, "", lambda _event: None).report
    return report, {(one.verifier, one.subject): one for one in report.findings}


@pytest.fixture
def copied(chaos_session, tmp_path):
    """Copy 3000 orders with a plain application, and judge that by a model."""

    def run(expect="valid", **more):
        workload = {"records": 3000, "rate": "1500/s", "rows": {"sql": ROWS}}
        scenario = {"name": "a", "title": "A", "pipeline": {**COPY, **more}, "workload": workload, "expect": expect}
        text = json.dumps({"version": 2, "topics": {"orders": {}, "copies": {}}, "scenarios": [scenario]})
        file = load_text(text, tmp_path / "scenarios.yaml")
        return chaos_session.run(file.scenarios[0], file.system, "", lambda _event: None).report

    return run


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["orders-executors-crashed", "orders-driver-killed", "orders-executors-crashed-spark-3-5"])
def test_a_job_that_filters_and_enriches_as_the_query_demands(chaos_session, name):
    """Every large order was compared, its order too, and nothing is missing, double or wrong."""
    report, findings = played(chaos_session, name)

    assert report.verdict is Verdict.VALID, report.problems
    large = sum(len(demanded(id_)) for id_ in range(RECORDS))
    compared = {name: findings[name, "sink"].checked for name in ("duplicates", "gaps", "ordering", "values", "offsets")}
    assert compared == dict.fromkeys(compared, large)
    assert findings["gaps", "source"].checked == RECORDS
    assert report.faults
    assert all(fault.effective for fault in report.faults)


@pytest.mark.nightly
@pytest.mark.parametrize("name", [STOCK, f"{STOCK}-spark-3-5"])
def test_a_sink_that_writes_orders_twice(chaos_session, name):
    """As many duplicates as the log has rows too many, each named by customer, order and place; judged again, the same."""
    report, findings = played(chaos_session, name)

    assert report.verdict is Verdict.VALID, report.problems  # as expected: it is a control
    folder = Path(report.run_dir)
    there = landed(chaos_session.spark(), folder / "evidence", "sink").collect()
    wanted = Counter(row for id_ in range(RECORDS) for row in demanded(id_))
    surplus = Counter((row["key"], row["value"]) for row in there) - wanted
    duplicates = findings["duplicates", "sink"]
    assert duplicates.count == surplus.total() > 0
    assert {name for (name, log), one in findings.items() if log == "sink" and one.count} == {"duplicates", "ordering"}
    at = {(row["partition"], row["offset"]): row for row in there}
    for example in duplicates.examples:
        row = at[example.partition, example.offset]
        assert example.id == f"{row['key']} [{json.loads(row['value'])['order']}]"
        assert surplus[row["key"], row["value"]] > 0
    again = subprocess.run([*JUDGE, str(folder)], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert again.returncode == 0, again.stdout + again.stderr
    assert [replace(one, examples=()) for one in load_findings(folder)] == [
        replace(one, examples=()) for one in report.findings
    ]


@pytest.mark.nightly
def test_rows_that_no_source_demands(copied, tmp_path):
    """A function of Python demands the large orders, and the application copies all: exactly the others are named."""
    (tmp_path / "shop.py").write_text(MODEL, encoding="utf-8")
    identity = "get_json_object(value, '$.order')"

    report = copied({"values": {"phantom": 1200}}, expected={"python": "shop:large"}, identity=identity)

    assert report.verdict is Verdict.VALID, report.problems
    values = next(one for one in report.findings if (one.verifier, one.subject) == ("values", "sink"))
    assert (values.checked, values.counts["phantom"]) == (3000, 1200)


@pytest.mark.nightly
def test_rows_without_a_place(copied):
    """A copy by a query without places: all is compared but the order, and the report says so."""
    report = copied(expected={"sql": "SELECT key, value FROM orders"})

    assert report.verdict is Verdict.VALID, report.problems
    assert "3000 expected rows " in report.not_asked["ordering of the sink"]
    assert next(one.checked for one in report.findings if (one.verifier, one.subject) == ("gaps", "sink")) == 3000


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        ({"sql": "SELECT key, amount AS value FROM orders"}, r"pipeline, expected, sql: \[UNRESOLVED_COLUMN"),
        pytest.param(
            {"sql": "SELECT key, value FROM orders WHERE false"},
            "pipeline, expected, sql: .* no row .* 3000 records",
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            {"python": "no_such_shop:large"},
            "pipeline, expected, python: no_such_shop:large .*ModuleNotFoundError",
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_a_model_that_cannot_be_asked(copied, expected, said):
    """UNKNOWN before anything is sent, with the reason in one line."""
    report = copied(expected=expected)

    assert (report.verdict, report.findings) == (Verdict.UNKNOWN, ())
    assert any(re.search(said, problem) for problem in report.problems), report.problems


LATEST = "SELECT key, max_by(value, offset) AS value FROM orders GROUP BY key"


@pytest.mark.nightly
@pytest.mark.parametrize("form", ["log", "state"])
def test_orders_that_are_copied_again(chaos_session, tmp_path, form):
    """Killed between rows and positions, it copies orders again: a log has them twice, and the state is right."""
    fault = {"kind": "crash_pipeline", "when": {"request": "OffsetCommit", "nth": 3}}
    of_form = {"sink": {"topic": "copies", "as": form}, "expected": {"sql": LATEST} if form == "state" else "source"}
    config = {"cleanup.policy": "compact"} if form == "state" else {}
    scenario = {
        "name": "a",
        "title": "A",
        "pipeline": {**COPY, **of_form},
        "workload": {"records": 9000, "rate": "1500/s", "rows": {"sql": ROWS}},
        "faults": [fault],
        "expect": {"duplicates": {"duplicate": "some"}, "ordering": "invalid"} if form == "log" else "valid",
    }
    text = json.dumps({"version": 2, "topics": {"orders": {}, "copies": {"config": config}}, "scenarios": [scenario]})
    file = load_text(text, tmp_path / "scenarios.yaml")

    report = chaos_session.run(file.scenarios[0], file.system, "", lambda _event: None).report

    assert report.verdict is Verdict.VALID, report.problems
    assert [fault.effective for fault in report.faults] == [True]
    rows = landed(chaos_session.spark(), Path(report.run_dir) / "evidence", "sink").count()
    assert rows > 9000
    findings = {(one.verifier, one.subject): one for one in report.findings}
    checked = {name: findings[name, "sink"].checked for name in ("duplicates", "gaps", "values")}
    if form == "log":
        assert findings["duplicates", "sink"].count == rows - 9000
    else:
        assert checked == dict.fromkeys(checked, 97)
        assert ("stability", "sink") not in findings
