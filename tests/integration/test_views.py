"""Views of a real broker, reader and transactions, landed and judged by the verifiers that need them."""

from contextlib import contextmanager

import pytest
from confluent_kafka import Producer

from chaos.cluster import protocol
from chaos.cluster.protocol import Batch
from chaos.common import clock
from chaos.judging import landing
from verifiers import VERIFIERS, evidence
from verifiers.base import Verdict

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

TOPIC = "views"
VERIFY = ("atomicity", "stability", "ledger")
LEDGER = "id,outcome,partition,offset\n0,ok,0,0\n3,ok,0,1\n1,ok,1,0\n6,fail,0,\n9,unknown,,\n"


def transactional(system, name):
    """A producer that has begun a transaction."""
    own = {"transactional.id": name, "transaction.timeout.ms": 600_000, "linger.ms": 50}
    producer = Producer({"bootstrap.servers": system.kafka.bootstrap, **own})
    producer.init_transactions(120)
    producer.begin_transaction()
    return producer


def send(producer, partition, *ids):
    """Write the squares of ids."""
    for id_ in ids:
        producer.produce(TOPIC, key=str(id_), value=str(id_ * id_), partition=partition)
    assert producer.flush(120) == 0


def marked(system, hw):
    """Wait for a marker: a transaction has ended for its producer before its partitions know of it."""
    clock.wait_until(lambda: system.kafka.settled_offsets(TOPIC, 3)[0].hw == hw, within_s=300, reason=f"the marker before {hw}")


@contextmanager
def written(system):
    """Partition 0: committed, aborted and open rows; partition 1: a row in no transaction; partition 2: nothing."""
    system.kafka.create([TOPIC], 3)
    committed, aborted, left = (transactional(system, f"views-{number}") for number in range(3))
    send(committed, 0, 0, 3)
    committed.commit_transaction(120)
    marked(system, 3)
    send(aborted, 0, 6)
    aborted.abort_transaction(120)
    marked(system, 5)
    send(Producer({"bootstrap.servers": system.kafka.bootstrap}), 1, 1)
    send(left, 0, 9)
    yield
    left.abort_transaction(120)
    system.kafka.delete([TOPIC])


def test_transactions_are_read_from_the_log_and_judged(system, chaos_session, tmp_path):
    """Batches and markers are those that were written, both views are landed, and an open transaction is told as one."""
    spark = chaos_session.spark()
    (tmp_path / "ledger.csv").write_text(LEDGER, encoding="utf-8")
    with written(system):
        offsets = system.kafka.settled_offsets(TOPIC, 3)
        found = list(
            protocol.read_batches(
                system.kafka.bootstrap, TOPIC, {number: (ends.low, ends.hw) for number, ends in offsets.items()}
            )
        )
        expected = spark.createDataFrame(
            [(0, 0, "0", True, None)], "id long, partition int, value string, required boolean, position long"
        )
        log = landing.RunLog("source", offsets, expected, VERIFY, ledger=tmp_path / "ledger.csv")
        landing.land(spark, landing.topic_of_run(system.kafka.bootstrap, TOPIC), log, tmp_path)
    producers = {batch.producer_id: number for number, batch in enumerate(found)}
    assert [(batch.first_offset, batch.last_offset, batch.transactional, batch.control) for batch in found] == [
        (0, 1, True, None),
        (2, 2, True, "COMMIT"),
        (3, 3, True, None),
        (4, 4, True, "ABORT"),
        (5, 5, True, None),
        (0, 0, False, None),
    ]
    assert len(producers) == 4

    log = evidence.load(spark, tmp_path, "source")
    findings = {name: VERIFIERS[name].check(log) for name in VERIFY}

    assert (log.bounds[0].lso, log.bounds[0].hw) == (5, 6)
    assert sorted(row["key"] for row in log.observed.collect()) == ["0", "1", "3"]
    assert sorted(row["key"] for row in log.uncommitted.collect()) == ["0", "1", "3", "6", "9"]
    assert {name: (finding.verdict, finding.count) for name, finding in findings.items()} == dict.fromkeys(
        VERIFY, (Verdict.UNKNOWN, 0)
    )
    assert {kind: count for kind, count in findings["atomicity"].counts.items() if count} == {
        "aborted": 1,
        "open": 1,
        "not ended": 1,
    }
    assert {kind: count for kind, count in findings["ledger"].counts.items() if count} == {"absent": 1}


def test_a_log_is_read_in_many_requests(system):
    """Each begins where the last whole batch ended; what lies below the begin or above the end is cut away."""
    system.kafka.create([TOPIC], 3)
    producer = Producer({"bootstrap.servers": system.kafka.bootstrap})
    for _ in range(20):
        for id_ in range(10):
            producer.produce(TOPIC, key=str(id_), value="x", partition=1)
        assert producer.flush(120) == 0

    found = list(protocol.read_batches(system.kafka.bootstrap, TOPIC, {0: (0, 0), 1: (3, 195)}, most_bytes=100))
    system.kafka.delete([TOPIC])

    assert [offset for batch in found for offset in range(batch.first_offset, batch.last_offset + 1)] == list(range(3, 195))
    assert found[0] == Batch(1, 3, 9, -1, -1, transactional=False, control=None, timestamp_ms=found[0].timestamp_ms)
