"""Copies a topic in transactions, and prints what its client tells it: the contract of docs/adapters.md in Python.

python3 copy_topic.py BOOTSTRAP SOURCE SINK GROUP [AMOUNT]

With AMOUNT it copies only the orders that come to so much, and passes over the others.
"""

import faulthandler
import json
import sys

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

SEND_WITHIN_S = 15


def say(**statement: object) -> None:
    """One line, in one piece."""
    sys.stdout.write(json.dumps(statement) + "\n")
    sys.stdout.flush()


def assigned(_consumer: Consumer, places: list[TopicPartition]) -> None:
    """The consumer finds the offsets itself, so they are null."""
    say(start=[[place.topic, place.partition, None] for place in places])


def main() -> None:
    """Copy until it is ended. An error ends it, and whoever started it starts it again."""
    bootstrap, source, sink, group, *more = sys.argv[1:]
    amount = int(more[0]) if more else None
    kafka = {"bootstrap.servers": bootstrap}
    position = {"enable.auto.commit": False, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    consumer = Consumer({**kafka, **position, "group.id": group, "session.timeout.ms": 6000})
    producer = Producer({**kafka, "transactional.id": group})
    producer.init_transactions(60)
    consumer.subscribe([source], on_assign=assigned)
    say(event="started")
    number = 0
    while True:
        batch = consumer.consume(200, timeout=0.2)
        for record in batch:
            if record.error():
                raise KafkaException(record.error())
        if batch:
            number += 1
            say(got=[[record.topic(), record.partition(), record.offset()] for record in batch])
            large = [record for record in batch if amount is None or json.loads(record.value())["amount"] >= amount]
            copy(number, batch, large, consumer, producer, sink)


def copy(number: int, batch: list[Message], kept: list[Message], consumer: Consumer, producer: Producer, sink: str) -> None:
    """Write what is kept of these records, and the positions behind all of them, in one transaction.

    If that fails nothing is told, so the outcome is unknown.

    librdkafka does not keep the limit of the call for the positions when the group's coordinator dies
    (docs/findings/send-offsets-hangs.md of this repository): then the program ends at once, and its successor goes on.
    """
    say(begin=number, ids=[record.key().decode() for record in kept])
    producer.begin_transaction()
    for record in kept:
        producer.produce(sink, record.value(), record.key(), record.partition())
    places = [TopicPartition(record.topic(), record.partition(), record.offset() + 1) for record in batch]
    furthest = {place.partition: place for place in places}
    faulthandler.dump_traceback_later(SEND_WITHIN_S + 1, exit=True)
    try:
        producer.send_offsets_to_transaction(list(furthest.values()), consumer.consumer_group_metadata(), SEND_WITHIN_S)
    finally:
        faulthandler.cancel_dump_traceback_later()
    producer.commit_transaction(60)
    say(told="committed", transaction=number)


if __name__ == "__main__":
    main()
