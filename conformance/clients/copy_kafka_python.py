"""Copies a topic in transactions with kafka-python; see README.md beside this folder."""

import json
import os
import sys
from collections.abc import Collection
from itertools import count

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

RECORDS = 200
SOURCE, SINK = os.environ["SOURCE"], os.environ["SINK"]
KAFKA = {"bootstrap_servers": os.environ["BOOTSTRAP"].split(","), "request_timeout_ms": 10_000}


def say(**statement: object) -> None:
    """Print one line, in one piece."""
    sys.stdout.write(json.dumps(statement) + "\n")
    sys.stdout.flush()


class Said(ConsumerRebalanceListener):  # type: ignore[misc]  # the package is not in the environment of the tests
    """Reports assignments; the consumer finds the offsets itself, so they are null."""

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Report nothing: the rows of these partitions are committed, or their transaction is refused."""

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Report what is read from here on."""
        say(start=[[place.topic, place.partition, None] for place in assigned])


def main() -> None:
    """Copy until it is ended, or until an error that cannot be handled ends it."""
    consumer = KafkaConsumer(
        **KAFKA,
        group_id=os.environ["GROUP"],
        enable_auto_commit=False,
        auto_offset_reset="none",
        isolation_level="read_committed",
        session_timeout_ms=6_000,
        heartbeat_interval_ms=1_000,
        max_poll_records=RECORDS,
    )
    producer = KafkaProducer(**KAFKA, transactional_id=os.environ["TRANSACTIONAL_ID"], transaction_timeout_ms=20_000)
    producer.init_transactions()
    consumer.subscribe([SOURCE], listener=Said())
    say(event="started")
    for number in count(1):
        batch: list[ConsumerRecord] = []
        while not batch:
            batch = [record for records in consumer.poll(timeout_ms=200).values() for record in records]
        say(got=[[record.topic, record.partition, record.offset] for record in batch])
        if not copied(number, batch, consumer, producer):
            rewind(consumer)


def copied(number: int, batch: list[ConsumerRecord], consumer: KafkaConsumer, producer: KafkaProducer) -> bool:
    """Write the records and their positions in one transaction; return False if it was aborted.

    Raises:
        KafkaError: the transaction cannot be aborted, so the error is fatal.
    """
    say(begin=number, ids=[record.key.decode() for record in batch])
    producer.begin_transaction()
    try:
        for record in batch:
            producer.send(SINK, record.value, record.key, partition=record.partition)
        following = {TopicPartition(SOURCE, record.partition): OffsetAndMetadata(record.offset + 1) for record in batch}
        producer.send_offsets_to_transaction(following, consumer.group_metadata())
        producer.commit_transaction()
    except KafkaError as error:
        sys.stderr.write(f"{error!r}\n")
        producer.abort_transaction()
        say(told="aborted", transaction=number)
        return False
    say(told="committed", transaction=number)
    return True


def rewind(consumer: KafkaConsumer) -> None:
    """Read again from the committed positions."""
    for place in consumer.assignment():
        offset = consumer.committed(place)
        say(start=[place.topic, place.partition, offset])
        consumer.seek(place, offset)


if __name__ == "__main__":
    main()
