"""The examples on the real system: what each one's README claims. All are the night's, as are their scenarios."""

import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from chaos.common.events import FaultProved
from chaos.common.history import load as load_history
from chaos.common.history import of_type
from chaos.judging import statements
from chaos.judging.landing import landed
from chaos.scenario.load import load, load_text
from tests.integration.conftest import ROOT
from verifiers.base import Verdict

EXAMPLES = ROOT / "examples"
NODE = EXAMPLES / "adapters"
pytestmark = [pytest.mark.integration, pytest.mark.nightly, pytest.mark.timeout(900)]


def played(session, example, name):
    """The report of one of its scenarios."""
    file = load(EXAMPLES / example / "scenarios.yaml")
    return session.run(file.scenario(name), file.system, "", lambda _event: None).report


def counts(report):
    return {one.verifier: one.count for one in report.findings if one.subject == "sink"}


def kafkajs():
    """Install the package that the example in Node.js needs; skip where it cannot be had."""
    npm = shutil.which("npm") if shutil.which("node") else None
    if npm is None:
        pytest.skip("node and npm are not on the path; the night runs this example")
    done = subprocess.run([npm, "ci", "--prefix", NODE], capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        pytest.skip(f"npm cannot install kafkajs; the night runs this example: {done.stderr[-200:]}")


@pytest.mark.parametrize("language", ["python", "java", "node"])
def test_what_a_program_says_is_compared_with_the_log(chaos_session, language):
    """In each language: it dies with the answer to its commit on the wire, so this one transaction is never told."""
    if language == "node":
        kafkajs()

    report = played(chaos_session, "adapters", f"says-nothing-of-its-end-{language}")

    assert report.verdict is Verdict.VALID, report.problems
    assert [fault.effective for fault in report.faults] == [True]
    compared = {one.verifier: one.checked for one in report.findings}
    assert compared["deliveries"] == 4000
    ends = {row.transaction: row.told for row in statements.told(statements.logs(Path(report.run_dir), "pipeline"))}
    assert "unknown" in ends.values()
    assert compared["outcomes"] == list(ends.values()).count("committed") >= 5


def test_the_coordinator_of_an_id_that_is_not_declared(chaos_session):
    """It is that of the id which the proxies have seen: on its link, and on no other, EndTxn is sent, and can be held."""
    path = EXAMPLES / "adapters" / "scenarios.yaml"
    text = path.read_text(encoding="utf-8")
    for declared, instead in (
        ('    transactional_ids: ["{source}-copy"]\n', ""),
        (
            "{kind: crash_pipeline, when: {request: EndTxn, nth: 5, at: response}}",
            '{kind: hold_requests, request: EndTxn, link: "pipeline->transaction_coordinator", when: {progress: 30%}, for: 1s}',
        ),
    ):
        assert declared in text
        text = text.replace(declared, instead)
    file = load_text(text, path)

    report = chaos_session.run(file.scenario("says-nothing-of-its-end-python"), file.system, "", lambda _event: None).report

    assert report.verdict is Verdict.VALID, report.problems
    assert [(fault.effective, fault.target.endswith(" (pipeline->transaction_coordinator)")) for fault in report.faults] == [
        (True, True)
    ]


@pytest.mark.parametrize(("name", "missing"), [("own-loader-leader-killed", 0), ("own-loader-that-forgets", 3)])
def test_a_loader_of_ones_own_is_judged_by_what_it_says(chaos_session, name, missing):
    """All that it was told is compared with the log; what it only claims is found, and named by its own names."""
    report = played(chaos_session, "adapters", name)

    assert report.verdict is Verdict.VALID, report.problems  # the control as expected
    assert [fault.effective for fault in report.faults] == [True]
    findings = {one.verifier: one for one in report.findings if one.subject == "source"}
    assert findings["ledger"].checked == findings["gaps"].checked == 6000
    assert findings["values"].checked == 6000 - missing
    assert sorted(one.id for one in findings["ledger"].examples) == [str(number) for number in range(missing)]


def test_aiokafka_without_transactions_is_caught(chaos_session):
    """The control: the batch whose positions were on the wire is written again, and no other row."""
    report = played(chaos_session, "aiokafka", "aiokafka-at-least-once-killed")

    assert report.verdict is Verdict.VALID, report.problems  # as expected: it is a control
    assert counts(report)["duplicates"] == 100


def test_aiokafka_commits_a_batch_twice_whose_consumer_was_excluded(chaos_session):
    """The rows that are there twice are those of one transaction: the one whose positions came late, and were accepted."""
    report = played(chaos_session, "aiokafka", "aiokafka-positions-late")

    assert report.verdict is Verdict.VALID, report.problems  # as expected: it is a control
    folder = Path(report.run_dir)
    rows = landed(chaos_session.spark(), folder / "evidence", "sink")
    twice = {row["key"] for row in rows.groupBy("key").count().where("count = 2").collect()}
    written = defaultdict(set)
    for row in statements.told(statements.logs(folder, "pipeline")):
        written[row.transaction, row.told].add(row.id)
    assert {told for (_, told), ids in written.items() if ids == twice} == {"committed"}  # the second may hold them all, too
    proofs = [event.proof for _, event in of_type(load_history(folder / "history.jsonl"), FaultProved)]
    assert [proof["version"] for proof in proofs if proof.get("api") == "TxnOffsetCommit"] == [0]  # no generation in it


def test_aiokafka_is_right_where_the_group_waits_for_its_transaction(chaos_session):
    """A rebalance listener changes the outcome of the same requests at the same steps."""
    report = played(chaos_session, "aiokafka", "aiokafka-positions-late-group-waits")

    assert report.verdict is Verdict.VALID, report.problems
    assert [fault.effective for fault in report.faults] == [True] * 3


@pytest.mark.parametrize(("name", "twice"), [("flink-killed-in-its-commit", False), ("flink-at-least-once-killed", True)])
def test_flink(chaos_session, name, twice):
    """Killed: what a checkpoint has covered is committed by the next job, and with at_least_once the rest is written again."""
    report = played(chaos_session, "flink", name)

    assert report.verdict is Verdict.VALID, report.problems
    assert [fault.effective for fault in report.faults] == [True]
    assert (counts(report)["duplicates"] > 0) is twice


@pytest.mark.parametrize(("name", "twice"), [("streams-killed-in-its-commit", False), ("streams-at-least-once-killed", True)])
def test_kafka_streams(chaos_session, name, twice):
    """Killed at the same load: with exactly_once_v2 nothing is written again, with at_least_once much is."""
    report = played(chaos_session, "kafka_streams", name)

    assert report.verdict is Verdict.VALID, report.problems
    assert (counts(report)["duplicates"] > 0) is twice


def test_what_a_sink_loses_that_commits_first_is_one_batch(chaos_session):
    """On Spark, exactly those rows are missing whose position was stored when the driver died."""
    report = played(chaos_session, "delivery", "delivery-killed-between-position-and-output-spark-at-most-once")

    assert report.verdict is Verdict.VALID, report.problems  # as expected: it is a control
    rows = landed(chaos_session.spark(), Path(report.run_dir) / "evidence", "sink")
    missing = {*range(3000)} - {int(row["key"]) for row in rows.select("key").collect()}
    begin = min(missing)
    assert begin % 300 == 0
    assert missing == {*range(begin, begin + 300)}
