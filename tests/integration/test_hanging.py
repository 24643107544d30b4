"""Open transactions on real brokers, landed and judged: one that its producer may still end, and ones that nothing ends."""

from contextlib import contextmanager
from functools import partial

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from kafka.protocol.producer import ProduceRequest
from kafka.record.default_records import DefaultRecordBatchBuilder

from chaos.cluster import protocol
from chaos.common import clock
from chaos.judging import landing
from verifiers import VERIFIERS, evidence
from verifiers.base import Finding, Verdict

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

TOPIC, NAME, NOBODY = "hanging", "hanging-1", 987_654_321
TIMEOUT_MS, LONGEST_MS = 600_000, 900_000  # the second is the brokers' transaction.max.timeout.ms, by default
NONE = {"hanging": 0, "ongoing": 0, "young": 0}


@pytest.fixture
def producer(system):
    """A producer that has committed one record, in partition 0 of a new topic."""
    system.kafka.create([TOPIC], 3)
    own = {"transactional.id": NAME, "transaction.timeout.ms": TIMEOUT_MS, "log_level": 0}
    producer = Producer({"bootstrap.servers": system.kafka.bootstrap, **own})
    producer.init_transactions(120)
    begin(producer, 0)
    producer.commit_transaction(120)
    clock.wait_until(lambda: ends(system)[0].lso == 2, within_s=300, reason="the marker behind the record")
    yield producer
    system.kafka.delete([TOPIC])


def begin(producer, partition):
    """A transaction of one record."""
    producer.begin_transaction()
    producer.produce(TOPIC, key="0", value="0", partition=partition)
    assert producer.flush(120) == 0


def ends(system):
    return system.kafka.settled_offsets(TOPIC, 3)


def judged(system, spark, folder):
    """As a run does it: the ends are fixed, the topic is landed, and the verifier reads Parquet; twice, as `chaos judge`."""
    expected = spark.createDataFrame([], ", ".join(f"{name} {kind}" for name, kind in evidence.EXPECTED.items()))
    log = landing.RunLog("sink", ends(system), expected, verify=("hanging",))
    landing.land(spark, landing.topic_of_run(system.kafka.bootstrap, TOPIC), log, folder)
    finding, again = (VERIFIERS["hanging"].check(evidence.load(spark, folder, "sink")) for _ in range(2))
    assert finding == again
    return finding


@contextmanager
def unverified(system):
    """Brokers append what no coordinator knows of, as before KIP-890."""

    def alter(how, value):
        for number in system.kafka.broker_ids:  # librdkafka has no name for all of them
            entry = ConfigEntry("transaction.partition.verification.enable", value, incremental_operation=how)
            broker = ConfigResource(ResourceType.BROKER, str(number), incremental_configs=[entry])
            system.kafka.admin.incremental_alter_configs([broker])[broker].result(60)

    alter(AlterConfigOpType.SET, "false")
    try:
        yield
    finally:
        alter(AlterConfigOpType.DELETE, "")


def write_late(system, partition, producer_id, epoch, timestamp_ms):
    """A record in a transaction that was never begun; Produce v11 does not begin it on the way (that of v12 does)."""
    builder = DefaultRecordBatchBuilder(2, 0, True, producer_id, epoch, 0, 4096)  # noqa: FBT003 - it is transactional
    builder.append(0, timestamp_ms, b"1", b"1", [])
    of_partition = ProduceRequest.TopicProduceData.PartitionProduceData(index=partition, records=bytes(builder.build()))
    data = [ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[of_partition])]
    address = system.kafka.address(system.kafka.leader(TOPIC, partition))

    def refusal():
        request = ProduceRequest(version=11, transactional_id=NAME, acks=-1, timeout_ms=60_000, topic_data=data)
        return protocol._ask(address, request, 60).responses[0].partition_responses[0].error_code

    # until a broker knows that it need not ask the coordinator
    clock.wait_until(lambda: not refusal(), within_s=300, reason="a late write", every_s=0.2, seen=refusal)


@pytest.mark.usefixtures("producer")
def test_a_log_without_open_transactions_is_valid(system, chaos_session, tmp_path):
    """Only partition 0 holds anything."""
    finding = judged(system, chaos_session.spark(), tmp_path)

    assert finding == Finding("hanging", "sink", Verdict.VALID, 0, 1, NONE)


def test_a_transaction_that_its_producer_may_still_end_does_not_hang(system, producer, chaos_session, tmp_path):
    """Its coordinator will abort it at the latest when it times out."""
    begin(producer, 2)

    finding = judged(system, chaos_session.spark(), tmp_path)
    producer.abort_transaction(120)

    assert (finding.verdict, finding.count, finding.checked) == (Verdict.UNKNOWN, 0, 2)
    assert (finding.counts, finding.examples) == (NONE | {"ongoing": 1}, ())
    note = str(finding.note)
    assert "an open transaction hides the end of partition 2 (read to offset 0 of 1); open transactions, ongoing at" in note
    assert " in state Ongoing, producer " in note


@pytest.mark.usefixtures("producer")
def test_what_no_coordinator_knows_of_hangs(system, chaos_session, tmp_path):
    """A late write of a producer that has committed, one of a producer that nobody knows, and such a one that is young."""
    first, *_ = protocol.read_batches(system.kafka.bootstrap, TOPIC, {0: (0, 2)})
    now_ms = clock.now_ms()
    write = partial(write_late, system)
    with unverified(system):
        write(1, first.producer_id, first.producer_epoch, now_ms - TIMEOUT_MS)
        write(2, NOBODY, 5, now_ms - LONGEST_MS)
        write(0, NOBODY, 5, now_ms)
        clock.wait_until(lambda: clock.now_ms() > now_ms, within_s=10, reason="a millisecond beyond the timeouts")
        finding = judged(system, chaos_session.spark(), tmp_path)

    assert (finding.verdict, finding.count, finding.checked) == (Verdict.INVALID, 2, 3)
    assert finding.counts == {"hanging": 2, "ongoing": 0, "young": 1}
    known, unknown = finding.examples
    assert (known.anomaly, known.partition, known.offset, known.timestamp_ms) == ("hanging", 1, 0, now_ms - TIMEOUT_MS)
    assert known.words.startswith(f"producer {first.producer_id} epoch {first.producer_epoch}: open for 6")
    assert known.words.endswith(
        f" s, timeout 600 s; its coordinator has '{NAME}' in state CompleteCommit, producer {first.producer_id} "
        f"epoch {first.producer_epoch}"
    )
    assert (unknown.partition, unknown.offset) == (2, 0)
    assert " s, timeout 900 s; no coordinator " in unknown.words
    assert "partition 0 offset 2" in str(finding.note)
