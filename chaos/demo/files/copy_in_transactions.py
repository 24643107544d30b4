"""Copies a topic in transactions: the rows of a batch and the position behind it are committed together, or not at all.

python3 copy_in_transactions.py BOOTSTRAP SOURCE SINK GROUP
"""

import sys

from confluent_kafka import Consumer, KafkaException, Producer

BATCH = 100


def main() -> None:
    """Copy batch after batch, until the process is killed."""
    bootstrap, source, sink, group = sys.argv[1:]
    kafka = {"bootstrap.servers": bootstrap}
    reading = {"isolation.level": "read_committed", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    member = {"group.id": group, "group.instance.id": "copier"}  # a successor takes this member's place at once
    consumer = Consumer({**kafka, **reading, **member})
    producer = Producer({**kafka, "transactional.id": group, "linger.ms": 1000})  # a batch is one request, sent by flush
    producer.init_transactions()  # aborts what a predecessor with this id has left open
    consumer.subscribe([source])
    while True:
        records = consumer.consume(BATCH, timeout=60)
        if not records:
            continue
        producer.begin_transaction()
        for record in records:
            if record.error():
                raise KafkaException(record.error())
            producer.produce(sink, record.value(), record.key(), record.partition(), headers=record.headers())
        producer.flush()  # the demo kills this program here: the rows are in the log, and no reader sees them yet
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata())
        producer.commit_transaction()


if __name__ == "__main__":
    main()
