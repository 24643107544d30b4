"""Copies a topic, a hundred records at most at a time.

client.py BOOTSTRAP SOURCE SINK GROUP
"""

import sys
from contextlib import suppress

from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError

RECORDS, PARTITION = 100, 1


def main() -> None:
    """Until it is ended."""
    bootstrap, source, sink, group = sys.argv[1:]
    brokers = bootstrap.split(",")
    of_group = {"group_id": group, "enable_auto_commit": False, "auto_offset_reset": "earliest", "session_timeout_ms": 60000}
    consumer = KafkaConsumer(source, bootstrap_servers=brokers, **of_group)
    producer = KafkaProducer(bootstrap_servers=brokers, acks="all", enable_idempotence=True)
    while True:
        for records in consumer.poll(timeout_ms=1000, max_records=RECORDS).values():
            for record in records:
                producer.send(sink, record.value, record.key, partition=PARTITION)
            producer.flush()
            with suppress(KafkaError):  # its coordinator may be dead: the next commit will tell
                consumer.commit()


if __name__ == "__main__":
    main()
