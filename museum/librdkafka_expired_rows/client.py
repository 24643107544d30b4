"""Copies a topic in transactions of a hundred records; an error of a transaction ends the program.

client.py BOOTSTRAP SOURCE SINK GROUP TIMEOUT WORK

TIMEOUT is that of its transactions, in milliseconds; WORK is how many seconds each waits before its positions and its commit.

It runs on Python 3.8 too, for which the wheels of 2020 are.
"""

import json
import sys
from threading import Event

from confluent_kafka import Consumer, Message, Producer, TopicPartition

RECORDS = 100
WITHIN_S = 60


def say(**statement: object) -> None:
    """What the client said of a transaction."""
    sys.stdout.write(json.dumps(statement) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Until it is ended."""
    bootstrap, source, sink, group, timeout, work = sys.argv[1:]
    kafka = {"bootstrap.servers": bootstrap}
    consumer = Consumer({**kafka, "group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"})
    in_time = {"message.timeout.ms": 5000, "retry.backoff.ms": 500, "transaction.timeout.ms": timeout}
    producer = Producer({**kafka, "transactional.id": group, **in_time})
    producer.init_transactions(WITHIN_S)
    consumer.subscribe([source])
    number = 0
    while True:
        batch: list[Message] = []
        while len(batch) < RECORDS:
            batch += [event for event in consumer.consume(RECORDS - len(batch), timeout=1.0) if not event.error()]
        number += 1
        say(begin=number, ids=[record.key().decode() for record in batch])
        producer.begin_transaction()
        for record in batch:
            producer.produce(sink, record.value(), record.key(), 0)
        producer.flush(WITHIN_S)
        Event().wait(float(work))
        positions = [TopicPartition(source, 0, batch[-1].offset() + 1)]
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), WITHIN_S)
        Event().wait(float(work))
        producer.commit_transaction(WITHIN_S)
        say(told="committed", transaction=number)


if __name__ == "__main__":
    main()
