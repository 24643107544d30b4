"""Rows of one's own through a plain copy, on the real system: by SQL, from a file, by a function."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from chaos.loader import rows_file
from chaos.scenario.load import load_text
from verifiers.base import Verdict

COPY = Path(__file__).parents[2] / "examples" / "command" / "copy_topic.py"
SQL = "SELECT concat('customer-', id % 97) AS key, to_json(struct(id AS order_id)) AS value FROM ids"
PIPELINE = {
    "kind": "command",
    "reads": ["orders"],
    "sink": {"topic": "copies"},
    "run": ["{python}", str(COPY), "{bootstrap}", "{source}", "{sink}", "copy-{suffix}"],
    "group": "copy-{suffix}",
    "transactions": False,
}
TOPICS: dict[str, dict[str, object]] = {"orders": {}, "copies": {}}
FUNCTION = """
from random import Random

def orders(seed):
    rng = Random(seed)
    for number in range(1500):
        key = None if number % 50 == 0 else f"customer-{rng.randrange(20)}"
        value = None if number % 70 == 0 else bytes([0, 255, 254, number % 7])
        yield {"key": key, "value": value, "headers": {"trace": str(number)}}
    yield {"key": "poison", "value": b"x" * 3_000_000, "partition": 2}
"""
pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


@pytest.fixture
def ran(chaos_session, tmp_path):
    """Run a scenario whose file is in a folder of its own; its report, and its counts by verifier and log."""

    def run(workload, **more):
        scenario = {"name": "own-rows", "title": "Rows of one's own", "pipeline": PIPELINE, "workload": workload, **more}
        file = load_text(json.dumps({"version": 2, "topics": TOPICS, "scenarios": [scenario]}), tmp_path / "scenarios.yaml")
        outcome = chaos_session.run(file.scenarios[0], file.system, "", lambda _event: None)
        return outcome.report, {(one.verifier, one.subject): one for one in outcome.report.findings}

    return run


@pytest.mark.nightly
def test_customers_that_recur(ran):
    """A copy of 97 customers is VALID, and every record was compared; the run's folder has what was sent."""
    report, findings = ran({"records": 8000, "rate": "4000/s", "rows": {"sql": SQL}})

    assert report.verdict is Verdict.VALID, report.problems
    assert {findings[name, log].checked for name in ("duplicates", "values") for log in ("source", "sink")} == {8000}
    assert findings["ledger", "source"].checked == 8000
    assert sum(1 for _ in rows_file.read(Path(report.run_dir) / rows_file.FILE)) == 8000


@pytest.mark.nightly
def test_a_copy_that_is_killed_before_it_commits(ran):
    """It writes a batch again; duplicates are named by customer, partition and offset, and the source is as it should be."""
    crash = {"kind": "crash_pipeline", "when": {"request": "OffsetCommit", "nth": 5}}
    report, findings = ran(
        {"records": 12_000, "rate": "4000/s", "rows": {"sql": SQL}},
        faults=[crash],
        expect={"duplicates": "invalid", "ordering": "invalid"},
    )

    assert report.verdict is Verdict.VALID, report.problems
    wrong = {pair for pair, one in findings.items() if one.count}
    assert wrong == {("duplicates", "sink"), ("ordering", "sink")}
    first = findings["duplicates", "sink"].examples[0]
    assert str(first.id).startswith("customer-")
    assert first.offset is not None
    assert "cause: replay (also of key customer-" in first.words


@pytest.mark.nightly
def test_a_pipeline_without_positions(ran, tmp_path):
    """Its output tells when it has done all; what cannot be asked is named. It begins at the first record by itself."""
    text = COPY.read_text(encoding="utf-8")
    assert '"enable.auto.commit": False' in text
    script = tmp_path / "copy_topic.py"
    script.write_text(text.replace('"enable.auto', '"auto.offset.reset": "earliest", "enable.auto'), encoding="utf-8")
    run = [str(script) if word == str(COPY) else word for word in PIPELINE["run"]]
    pipeline = {**PIPELINE, "run": run, "group": "", "positions": "none"}

    report, findings = ran({"records": 4000, "rate": "4000/s", "rows": {"sql": SQL}}, pipeline=pipeline)

    assert report.verdict is Verdict.VALID, report.problems
    assert findings["gaps", "sink"].checked == 4000
    assert report.left_out == dict.fromkeys(("offsets", "commits", "precedence"), "positions: none")
    assert not {"offsets", "commits", "precedence"} & {verifier for verifier, _ in findings}


