"""Copies a topic in transactions of a hundred records. Each process has three transactional ids of its own, which take turns.

client.py BOOTSTRAP SOURCE SINK GROUP
"""

import os
import sys
from itertools import cycle

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord
from kafka.structs import OffsetAndMetadata

RECORDS = 100
NO_EPOCH = -1
IN_TIME = {"transaction_timeout_ms": 20000}


def main() -> None:
    """Until it is ended."""
    bootstrap, source, sink, group = sys.argv[1:]
    brokers, place = bootstrap.split(","), TopicPartition(source, 0)
    of_group = {"group_id": group, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
    consumer = KafkaConsumer(bootstrap_servers=brokers, isolation_level="read_committed", **of_group)
    consumer.assign([place])
    names = [f"{group}-{os.getpid()}-{number}" for number in range(3)]
    producers = [KafkaProducer(bootstrap_servers=brokers, transactional_id=name, **IN_TIME) for name in names]
    for producer in producers:
        producer.init_transactions()
    for producer in cycle(producers):
        batch: list[ConsumerRecord] = []
        while len(batch) < RECORDS:
            for records in consumer.poll(timeout_ms=1000, max_records=RECORDS - len(batch)).values():
                batch += records
        producer.begin_transaction()
        for record in batch:
            producer.send(sink, record.value, record.key, partition=0)
        producer.flush()
        producer.send_offsets_to_transaction({place: OffsetAndMetadata(batch[-1].offset + 1, "", NO_EPOCH)}, group)
        producer.commit_transaction()


if __name__ == "__main__":
    main()
