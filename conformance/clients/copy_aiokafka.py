"""Copies a topic in transactions with aiokafka; see README.md beside this folder."""

import asyncio
import json
import os
import sys
from collections.abc import Collection
from itertools import count

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError

RECORDS = 200
SOURCE, SINK, GROUP = os.environ["SOURCE"], os.environ["SINK"], os.environ["GROUP"]
KAFKA = {"bootstrap_servers": os.environ["BOOTSTRAP"], "request_timeout_ms": 10_000}


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


async def main() -> None:
    """Copy until it is ended, or until an error that cannot be handled ends it."""
    consumer = AIOKafkaConsumer(
        **KAFKA,
        group_id=GROUP,
        enable_auto_commit=False,
        auto_offset_reset="none",
        isolation_level="read_committed",
        session_timeout_ms=6_000,
        heartbeat_interval_ms=1_000,
    )
    producer = AIOKafkaProducer(**KAFKA, transactional_id=os.environ["TRANSACTIONAL_ID"], transaction_timeout_ms=20_000)
    async with producer:
        consumer.subscribe([SOURCE], listener=Said())
        async with consumer:
            say(event="started")
            for number in count(1):
                batch: list[ConsumerRecord] = []
                while not batch:
                    polled = await consumer.getmany(timeout_ms=200, max_records=RECORDS)
                    batch = [record for records in polled.values() for record in records]
                say(got=[[record.topic, record.partition, record.offset] for record in batch])
                if not await copied(number, batch, producer):
                    await rewind(consumer)


async def copied(number: int, batch: list[ConsumerRecord], producer: AIOKafkaProducer) -> bool:
    """Write the records and their positions in one transaction; return False if it was aborted.

    Raises:
        AssertionError: the transaction cannot be aborted, so the error is fatal.
    """
    say(begin=number, ids=[record.key.decode() for record in batch])
    await producer.begin_transaction()
    try:
        for record in batch:
            await producer.send(SINK, record.value, record.key, record.partition)
        following = {TopicPartition(SOURCE, record.partition): record.offset + 1 for record in batch}
        await producer.send_offsets_to_transaction(following, GROUP)
        await producer.commit_transaction()
    except KafkaError as error:
        sys.stderr.write(f"{error!r}\n")
        await producer.abort_transaction()
        say(told="aborted", transaction=number)
        return False
    say(told="committed", transaction=number)
    return True


async def rewind(consumer: AIOKafkaConsumer) -> None:
    """Read again from the committed positions."""
    for place in consumer.assignment():
        offset = await consumer.committed(place)
        say(start=[place.topic, place.partition, offset])
        consumer.seek(place, offset)


if __name__ == "__main__":
    asyncio.run(main())
