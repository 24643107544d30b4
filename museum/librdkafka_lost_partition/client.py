"""Copies a topic in transactions of a hundred records; an error of a transaction ends the program.

client.py BOOTSTRAP SOURCE SINK GROUP TRANSACTIONAL_ID

It runs on Python 3.8 too, for which the wheels of 2020 are.
"""

import sys

from confluent_kafka import Consumer, Message, Producer, TopicPartition

RECORDS = 100
WITHIN_S = 60


def main() -> None:
    """Until it is ended."""
    bootstrap, source, sink, group, name = sys.argv[1:]
    kafka = {"bootstrap.servers": bootstrap}
    in_group = {"group.id": group, "session.timeout.ms": 6000, "max.poll.interval.ms": 10000}
    consumer = Consumer({**kafka, **in_group, "enable.auto.commit": False, "auto.offset.reset": "earliest"})
    producer = Producer({**kafka, "transactional.id": name, "transaction.timeout.ms": 120000})
    producer.init_transactions(WITHIN_S)
    consumer.subscribe([source])
    while True:
        batch: list[Message] = []
        while len(batch) < RECORDS:
            batch += [event for event in consumer.consume(RECORDS - len(batch), timeout=1.0) if not event.error()]
        producer.begin_transaction()
        for record in batch:
            producer.produce(sink, record.value(), record.key(), 0)
        producer.flush(WITHIN_S)
        positions = [TopicPartition(source, 0, batch[-1].offset() + 1)]
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), WITHIN_S)
        producer.commit_transaction(WITHIN_S)


if __name__ == "__main__":
    main()
