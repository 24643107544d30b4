"""`chaos audit topics` as a user calls it: on a real broker's topics, on folders, and where things end badly."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from chaos.audit.logs import AuditUsageError, Topics, fix, land
from chaos.audit.small_logs import SmallLogs
from chaos.common import clock
from chaos.common.errors import InconclusiveError
from tests.integration.conftest import jvm_of

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

SOURCE, SINK, GROUP = "audit-source", "audit-sink", "audit-group"
RECORDS = 300
CHAOS = str(Path(sys.executable).with_name("chaos"))


@contextmanager
def written(system, lost=(), again=()):
    """A source of numbers, and a copy of them in transactions, one of them aborted; a header names each record."""
    system.kafka.create([SOURCE, SINK], 3)
    plain = Producer({"bootstrap.servers": system.kafka.bootstrap, "enable.idempotence": True})
    for id_ in range(RECORDS):
        plain.produce(SOURCE, key=str(id_), value=str(id_), partition=id_ % 3, headers={"trace": f"t-{id_}"})
    assert plain.flush(120) == 0
    producer = Producer({"bootstrap.servers": system.kafka.bootstrap, "transactional.id": "audit"})
    producer.init_transactions(120)
    kept = [id_ for id_ in range(RECORDS) if id_ not in lost]
    for ids, commit in ((kept[:100], True), (kept[100:], False), (kept[100:], True), (list(again), True)):
        producer.begin_transaction()
        for id_ in ids:
            producer.produce(SINK, key=str(id_), value=str(id_), partition=id_ % 3, headers={"trace": f"t-{id_}"})
        assert producer.flush(120) == 0  # what is aborted before it was sent is not in the log at all
        producer.commit_transaction(120) if commit else producer.abort_transaction(120)
    try:
        yield
    finally:
        system.kafka.delete([SOURCE, SINK])


def audit(tmp_path, *words):
    """Exit code, what was printed, and the report if there is one."""
    path = tmp_path / "report.json"
    argv = [CHAOS, "audit", "topics", "--model", "identity", "--json", str(path), "--spark-master", "local[2]"]
    done = subprocess.run([*argv, *words], capture_output=True, text=True, timeout=600, check=False)
    return done.returncode, done.stdout, json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def expire(system, *begins):
    """Have partitions begin there."""
    for future in system.kafka.admin.delete_records(list(begins)).values():
        future.result(300)

    def begun():
        fixed = fix(Topics(system.kafka.bootstrap, (SOURCE,), (SINK,)))
        ends = {SOURCE: fixed.source, SINK: fixed.sink}
        return all(ends[one.topic][one.partition].low == one.offset for one in begins)

    clock.wait_until(begun, within_s=300, reason="the records to be removed")


def topics(system):
    """The words that name them."""
    return ("--bootstrap", system.kafka.bootstrap, "--source", SOURCE, "--sink", SINK)


def produce(system, topic, records):
    """Write keys and values, in the partitions that Kafka's Java producer chooses (murmur2 of the key)."""
    own = {"bootstrap.servers": system.kafka.bootstrap, "partitioner": "murmur2_random", "enable.idempotence": True}
    producer = Producer(own)
    for key, value in records:
        producer.produce(topic, key=key, value=value)
    assert producer.flush(120) == 0


def notes(report):
    """By verifier, where there is one."""
    return {finding["verifier"]: finding["note"] for finding in report["findings"] if finding["note"]}


def counts(report):
    """By verifier."""
    return {finding["verifier"]: finding["count"] for finding in report["findings"]}


def test_a_clean_sink_and_what_is_left_of_it(system, tmp_path):
    """Aborted rows and markers are not anomalies; what was landed can be audited again without a broker."""
    with written(system):
        code, text, report = audit(tmp_path, *topics(system), "--landing", str(tmp_path / "landed"))

    assert (code, report["verdict"], report["records"]) == (0, "VALID", 2 * RECORDS)
    assert "VALID: 600 records" in text
    assert audit(tmp_path, "--landed", str(tmp_path / "landed"))[0] == 0


