"""`chaos audit topics --since` on a real broker's topics, which grow between the audits."""

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

pytestmark = [pytest.mark.integration, pytest.mark.nightly, pytest.mark.timeout(1800)]

SOURCE, SINK, GROUP = "since-source", "since-sink", "since-group"
APPEND, PARTITIONS = 300, 3
CHAOS = str(Path(sys.executable).with_name("chaos"))


@pytest.fixture
def topics(system):
    """Both topics; removed at the end."""
    system.kafka.create([SOURCE, SINK], PARTITIONS)
    yield system.kafka
    system.kafka.delete([SOURCE, SINK])


def send(producer, topic, numbers):
    for number in numbers:
        producer.produce(topic, key=f"k-{number}", value=str(number), partition=number % PARTITIONS)
    assert producer.flush(120) == 0  # what is aborted before it was sent is not in the log at all


def copy(producer, numbers):
    """Write rows in a transaction, behind an aborted one."""
    for commit in (False, True):
        producer.begin_transaction()
        send(producer, SINK, numbers)
        producer.commit_transaction(120) if commit else producer.abort_transaction(120)


def passed(kafka, records):
    """Have the group pass so many records."""
    places = [TopicPartition(SOURCE, number, (records + PARTITIONS - 1 - number) // PARTITIONS) for number in range(PARTITIONS)]
    settings = {"bootstrap.servers": kafka.bootstrap, "group.id": GROUP, "enable.auto.commit": False}
    with closing(Consumer(settings)) as consumer:
        consumer.commit(offsets=places, asynchronous=False)


def audit(kafka, path, *words):
    """Exit code, what was printed, and the report."""
    argv = [CHAOS, "audit", "topics", "--bootstrap", kafka.bootstrap, "--source", SOURCE, "--sink", SINK, "--group", GROUP]
    how = ("--model", "identity", "--identity", "key", "--spark-master", "local[2]", "--json", str(path))
    done = subprocess.run([*argv, *how, *words], capture_output=True, text=True, timeout=600, check=False)
    return done.returncode, done.stdout, json.loads(path.read_text(encoding="utf-8"))


def counts(*reports):
    """By verifier, of all these reports."""
    names = ("duplicates", "gaps", "offsets", "ordering", "values")
    return {name: sum(finding(report, name)["count"] for report in reports) for name in names}


def finding(report, verifier):
    return next(one for one in report["findings"] if one["verifier"] == verifier)


def test_five_appends(topics, tmp_path):
    """The audits after each append find together what one audit of everything finds; then a topic is made anew.

    At the second audit ten records are pending. In the third append a record is lost, and one of the first is copied again:
    that is read again by the audit of everything alone, which therefore knows that it is there twice, and late.
    """
    producer = Producer({"bootstrap.servers": topics.bootstrap, "transactional.id": SINK})
    producer.init_transactions(120)
    plain = Producer({"bootstrap.servers": topics.bootstrap, "enable.idempotence": True})
    codes, reports, path, copied = [], [], tmp_path / "last.json", 0
    for turn in range(5):
        send(plain, SOURCE, range(turn * APPEND, (turn + 1) * APPEND))
        end = (turn + 1) * APPEND - (10 if turn == 1 else 0)
        rows = [number for number in range(copied, end) if number != 2 * APPEND + 50]
        copy(producer, [*rows, 7] if turn == 2 else rows)
        passed(topics, end)
        copied = end
        code, said, report = audit(topics, path, *(("--since", str(path)) if turn else ()))
        assert report["findings"], said
        codes, reports = [*codes, code], [*reports, report]
    code, _, whole = audit(topics, tmp_path / "whole.json")

    assert codes == [0, 3, 1, 0, 0]
    assert [report["records"] for report in (*reports, whole)] == [600, 590, 620, 600, 600, 3000]
    assert finding(reports[1], "gaps")["counts"]["pending"] == 10
    assert [finding(report, "gaps")["examples"][0]["id"] for report in (reports[2], whole)] == ["k-650", "k-650"]
    assert counts(*reports) == {"duplicates": 0, "gaps": 1, "offsets": 1, "ordering": 0, "values": 1}
    assert (code, counts(whole)) == (1, {"duplicates": 1, "gaps": 1, "offsets": 1, "ordering": 1, "values": 0})
    topics.delete([SINK])
    topics.create([SINK], PARTITIONS)
    before = path.read_bytes()
    code, said, _ = audit(topics, path, "--since", str(path))
    assert (code, "the topic since-sink is another one now" in said) == (2, True)
    assert path.read_bytes() == before
