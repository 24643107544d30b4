"""Copies a topic in transactions of a hundred records; an error of a transaction ends the program.

client.py BOOTSTRAP SOURCE SINK GROUP TRANSACTIONAL_ID
"""

import sys

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord
from kafka.structs import OffsetAndMetadata

RECORDS = 100
NO_EPOCH = -1
IN_GROUP = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 2000, "max_poll_interval_ms": 10000}
PATIENT = {"request_timeout_ms": 60000, "transaction_timeout_ms": 120000}


def main() -> None:
    """Until it is ended."""
    bootstrap, source, sink, group, name = sys.argv[1:]
    brokers = bootstrap.split(",")
    of_group = {"group_id": group, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
    consumer = KafkaConsumer(source, bootstrap_servers=brokers, isolation_level="read_committed", **of_group, **IN_GROUP)
    producer = KafkaProducer(bootstrap_servers=brokers, transactional_id=name, **PATIENT)
    producer.init_transactions()
    while True:
        batch: list[ConsumerRecord] = []
        while len(batch) < RECORDS:
            for records in consumer.poll(timeout_ms=1000, max_records=RECORDS - len(batch)).values():
                batch += records
        producer.begin_transaction()
        for record in batch:
            producer.send(sink, record.value, record.key, partition=0)
        producer.flush()
        member = consumer.group_metadata() if hasattr(consumer, "group_metadata") else group  # since 3.0
        position = OffsetAndMetadata(batch[-1].offset + 1, "", NO_EPOCH)
        producer.send_offsets_to_transaction({TopicPartition(source, 0): position}, member)
        producer.commit_transaction()


if __name__ == "__main__":
    main()
