"""Copies a topic with an idempotent producer of aiokafka; see README.md beside this folder."""

import asyncio
import os
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord

RECORDS = 200
KAFKA = {"bootstrap_servers": os.environ["BOOTSTRAP"], "request_timeout_ms": 3_000}


async def main() -> None:
    """Copy until it is ended."""
    consumer = AIOKafkaConsumer(
        os.environ["SOURCE"],
        bootstrap_servers=KAFKA["bootstrap_servers"],
        group_id=os.environ["GROUP"],
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    producer = AIOKafkaProducer(**KAFKA, enable_idempotence=True, linger_ms=5)
    async with producer, consumer:
        while True:
            polled = await consumer.getmany(timeout_ms=200, max_records=RECORDS)
            batch = [record for records in polled.values() for record in records]
            rest = batch
            while rest:
                rest = await refused(producer, rest)
            if batch:
                await consumer.commit()


async def refused(producer: AIOKafkaProducer, batch: list[ConsumerRecord]) -> list[ConsumerRecord]:
    """Send records, wait for all answers, and return those that the client gave up."""
    sent = [await producer.send(os.environ["SINK"], record.value, record.key, record.partition) for record in batch]
    answers = await asyncio.gather(*sent, return_exceptions=True)
    errors = [answer for answer in answers if isinstance(answer, BaseException)]
    if errors:
        sys.stderr.write(f"{len(errors)} records are sent again: {errors[0]!r}\n")
    return [record for record, answer in zip(batch, answers, strict=True) if isinstance(answer, BaseException)]


if __name__ == "__main__":
    asyncio.run(main())