def test_a_function_with_nulls_bytes_headers_and_a_record_that_is_too_large(ran, tmp_path):
    """A refused record is no gap, and the run does not wait for it."""
    (tmp_path / "shop.py").write_text(FUNCTION, encoding="utf-8")

    report, findings = ran({"rate": "1000/s", "rows": {"python": "shop:orders"}, "refused": 1})

    assert report.verdict is Verdict.VALID, report.problems
    assert (report.records, findings["values", "sink"].checked) == (1501, 1500)
    ledger = (Path(report.run_dir) / "ledger.csv").read_text(encoding="utf-8").splitlines()
    assert [line for line in ledger if ",fail," in line] == ["1500,fail,2,"]


@pytest.mark.nightly
@pytest.mark.parametrize("promised", [True, False])
def test_a_copy_that_loses_headers(ran, tmp_path, promised):
    """A control: every record is a wrong value, and its headers are shown; a copy that promises none is right."""
    text = COPY.read_text(encoding="utf-8")
    script = tmp_path / "copy_topic.py"
    script.write_text(text.replace(", headers=record.headers()", ""), encoding="utf-8")
    assert script.read_text(encoding="utf-8") != text
    lines = (json.dumps({"key": f"c-{number % 7}", "value": "v", "headers": {"t": str(number)}}) for number in range(2000))
    (tmp_path / "orders.jsonl").write_text("\n".join(lines), encoding="utf-8")
    run = [str(script) if word == str(COPY) else word for word in PIPELINE["run"]]

    report, findings = ran(
        {"rate": "2000/s", "rows": {"file": "orders.jsonl"}},
        pipeline={**PIPELINE, "run": run, "keeps_headers": promised},
        expect={"values": {"wrong value": 2000}} if promised else "valid",
    )

    assert report.verdict is Verdict.VALID, report.problems  # the control as expected
    assert findings["values", "sink"].count == (2000 if promised else 0)
    if promised:
        assert 'headers=[{"key":"t","value":' in findings["values", "sink"].examples[0].words


@pytest.mark.nightly
def test_a_file_of_json_lines(ran, tmp_path):
    """All of its rows, unless fewer are declared."""
    lines = (json.dumps({"key": f"customer-{number % 7}", "value": str(number % 5)}) for number in range(2000))
    (tmp_path / "orders.jsonl").write_text("\n".join(lines), encoding="utf-8")

    report, findings = ran({"rate": "2000/s", "rows": {"file": "orders.jsonl"}})

    assert report.verdict is Verdict.VALID, report.problems
    assert findings["values", "sink"].checked == 2000


def test_a_query_that_spark_cannot_read(ran):
    """UNKNOWN, with Spark's reason in one line; nothing was sent."""
    report, findings = ran({"records": 10, "rows": {"sql": "SELECT amount AS value FROM ids"}})

    assert (report.verdict, findings) == (Verdict.UNKNOWN, {})
    assert any("workload, rows, sql: [UNRESOLVED_COLUMN" in problem for problem in report.problems), report.problems


@pytest.mark.nightly
def test_the_loader_alone_in_transactions(ran, tmp_path):
    """A transaction with a record that is refused is aborted, and sent again without it; all that was told is true."""
    values = [b"x" * 3_000_000 if number == 60 else bytes([255, number % 5]) for number in range(300)]
    parquet.write_table(
        pa.table({"key": [f"c-{number % 9}" for number in range(300)], "value": values}), tmp_path / "a.parquet"
    )

    producer = {"transaction_records": 50}
    report, findings = ran(
        {"into": "orders", "refused": 1, "rate": "300/s", "rows": {"file": "a.parquet"}, "producer": producer}, pipeline="none"
    )

    assert report.verdict is Verdict.VALID, report.problems
    assert (findings["ledger", "source"].checked, findings["outcomes", "source"].checked) == (300, 7)
    assert findings["values", "source"].checked == 299
