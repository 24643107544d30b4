"""A program as it may stand in any repository: it copies a topic with confluent-kafka, and knows nothing of a test.

python3 copy_topic.py BOOTSTRAP SOURCE SINK GROUP

The positions are committed when the rows are acknowledged: it is at-least-once, and writes rows again if it dies in between.
"""

import sys

from confluent_kafka import Consumer, KafkaException, Producer


def main() -> None:
    """Copy until it is ended."""
    bootstrap, source, sink, group = sys.argv[1:]
    kafka = {"bootstrap.servers": bootstrap}
    consumer = Consumer({**kafka, "group.id": group, "enable.auto.commit": False, "isolation.level": "read_committed"})
    producer = Producer({**kafka, "enable.idempotence": True})
    consumer.subscribe([source])
    while True:
        records = consumer.consume(500, timeout=0.2)
        for record in records:
            if record.error():
                raise KafkaException(record.error())
            producer.produce(sink, record.value(), record.key(), record.partition(), headers=record.headers())
        if records:
            producer.flush()
            consumer.commit(asynchronous=False)


if __name__ == "__main__":
    main()
