"""Copies what a reader of committed records is given.

client.py BOOTSTRAP SOURCE SINK GROUP
"""

import sys

from confluent_kafka import Consumer, Producer


def main() -> None:
    """Until it is ended. It runs on Python 3.8 too, for which the wheels of 2020 are."""
    bootstrap, source, sink, group = sys.argv[1:]
    kafka = {"bootstrap.servers": bootstrap}
    reading = {"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    consumer = Consumer({**kafka, **reading, "isolation.level": "read_committed"})
    producer = Producer({**kafka, "enable.idempotence": True})
    consumer.subscribe([source])
    while True:
        records = [event for event in consumer.consume(100, timeout=1.0) if not event.error()]
        for record in records:
            producer.produce(sink, record.value(), record.key(), 0)
        producer.flush()
        if records:
            consumer.commit(message=records[-1], asynchronous=False)


if __name__ == "__main__":
    main()