@pytest.mark.nightly
def test_anomalies_by_a_header(system, tmp_path):
    """A record is what its header says it is."""
    with written(system, lost=[150], again=[3, 6]):
        code, _, report = audit(tmp_path, *topics(system), "--identity", "header:trace")

    assert (code, counts(report)) == (1, {"duplicates": 2, "gaps": 1, "ordering": 2, "values": 0})
    examples = {finding["verifier"]: [one["id"] for one in finding["examples"]] for finding in report["findings"]}
    assert (examples["gaps"], examples["duplicates"]) == (["t-150"], ["t-3", "t-6"])


@pytest.mark.nightly
def test_a_copy_into_more_partitions(system, tmp_path):
    """From 3 partitions to 6, as Kafka's Java producer chooses them; the keys recur, and so do whole records."""
    records = [(f"user-{number % 17}", str(number % 5)) for number in range(RECORDS)]
    asked = (*topics(system), "--model", "identity", "--identity", "key")
    system.kafka.create([SOURCE], 3)
    system.kafka.create([SINK], 6)
    try:
        for topic in (SOURCE, SINK):
            produce(system, topic, records)
        anywhere, same = audit(tmp_path, *asked, "--routing", "any"), audit(tmp_path, *asked)
    finally:
        system.kafka.delete([SOURCE, SINK])

    assert (anywhere[0], counts(anywhere[2])) == (0, {"duplicates": 0, "gaps": 0, "ordering": 0, "values": 0})
    assert (same[0], "(the source has 3 partitions, the sink 6)" in notes(same[2])["values"]) == (1, True)


@pytest.mark.nightly
def test_several_topics(system, tmp_path):
    """One log by any routing; with as many sinks the first belongs to the first. An example names its topic."""
    records = [(f"user-{number % 17}", str(number)) for number in range(RECORDS)]
    names = (SOURCE, f"{SOURCE}-2", SINK, f"{SINK}-2")
    sources = ("--bootstrap", system.kafka.bootstrap, "--source", SOURCE, "--source", names[1], "--model", "identity")
    asked = (*sources, "--identity", "key", "--sink", SINK)
    system.kafka.create(names, 3)
    try:
        produce(system, SOURCE, records[:150])
        produce(system, names[1], records[150:])
        produce(system, SINK, records)
        produce(system, names[3], records[151:])
        anywhere = audit(tmp_path, *asked, "--routing", "any")
        system.kafka.delete([SINK])
        system.kafka.create([SINK], 3)
        produce(system, SINK, records[:150])
        same = audit(tmp_path, *asked, "--sink", names[3])
        few = audit(tmp_path, *asked)
    finally:
        system.kafka.delete(names)

    assert (anywhere[0], counts(anywhere[2])) == (0, {"duplicates": 0, "gaps": 0, "ordering": 0, "values": 0})
    assert (same[0], counts(same[2])) == (1, {"duplicates": 0, "gaps": 1, "ordering": 0, "values": 0})
    gaps = next(finding for finding in same[2]["findings"] if finding["verifier"] == "gaps")
    assert gaps["examples"][0]["detail"].startswith(f"lost: in {names[3]}: its input is at partition ")
    assert (few[0], few[1].startswith("chaos audit topics: 2 of --source and 1 of --sink: ")) == (2, True)


