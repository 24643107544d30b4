"""Copies a topic in transactions with confluent-kafka, the Python client on librdkafka; see README.md beside this folder."""

import json
import os
import sys
from collections.abc import Callable
from itertools import count

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

RECORDS = 200
WITHIN_S = 30.0
SOURCE, SINK = os.environ["SOURCE"], os.environ["SINK"]
PROTOCOL = os.environ.get("GROUP_PROTOCOL", "classic")  # with "consumer", brokers have the session's timeout (KIP-848)
GROUP = {"group.protocol": PROTOCOL, **({"session.timeout.ms": 6_000} if PROTOCOL == "classic" else {})}
KAFKA = {"bootstrap.servers": os.environ["BOOTSTRAP"], "socket.timeout.ms": 10_000}


def say(**statement: object) -> None:
    """Print one line, in one piece."""
    sys.stdout.write(json.dumps(statement) + "\n")
    sys.stdout.flush()


def assigned(_consumer: Consumer, places: list[TopicPartition]) -> None:
    """Report the assignment; the consumer finds the offsets itself, so they are null."""
    say(start=[[place.topic, place.partition, None] for place in places])


def main() -> None:
    """Copy until it is ended, or until an error that cannot be handled ends it."""
    consumer = Consumer(
        {
            **KAFKA,
            "group.id": os.environ["GROUP"],
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            **GROUP,
        }
    )
    own = {"transactional.id": os.environ["TRANSACTIONAL_ID"], "transaction.timeout.ms": 20_000}
    producer = Producer({**KAFKA, **own})
    producer.init_transactions(WITHIN_S)
    consumer.subscribe([SOURCE], on_assign=assigned)
    say(event="started")
    for number in count(1):
        batch: list[Message] = []
        while not batch:
            batch = consumer.consume(RECORDS, timeout=0.2)
        for record in batch:
            if record.error():
                raise KafkaException(record.error())
        say(got=[[record.topic(), record.partition(), record.offset()] for record in batch])
        if not copied(number, batch, consumer, producer):
            rewind(consumer)


def copied(number: int, batch: list[Message], consumer: Consumer, producer: Producer) -> bool:
    """Write the records and their positions in one transaction; return False if it was aborted.

    Raises:
        KafkaException: the error is fatal.
    """
    say(begin=number, ids=[record.key().decode() for record in batch])
    producer.begin_transaction()
    try:
        for record in batch:
            producer.produce(SINK, record.value(), record.key(), record.partition())
        following = {record.partition(): record.offset() + 1 for record in batch}
        places = [TopicPartition(SOURCE, partition, offset) for partition, offset in following.items()]
        retried(lambda: producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), WITHIN_S))
        retried(lambda: producer.commit_transaction(WITHIN_S))
    except KafkaException as error:
        if not error.args[0].txn_requires_abort():
            raise
        retried(lambda: producer.abort_transaction(WITHIN_S))
        say(told="aborted", transaction=number)
        return False
    say(told="committed", transaction=number)
    return True


def retried(call: Callable[[], None]) -> None:
    """Repeat a call for as long as its error is one that can be retried."""
    while True:
        try:
            return call()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def rewind(consumer: Consumer) -> None:
    """Read again from the committed positions."""
    for place in consumer.committed(consumer.assignment(), WITHIN_S):
        say(start=[place.topic, place.partition, place.offset if place.offset >= 0 else None])  # None: there is no position
        consumer.seek(place)


if __name__ == "__main__":
    main()
