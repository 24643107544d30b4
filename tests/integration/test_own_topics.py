"""Topics as a stranger has them: names of their own, two partitions that become five, and a second topic that is read."""

import json
import sys

import pytest

from chaos.scenario.load import load_text
from verifiers.base import Verdict

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

PROGRAM = """
import sys
from confluent_kafka import Consumer, KafkaException, Producer

bootstrap, sources, sink, group = sys.argv[1:]
kafka = {"bootstrap.servers": bootstrap}
consumer = Consumer({**kafka, "group.id": group, "enable.auto.commit": False, "isolation.level": "read_committed"})
producer = Producer({**kafka, "enable.idempotence": True})
consumer.subscribe(sources.split(","))
while True:
    records = consumer.consume(500, timeout=0.2)
    for record in records:
        if record.error():
            raise KafkaException(record.error())
        producer.produce(sink, record.value(), record.key())  # the partition is chosen by the key
    if records:
        producer.flush()
        consumer.commit(asynchronous=False)
"""
FILE = """\
version: 2
topics:
  orders: {partitions: 1}
  page-views.v1: {partitions: 2, config: {segment.bytes: 1048576}}
  enriched: {partitions: 5, config: {compression.type: lz4}}
scenarios:
  - name: own-topics
    title: "Each run has topics of its own, whatever they are called"
    pipeline:
      kind: command
      reads: [orders, page-views.v1]
      sink: {topic: enriched ROUTING}
      run: ["PYTHON", "PROGRAM", "{bootstrap}", "{orders},{page-views.v1}", "{enriched}", "{enriched}-copy"]
      group: "{enriched}-copy"
      transactions: false
    workload: {into: page-views.v1, records: 8000, rate: 1000/s}
    faults: [{kind: kill_broker, target: "leader(enriched, 4)", when: {progress: 30%}, restart_after: 2s}]
"""


def run(session, folder, routing="", expect="valid"):
    """The report of one run, and its scenario."""
    (folder / "copy.py").write_text(PROGRAM, encoding="utf-8")
    text = FILE.replace(" ROUTING", routing).replace("PYTHON", sys.executable).replace("PROGRAM", str(folder / "copy.py"))
    file = load_text(f"{text}    expect: {json.dumps(expect)}\n", folder / "scenarios.yaml")
    return session.run(file.scenarios[0], file.system, "", lambda _event: None).report


@pytest.mark.nightly
def test_a_topic_may_have_more_partitions_than_the_one_that_is_copied(chaos_session, tmp_path):
    """Everything is compared: no record is in a wrong partition, and order is judged by the partitions of the source."""
    report = run(chaos_session, tmp_path)

    findings = {finding.verifier: finding for finding in report.findings if finding.subject == "sink"}
    assert report.verdict is Verdict.VALID, report.problems
    assert {findings[name].checked for name in ("duplicates", "gaps", "ordering", "values", "offsets")} == {8000}
    assert "leader(enriched, 4)" in report.faults[0].target


@pytest.mark.nightly
def test_a_pipeline_that_says_that_records_keep_their_partition_is_held_to_it(chaos_session, tmp_path):
    """The control: the same program is INVALID then, and in nothing else."""
    report = run(chaos_session, tmp_path, ", routing: same", {"values": {"misrouted": "some"}})

    (values,) = (finding for finding in report.findings if finding.verifier == "values" and finding.subject == "sink")
    assert report.verdict is Verdict.VALID, report.problems
    assert values.verdict is Verdict.INVALID
    assert values.counts["misrouted"] == values.count


def test_a_setting_that_brokers_do_not_know_ends_the_run_with_their_words(chaos_session, tmp_path):
    """And the name of the topic; which settings there are depends on their version."""
    text = (
        FILE.replace(" ROUTING", "").replace("PYTHON", sys.executable).replace("compression.type: lz4", "compresion.type: lz4")
    )
    file = load_text(text, tmp_path / "scenarios.yaml")

    report = chaos_session.run(file.scenarios[0], file.system, "", lambda _event: None).report

    assert report.verdict is Verdict.UNKNOWN
    assert any("topics, enriched: " in problem and "compresion.type" in problem for problem in report.problems)