@pytest.mark.nightly
def test_what_the_group_has_not_read_is_pending(system, tmp_path):
    """With a position before the lost record's input, it may still come."""
    with written(system, lost=[150]):
        settings = {"bootstrap.servers": system.kafka.bootstrap, "group.id": GROUP, "enable.auto.commit": False}
        group = Consumer(settings)
        group.commit(offsets=[TopicPartition(SOURCE, number, 50) for number in range(3)], asynchronous=False)
        group.close()
        code, _, report = audit(tmp_path, *topics(system), "--group", GROUP)
        other = audit(tmp_path, *topics(system), "--group", "nobody")

    assert counts(report)["gaps"] == 0
    gaps = next(finding for finding in report["findings"] if finding["verifier"] == "gaps")
    assert gaps["counts"]["pending"] == 1
    assert code == 1  # what is past the position is there already: `offsets` calls it ahead
    assert counts(report)["offsets"] > 0
    assert (other[0], "never committed" in other[1]) == (2, True)


def test_a_topic_that_is_not_there(system):
    """The message names the existing topics."""
    with written(system), pytest.raises(AuditUsageError, match=rf"no topic 'nowhere' .*{SINK}, {SOURCE}"):
        fix(Topics(system.kafka.bootstrap, ("nowhere",), (SINK,)))


def test_retention_that_moves_while_it_is_read(system, chaos_session, tmp_path):
    """Records that were there when the ends were fixed, and are gone when they are read, by Spark or by this process."""
    asked = Topics(system.kafka.bootstrap, (SOURCE,), (SINK,))
    (tmp_path / "spark").mkdir()
    removed = r"records of audit-source were removed .*partition 1 of audit-source began at 0"
    with written(system):
        fixed = fix(asked)
        expire(system, TopicPartition(SOURCE, 1, 40))

        with pytest.raises(InconclusiveError, match=removed):
            land(chaos_session.spark(), asked, fixed, str(tmp_path / "spark"))
        with SmallLogs(asked, fixed, tmp_path / "few") as few, pytest.raises(InconclusiveError, match=removed):
            few.landed()

    assert list((tmp_path / "spark").iterdir()) == []


def test_few_records_are_landed_as_spark_lands_them(system, chaos_session, tmp_path):
    """Up to the ends that were fixed, without what was aborted; and keys and values that are none, empty, or no text."""
    spark, asked = chaos_session.spark(), Topics(system.kafka.bootstrap, (SOURCE,), (SINK,))
    odd = [("", ""), (None, "no key"), ("deleted", None), (b"\xff\xfe", b"\x00\xe2\x82"), ("ключ", "значение")]
    with written(system, lost=(7,), again=(7, 8)):
        produce(system, SOURCE, odd)
        fixed = fix(asked)
        produce(system, SOURCE, [("late", "late")] * 6)

        land(spark, asked, fixed, str(tmp_path / "spark"))
        with SmallLogs(asked, fixed, tmp_path / "few") as few:
            assert few.landed() == fixed

    for side, records in (("source", RECORDS + len(odd)), ("sink", RECORDS + 1)):
        ours, theirs = (rows(spark, tmp_path / name / side) for name in ("few", "spark"))
        assert (len(ours), ours) == (records, theirs)


def rows(spark, place):
    """The landed rows, in order; texts stay bytes, because not all are UTF-8."""
    texts = ("CAST(key AS BINARY)", "CAST(value AS BINARY)")
    return (
        spark.read.parquet(str(place))
        .orderBy("partition", "offset")
        .selectExpr("partition", "offset", "timestamp_ms", *texts)
        .collect()
    )


def test_retention_before_the_audit(system, tmp_path):
    """Rows of records before the source's begin, and records of rows before the sink's, are neither right nor wrong."""
    with written(system):
        expire(system, TopicPartition(SOURCE, 1, 40), TopicPartition(SINK, 2, 20))
        code, _, report = audit(tmp_path, *topics(system))

    offset_partition_and_rows = ["40", "1", "40"]
    assert (code, report["records"]) == (3, 2 * RECORDS - 60)
    assert {one["verifier"]: (one["verdict"], one["count"], re.findall(r"\d+", one["note"])) for one in report["findings"]} == {
        "duplicates": ("UNKNOWN", 0, offset_partition_and_rows),
        "gaps": ("UNKNOWN", 0, ["20", "2", "20"]),
        "ordering": ("VALID", 0, []),
        "values": ("UNKNOWN", 0, offset_partition_and_rows),
    }


