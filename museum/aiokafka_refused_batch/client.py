"""Copies a topic in transactions of a hundred records, and leaves it to the transaction to notice a row that was refused.

client.py BOOTSTRAP SOURCE SINK GROUP ignored|awaited

With `awaited` the program looks at the outcome of each row before it commits.
"""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition

RECORDS = 100


async def batches(consumer: AIOKafkaConsumer, source: str) -> list[ConsumerRecord]:
    """The next hundred records."""
    place = TopicPartition(source, 0)
    batch: list[ConsumerRecord] = []
    while len(batch) < RECORDS:
        found = await consumer.getmany(place, timeout_ms=1000, max_records=RECORDS - len(batch))
        batch += found.get(place, [])
    return batch


async def main() -> None:
    """Until it is ended, or an error ends it."""
    bootstrap, source, sink, group, futures = sys.argv[1:]
    consumer = AIOKafkaConsumer(
        source, bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest"
    )
    # All rows of a transaction are in one request.
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=group, linger_ms=200)
    async with producer, consumer:
        while True:
            batch = await batches(consumer, source)
            async with producer.transaction():
                sent = [await producer.send(sink, key=one.key, value=one.value, partition=0) for one in batch]
                if futures == "awaited":
                    await asyncio.gather(*sent)
                await producer.send_offsets_to_transaction({TopicPartition(source, 0): batch[-1].offset + 1}, group)


if __name__ == "__main__":
    asyncio.run(main())
