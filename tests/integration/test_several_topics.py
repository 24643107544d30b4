"""Several topics that are filled, on the real system: a job that joins two, and an application that merges two."""

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from chaos.judging.landing import landed
from chaos.scenario.load import load, load_text
from tests.integration.conftest import ROOT
from verifiers.base import Verdict

pytestmark = [pytest.mark.integration, pytest.mark.nightly, pytest.mark.timeout(1800)]

JOIN = ROOT / "examples" / "join" / "scenarios.yaml"
ORDERS, CUSTOMERS = 12_000, 97
PROGRAM = """
import sys
from confluent_kafka import Consumer, KafkaException, Producer

bootstrap, sources, sink, group, skips = sys.argv[1:]
kafka = {"bootstrap.servers": bootstrap}
consumer = Consumer({**kafka, "group.id": group, "enable.auto.commit": False, "isolation.level": "read_committed"})
producer = Producer({**kafka, "transactional.id": group, "transaction.timeout.ms": 20000})
producer.init_transactions(60)
consumer.subscribe(sources.split(","))
while True:
    records = consumer.consume(500, timeout=0.2)
    if not records:
        continue
    producer.begin_transaction()
    for record in records:
        if record.error():
            raise KafkaException(record.error())
        if not (skips == "some" and record.topic().startswith("customers") and record.offset() % 10 == 3):
            producer.produce(sink, record.value(), record.key())
    producer.send_offsets_to_transaction(consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), 60)
    producer.commit_transaction(60)
"""
LOADER = """
import json, sys
from confluent_kafka import Producer

bootstrap, topic = sys.argv[1:]
producer = Producer({"bootstrap.servers": bootstrap})

def told(error, message):
    print(json.dumps({"ok": int(message.key()), "partition": message.partition(), "offset": message.offset()}), flush=True)

for number in range(50):
    print(json.dumps({"sent": number}), flush=True)
    producer.produce(topic, b"x", str(number).encode(), on_delivery=told)
producer.flush()
sys.exit("the customers are out")
"""
FILE = """\
version: 2
topics: {orders: {partitions: 3}, customers: {partitions: 2}, merged: {partitions: 4}}
scenarios:
  - name: merged
    title: "Two topics are merged"
    pipeline:
      kind: command
      reads: [orders, customers]
      sink: {topic: merged}
      run: [PYTHON, PROGRAM, "{bootstrap}", "{orders},{customers}", "{merged}", "{merged}-merge", SKIPS]
      group: "{merged}-merge"
      transactional_ids: ["{merged}-merge"]
    workload: {into: orders, records: 6000, rate: 1000/s, also: [{into: customers, records: 600, rate: 100/s}]}
    faults: [{kind: kill_broker, target: "leader(customers, 1)", when: {progress: 30%}, restart_after: 2s}]
"""


def played(session, name):
    """The report of one of the example's scenarios, and its findings by verifier and log."""
    file = load(JOIN)
    report = session.run(file.scenario(name), file.system, "", lambda _event: None).report
    return report, {(one.verifier, one.subject): one for one in report.findings}


@pytest.fixture
def merged(chaos_session, tmp_path):
    """Merge both topics with an application in transactions; the report, and its findings by verifier and log."""

    def run(skips="none", expect="valid", expected="", also="", *, fault=True):
        programs = {"program.py": PROGRAM, "loader.py": LOADER}
        for name, text in programs.items():
            (tmp_path / name).write_text(text, encoding="utf-8")
        text = FILE.replace("PYTHON", json.dumps(sys.executable)).replace("PROGRAM", json.dumps(str(tmp_path / "program.py")))
        text = text.replace("SKIPS", skips).replace("      group:", f"{expected}      group:")
        text = text.replace(", rate: 100/s}]", f", rate: 100/s{also}}}]")
        text = text if fault else text[: text.index("    faults:")]
        file = load_text(f"{text}    expect: {json.dumps(expect)}\n", tmp_path / "scenarios.yaml")
        report = chaos_session.run(file.scenarios[0], file.system, "", lambda _event: None).report
        return report, {(one.verifier, one.subject): one for one in report.findings}

    return run


@pytest.mark.parametrize("name", ["join-executors-crashed", "join-driver-killed", "join-customers-leader-killed"])
def test_a_job_that_joins_two_topics(chaos_session, name):
    """Every order was compared, and each topic with its ledger; what was not asked is said."""
    report, findings = played(chaos_session, name)

    assert report.verdict is Verdict.VALID, report.problems
    assert {name: findings[name, "sink"].checked for name in ("duplicates", "gaps", "values")} == dict.fromkeys(
        ("duplicates", "gaps", "values"), ORDERS
    )
    assert [findings["ledger", subject].checked for subject in ("source", "source-customers")] == [ORDERS, CUSTOMERS]
    assert not findings["ordering", "sink"].asked
    assert all(fault.effective for fault in report.faults)


def test_a_sink_that_writes_joined_rows_twice(chaos_session):
    """The control: as many duplicates as the log has rows too many, and nothing else is wrong."""
    report, findings = played(chaos_session, "join-stock-executors-crashed")

    assert report.verdict is Verdict.VALID, report.problems  # as expected: it is a control
    there = landed(chaos_session.spark(), Path(report.run_dir) / "evidence", "sink").collect()
    counts = Counter((row["key"], row["value"]) for row in there)
    assert len(counts) == ORDERS
    assert findings["duplicates", "sink"].count == len(there) - ORDERS > 0
    assert {where for where, one in findings.items() if one.count} == {("duplicates", "sink")}


def test_an_application_that_merges_two_topics(merged):
    """The broker that leads one of them dies: each record of both is there once."""
    report, findings = merged()

    assert report.verdict is Verdict.VALID, report.problems
    assert {name: findings[name, "sink"].checked for name in ("duplicates", "gaps", "values", "offsets")} == dict.fromkeys(
        ("duplicates", "gaps", "values", "offsets"), 6600
    )
    assert [findings["gaps", subject].checked for subject in ("source", "source-customers")] == [6000, 600]
    assert [findings["commits", subject].verdict for subject in ("source", "source-customers")] == [Verdict.VALID] * 2


def test_without_a_model_the_transactions_of_both_topics_are_judged(merged):
    """With one row for each record of either."""
    report, findings = merged(expected="      expected: transactions\n      rows_per_record: 1\n")

    assert report.verdict is Verdict.VALID, report.problems
    (transactions,) = (one for (name, _), one in findings.items() if name == "transactions")
    assert transactions.checked > 0
    assert not findings["gaps", "sink"].asked


def test_what_is_lost_of_the_second_topic(merged):
    """The control: exactly the records that the application leaves out, and none of the first topic."""
    report, findings = merged("some", {"gaps": {"lost": 60}, "offsets": {"behind": 60}}, fault=False)

    assert report.verdict is Verdict.VALID, report.problems
    assert {where for where, one in findings.items() if one.count} == {("gaps", "sink"), ("offsets", "sink")}


def test_a_loader_of_the_second_topic_that_dies(merged, tmp_path):
    """The run is UNKNOWN, with its last words, though all that is there was copied."""
    loader = json.dumps(["{python}", str(tmp_path / "loader.py"), "{bootstrap}", "{source}"])

    report, _ = merged(also=f", rows: {{command: {loader}}}", fault=False)

    assert report.verdict is Verdict.UNKNOWN
    assert any(
        "the loader-customers ended with 1" in problem and "the customers are out" in problem for problem in report.problems
    )