@pytest.mark.parametrize("there", ["source", pytest.param("sink", marks=pytest.mark.nightly)])
def test_a_landing_that_is_there(system, chaos_session, tmp_path, there):
    """Nothing is written beside it, and what is in it stays."""
    (tmp_path / there).mkdir()
    asked = Topics(system.kafka.bootstrap, (SOURCE,), (SINK,))
    with written(system), pytest.raises(AuditUsageError, match=f"{tmp_path}/{there} is there already: name another"):
        land(chaos_session.spark(), asked, fix(asked), str(tmp_path))

    assert list(tmp_path.rglob("*")) == [tmp_path / there]


def test_a_landing_that_cannot_be(system, chaos_session):
    """Hadoop says what it lacks."""
    asked = Topics(system.kafka.bootstrap, (SOURCE,), (SINK,))
    with written(system), pytest.raises(AuditUsageError, match='--landing nowhere://x: No FileSystem for scheme "nowhere"'):
        land(chaos_session.spark(), asked, fix(asked), "nowhere://x")


@contextmanager
def at_work(system, path, scratch):
    """An audit, and its JVM, that have put files there."""
    scratch.mkdir()
    argv = [CHAOS, "audit", "topics", "--model", "identity", "--json", str(path), *topics(system)]
    env = os.environ | {"TMPDIR": str(scratch)}
    with (
        written(system),
        subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=env) as process,
    ):
        jvm = jvm_of(process, scratch, worked_s=3)
        clock.wait_until(lambda: list(scratch.glob("*/blockmgr-*")), within_s=300, reason="Spark's files")
        yield process, jvm


@pytest.mark.usefixtures("hears_ctrl_c")
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)])
def test_an_audit_that_is_interrupted(system, tmp_path, number):
    """Nothing is left, and no exit code that is a verdict."""
    path, scratch = tmp_path / "report.json", tmp_path / "scratch"
    with at_work(system, path, scratch) as (process, jvm):
        process.send_signal(number)
        _, why = process.communicate(timeout=300)
        assert not jvm.is_running()

    assert (process.returncode, path.exists(), list(scratch.iterdir())) == (130, False, [])
    assert "Traceback" not in why


@pytest.mark.usefixtures("hears_ctrl_c")
@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.nightly), signal.SIGTERM])
def test_an_audit_that_is_interrupted_before_its_jvm_is_known(tmp_path, number):
    """The JVM does not notice that its parent is gone, and would live for ever."""
    scratch, logs = tmp_path / "scratch", tmp_path / "logs"
    scratch.mkdir()
    for side in ("source", "sink"):
        (logs / side).mkdir(parents=True)
        (logs / side / "part-0.parquet").write_bytes(b"not looked at")
    argv = [CHAOS, "audit", "topics", "--landed", str(logs), "--model", "identity", "--json", str(tmp_path / "report.json")]
    env = os.environ | {"TMPDIR": str(scratch)}
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=env) as process:
        jvm = jvm_of(process, scratch)
        process.send_signal(number)
        _, why = process.communicate(timeout=300)
        alive = jvm.is_running()
        if alive:
            jvm.kill()

    assert (process.returncode, alive, "Traceback" in why, list(scratch.iterdir())) == (130, False, False, [])


def test_spark_that_is_killed(system, tmp_path):
    """UNKNOWN, with a whole report; none of its files is left."""
    path, scratch = tmp_path / "report.json", tmp_path / "scratch"
    with at_work(system, path, scratch) as (process, jvm):
        jvm.kill()
        code = process.wait(300)

    report = json.loads(path.read_text(encoding="utf-8"))
    assert (code, report["verdict"], report["findings"]) == (3, "UNKNOWN", [])
    assert "JVM has ended" in report["problem"]
    assert list(scratch.iterdir()) == []
