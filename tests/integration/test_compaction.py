"""An audit of transactions on real brokers that have thinned out one of the logs it reads: what is gone raises no alarm."""

from contextlib import closing

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from chaos.common.clock import monotonic_s
from chaos.scenario.system import KafkaSpec, SystemSpec
from tests.integration.test_transactions import BATCH, ONE_EACH, SINK, Copier, audit, filled, wrong

pytestmark = [pytest.mark.integration, pytest.mark.nightly, pytest.mark.timeout(1500)]

CLEANER = {"log.cleaner.enable": "true", "log.cleaner.backoff.ms": "500", "log.cleaner.dedupe.buffer.size": "4000000"}
SOON = {"segment.ms": "1000", "min.cleanable.dirty.ratio": "0", "delete.retention.ms": "1000"}
COMPACT = {"cleanup.policy": "compact"}
RECORDS = 9000
_COMPACTED_WITHIN_S, _READ_WITHIN_S = 240, 120


@pytest.fixture(scope="module")
def compacting(chaos_session):
    """Brokers that compact, which those of scenarios do not, unless they are told to."""
    return chaos_session.system(SystemSpec(kafka=KafkaSpec(config=CLEANER)))


@pytest.fixture
def compacts(compacting):
    """Have a topic compacted as soon as it can be; those that the brokers need get their settings back."""
    changed = []

    def compact(topic):
        changed.extend({topic} - {SINK})
        alter(compacting.kafka, topic, AlterConfigOpType.SET)

    yield compact
    for topic in changed:
        alter(compacting.kafka, topic, AlterConfigOpType.DELETE)


def alter(kafka, topic, how):
    entries = [ConfigEntry(name, value, incremental_operation=how) for name, value in SOON.items()]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    for future in kafka.admin.incremental_alter_configs([resource]).values():
        future.result(60)


def records_in(kafka, topic):
    """How many are left in a topic of three partitions, whatever became of their transactions."""
    settings = {
        "bootstrap.servers": kafka.bootstrap,
        "group.id": "counts",
        "isolation.level": "read_uncommitted",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topic, partition) for partition in range(3)])
        found, ended, until_s = 0, set(), monotonic_s() + _READ_WITHIN_S
        while len(ended) < 3:
            assert monotonic_s() < until_s, f"{topic} was not read to its end in {_READ_WITHIN_S} s"
            for message in consumer.consume(500, timeout=1):
                if message.error():
                    ended.add(message.partition())
                else:
                    found += 1
    return found


@pytest.mark.parametrize("topic", [SINK, "__consumer_offsets", "__transaction_state"])
def test_nothing_is_wrong_with_what_was_compacted_away(compacting, compacts, tmp_path, topic):
    """Rows that cannot be judged any more are named. Only anomalies since then are found."""
    group = f"compacts-{topic}"
    with filled(compacting, RECORDS, COMPACT) as kafka, closing(Copier(kafka, group)) as copier:
        copier.begin()
        compacts(topic)
        until_s, before, now = monotonic_s() + _COMPACTED_WITHIN_S, 0, records_in(kafka, topic)
        while now >= before:
            assert monotonic_s() < until_s, f"{topic} was not compacted in {_COMPACTED_WITHIN_S} s: {now} records"
            copier.copy(0)
            before, now = now, records_in(kafka, topic)

        code, said, finding = audit(kafka, tmp_path, copier.group, *ONE_EACH)

        assert (code, finding["verdict"], finding["count"]) == (3, "UNKNOWN", 0), said
        assert "removed" in finding["note"]
        copier.copy(1)
        copier.copy(2)  # after which the marker of the copy before is written
        place = kafka.offsets(SINK, 3)[1].hw
        copier.copy(1, rows=BATCH + 3)  # the last with these keys, so none of it is compacted away
        copier.copy(2)
        code, said, finding = audit(kafka, tmp_path, copier.group, *ONE_EACH)
        assert code == 1, said
        assert wrong(finding) == [("surplus", 1, place)]
