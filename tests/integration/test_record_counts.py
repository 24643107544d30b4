"""Records of an output are counted on real brokers while aborted transactions take offsets, one after another."""

import pytest
from confluent_kafka import IsolationLevel, Producer

from chaos.common import clock
from chaos.contract.base import Topic
from chaos.engine.record_counts import Counted

pytestmark = pytest.mark.integration

SINK = Topic("counted-sink", 1)
FOR_S = 8.0  # longer than a reader may be behind before it counts as late
ABORTED = 30  # at least, however slow the machine is


def test_transactions_that_are_aborted_are_never_counted(system):
    """No end of the partition is told meanwhile, since no fetch is empty."""
    system.kafka.create([SINK.name], 1)
    counting = Counted(system.kafka.cluster, SINK)
    try:
        producer = Producer({"bootstrap.servers": system.kafka.bootstrap, "transactional.id": "counted"})
        producer.init_transactions(60)
        write(producer, 100)
        producer.commit_transaction(60)
        clock.wait_until(lambda: look(system, counting)[1] == 100, within_s=60, reason="the records to be counted")

        looks, until_s = [], clock.monotonic_s() + FOR_S
        while clock.monotonic_s() < until_s or len(looks) < ABORTED:
            write(producer, 1)
            producer.abort_transaction(60)
            looks.append(look(system, counting))
    finally:
        counting.close()
        system.kafka.delete([SINK.name])

    assert looks[-1][0] > 150, "their rows and markers take offsets"
    assert {counted for _, counted in looks} == {100}


def write(producer, many):
    """So many records in a transaction that stays open."""
    producer.begin_transaction()
    for number in range(many):
        producer.produce(SINK.name, value=str(number))
    assert producer.flush(60) == 0


def look(system, counting):
    """End of the output, and what is counted below it."""
    end = system.kafka.end(*SINK, IsolationLevel.READ_COMMITTED)
    return end, counting.records(end)
