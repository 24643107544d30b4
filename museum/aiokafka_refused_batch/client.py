"""Copies a topic in transactions of a hundred records, and leaves it to the transaction to notice a row that was refused.

client.py BOOTSTRAP SOURCE SINK GROUP ignored|awaited released|patched

With `awaited` the program looks at the outcome of each row before it commits. With `patched` the library does it at the commit.
"""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.producer.message_accumulator import BatchBuilder, MessageAccumulator, MessageBatch
from aiokafka.producer.sender import Sender
from aiokafka.producer.transaction_manager import TransactionResult

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
    bootstrap, source, sink, group, futures, library = sys.argv[1:]
    if library == "patched":
        patch()
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


def patch() -> None:
    """Let a transaction fail at its commit if one of its batches has failed; 0.14.0 tells only the futures of the rows."""
    append, end = MessageAccumulator._append_batch, Sender._do_txn_commit  # noqa: SLF001 - the defect is in there
    failed: list[BaseException] = []

    def remember(batch: "asyncio.Future[object]") -> None:
        error = batch.exception()
        if error is not None:
            failed.append(error)

    def append_batch(accumulator: MessageAccumulator, builder: BatchBuilder, tp: TopicPartition) -> MessageBatch:
        batch = append(accumulator, builder, tp)
        batch.future.add_done_callback(remember)
        return batch

    async def do_txn_commit(sender: Sender, result: TransactionResult) -> None:
        await sender._message_accumulator.flush_for_commit()  # noqa: SLF001
        errors, failed[:] = list(failed), []
        if errors and result == TransactionResult.COMMIT:
            sender._txn_manager.error_transaction(errors[0])  # noqa: SLF001
        else:
            await end(sender, result)

    MessageAccumulator._append_batch = append_batch  # noqa: SLF001
    Sender._do_txn_commit = do_txn_commit  # noqa: SLF001


if __name__ == "__main__":
    asyncio.run(main())
