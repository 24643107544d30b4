"""Requests that the proxy answers in the broker's place: a client of librdkafka reads the error, and goes on."""

from contextlib import closing

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from chaos.cluster.rules import ANSWERABLE, Rule
from chaos.common import clock

pytestmark = pytest.mark.integration

SOURCE, SINK, GROUP = "answers-in", "answers-out", "answers"
CODES = {  # each is one that the client has to try again after
    "Produce": 6,  # NOT_LEADER_OR_FOLLOWER
    "Fetch": 6,
    "Metadata": 5,  # LEADER_NOT_AVAILABLE
    "FindCoordinator": 15,  # COORDINATOR_NOT_AVAILABLE
    "Heartbeat": 27,  # REBALANCE_IN_PROGRESS
    "InitProducerId": 14,  # COORDINATOR_LOAD_IN_PROGRESS
    "AddPartitionsToTxn": 51,  # CONCURRENT_TRANSACTIONS
    "AddOffsetsToTxn": 51,
    "EndTxn": 51,
    "TxnOffsetCommit": 14,
}


@pytest.fixture
def answering(system):
    """A system whose proxies answer the first two requests of every kind from the application, and the names of the rules."""
    system.kafka.create([SOURCE, SINK], 1)
    with closing(Consumer({"bootstrap.servers": system.bootstrap("app"), "group.id": "before"})) as consumer:
        consumer.list_topics(SOURCE, timeout=30)  # the brokers are known on a link of each
    links = [link.name for link in system.links if link.name.startswith("app->")]
    named = {
        api: system.rules.arm(api, Rule(api, "request", links, "answer", times=2, error_code=CODES[api])) for api in ANSWERABLE
    }
    yield system, named
    system.rules.disarm(*named.values())
    system.kafka.delete([SOURCE, SINK])


def test_a_client_goes_on_after_every_answer(answering):
    """One record is consumed, and another produced in one transaction with the offset; both are there exactly once."""
    system, named = answering
    servers = {"bootstrap.servers": system.bootstrap("app"), "log_level": 0}
    producer = Producer({**servers, "transactional.id": GROUP})
    consumer = Consumer(
        {
            **servers,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 300,
        }
    )
    with closing(consumer):
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce(SOURCE, b"one")
        producer.commit_transaction(60)
        consumer.subscribe([SOURCE])
        (record,) = consumer.consume(1, timeout=60)
        producer.begin_transaction()
        producer.produce(SINK, record.value())
        ends = [TopicPartition(SOURCE, 0, record.offset() + 1)]
        producer.send_offsets_to_transaction(ends, consumer.consumer_group_metadata(), 60)
        producer.commit_transaction(60)

        def answered():
            consumer.poll(0.1)  # heartbeats and rebalances go on
            return {
                api: [interception.outcome for interception in system.rules.interceptions(own)] for api, own in named.items()
            }

        def all_met():
            """A client on a busy machine is slow: it may have left a connection before it was answered."""
            return all(len(one) == 2 and "answered" in one and {*one} <= {"answered", "closed"} for one in answered().values())

        clock.wait_until(all_met, within_s=300, reason="answers", seen=answered)
        met = {api: system.rules.interceptions(own) for api, own in named.items()}
        told = {api: {one.error_code for one in those if one.outcome == "answered"} for api, those in met.items()}
        assert told == {api: {code} for api, code in CODES.items()}
        assert [one.offset for one in consumer.committed([TopicPartition(SOURCE, 0)], timeout=30)] == [1]
    assert sink(servers) == [b"one"]


def sink(servers):
    """All of its rows."""
    with closing(Consumer({**servers, "group.id": "reader", "auto.offset.reset": "earliest"})) as reader:
        reader.assign([TopicPartition(SINK, 0, 0)])
        found = [*reader.consume(1, timeout=60), *reader.consume(1, timeout=3)]
    return [one.value() for one in found]
