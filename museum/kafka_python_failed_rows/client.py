"""Copies a topic in transactions of a hundred records, and says how each has ended (docs/adapters.md).

client.py BOOTSTRAP SOURCE SINK GROUP released|patched

With `patched` a transaction cannot commit after one of its batches has failed.
"""

import json
import sys

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord
from kafka.producer.transaction_manager import TransactionManager
from kafka.structs import OffsetAndMetadata

RECORDS = 100


def main() -> None:
    """Until it is ended, or until a transaction has failed."""
    bootstrap, source, sink, group, library = sys.argv[1:]
    if library == "patched":
        patch()
    brokers = bootstrap.split(",")
    of_group = {"group_id": group, "enable_auto_commit": False, "auto_offset_reset": "earliest", "session_timeout_ms": 6000}
    consumer = KafkaConsumer(source, bootstrap_servers=brokers, isolation_level="read_committed", **of_group)
    limits = {"request_timeout_ms": 3000, "delivery_timeout_ms": 5000, "retry_backoff_ms": 500}
    producer = KafkaProducer(bootstrap_servers=brokers, transactional_id=group, **limits)
    producer.init_transactions()
    number = 0
    while True:
        batch: list[ConsumerRecord] = []
        while len(batch) < RECORDS:
            for records in consumer.poll(timeout_ms=1000, max_records=RECORDS - len(batch)).values():
                batch += records
        number += 1
        say(begin=number, ids=[record.key.decode() for record in batch])
        producer.begin_transaction()
        for record in batch:
            producer.send(sink, record.value, record.key, partition=0)
        position = OffsetAndMetadata(batch[-1].offset + 1, "", -1)
        producer.send_offsets_to_transaction({TopicPartition(source, 0): position}, consumer.group_metadata())
        producer.commit_transaction()
        say(told="committed", transaction=number)


def say(**line: object) -> None:
    """One line, in one piece (docs/adapters.md)."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def patch() -> None:
    """Let each failed batch of a transaction demand that it is aborted."""
    classify = TransactionManager.classify_batch_error

    def abortable(manager: TransactionManager, *failed: object, **told: object) -> object:
        found = classify(manager, *failed, **told)
        if manager.is_transactional() and found in {manager.ERROR_CLASS_RETRIABLE, manager.ERROR_CLASS_NEEDS_EPOCH_BUMP}:
            return manager.ERROR_CLASS_ABORTABLE
        return found

    TransactionManager.classify_batch_error = abortable


if __name__ == "__main__":
    main()
