"""Copies a topic with an idempotent producer of kafka-python; see README.md beside this folder."""

import os
import sys

from kafka import KafkaConsumer, KafkaProducer
from kafka.consumer.fetcher import ConsumerRecord
from kafka.errors import KafkaError

RECORDS = 200
KAFKA = {"bootstrap_servers": os.environ["BOOTSTRAP"].split(","), "request_timeout_ms": 3_000}


def main() -> None:
    """Copy until it is ended."""
    consumer = KafkaConsumer(
        os.environ["SOURCE"],
        bootstrap_servers=KAFKA["bootstrap_servers"],
        group_id=os.environ["GROUP"],
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_poll_records=RECORDS,
    )
    producer = KafkaProducer(**KAFKA, enable_idempotence=True, linger_ms=5, delivery_timeout_ms=10_000)
    while True:
        batch = [record for records in consumer.poll(timeout_ms=200).values() for record in records]
        rest = batch
        while rest:
            rest = refused(producer, rest)
        if batch:
            consumer.commit()


def refused(producer: KafkaProducer, batch: list[ConsumerRecord]) -> list[ConsumerRecord]:
    """Send records, wait for all answers, and return those that the client gave up."""
    sent = [producer.send(os.environ["SINK"], record.value, record.key, partition=record.partition) for record in batch]
    left, why = [], None
    for record, answer in zip(batch, sent, strict=True):
        try:
            answer.get(timeout=60)
        except KafkaError as error:
            left.append(record)
            why = why or error
    if left:
        sys.stderr.write(f"{len(left)} records are sent again: {why!r}\n")
    return left


if __name__ == "__main__":
    main()
