"""An application on aiokafka as it may stand in any repository: it reads numbers, squares them, and writes them.

python3 square.py --kafka BOOTSTRAP --source TOPIC --sink TOPIC --group GROUP

With `--guarantee exactly_once` the rows of a batch and its positions are one transaction; with `at_least_once` the positions
are committed when the rows are acknowledged. With `--rebalance wait` the group can take partitions away between two batches
only; `--rebalance any-time` is what aiokafka does by itself. What the client says is printed for the test (docs/adapters.md).
"""

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator, Collection

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, ConsumerRecord, TopicPartition

SILENCE_MS = 3000


def say(**statement: object) -> None:
    """Print a line of the contract; nothing else is written between its two ends."""
    sys.stdout.write(json.dumps(statement) + "\n")
    sys.stdout.flush()


class Partitions(ConsumerRebalanceListener):  # type: ignore[misc] # aiokafka has no types
    """Says which partitions this instance gets, and makes the group wait for a batch under way if it is told to."""

    def __init__(self, *, waits: bool) -> None:
        """`between_batches` is held by whoever must not be disturbed."""
        self.between_batches = asyncio.Lock()
        self.rebalances = 0
        self._waits = waits

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:  # noqa: ARG002
        """The consumer joins its group again when this returns; only then it asks where it is to read on."""
        if self._waits:
            async with self.between_batches:
                self.rebalances += 1

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        for place in assigned:
            say(start=[place.topic, place.partition, None])


class Application:
    """One consumer and one producer."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Nothing is connected yet."""
        self.options = options
        self.partitions = Partitions(waits=options.rebalance == "wait")
        self.transactional = options.guarantee == "exactly_once"
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=options.kafka,
            group_id=options.group,
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            session_timeout_ms=options.session_timeout_ms,
            heartbeat_interval_ms=500,
        )
        self.producer = AIOKafkaProducer(
            bootstrap_servers=options.kafka,
            enable_idempotence=True,
            transactional_id=(options.transactional_id or options.group) if self.transactional else None,
        )

    async def run(self) -> None:
        """Until it is ended, or an error ends it: whoever started it starts it again."""
        self.consumer.subscribe([self.options.source], listener=self.partitions)
        async with self.producer, self.consumer:
            say(event="started")
            number = 0
            async for batch, rebalances in self.batches():
                async with self.partitions.between_batches:
                    if rebalances == self.partitions.rebalances:  # otherwise these records are read again
                        number += 1
                        await (self.in_transaction(number, batch) if self.transactional else self.at_least_once(batch))

    async def batches(self) -> AsyncIterator[tuple[list[ConsumerRecord], int]]:
        """Batches of the size that was asked for, or less where nothing came for a while; and the rebalances before each."""
        batch: list[ConsumerRecord] = []
        rebalances = self.partitions.rebalances
        while True:
            room = self.options.batch_records - len(batch)
            found = await self.consumer.getmany(timeout_ms=SILENCE_MS, max_records=room)
            records = [record for of_partition in found.values() for record in of_partition]
            if records:
                say(got=[[record.topic, record.partition, record.offset] for record in records])
            if rebalances != self.partitions.rebalances:
                batch, rebalances = [], self.partitions.rebalances
            batch += records
            if len(batch) == self.options.batch_records or (batch and not records):
                yield batch, rebalances
                batch, rebalances = [], self.partitions.rebalances

    async def in_transaction(self, number: int, batch: list[ConsumerRecord]) -> None:
        say(begin=number, ids=[record.key.decode() for record in batch])
        async with self.producer.transaction():
            await self.write(batch)
            await self.producer.send_offsets_to_transaction(positions(batch), self.options.group)
        say(told="committed", transaction=number)

    async def at_least_once(self, batch: list[ConsumerRecord]) -> None:
        await self.write(batch)
        await self.consumer.commit(positions(batch))

    async def write(self, batch: list[ConsumerRecord]) -> None:
        """Return when all rows are acknowledged."""
        sent = [
            await self.producer.send(
                self.options.sink, key=record.key, value=str(int(record.value) ** 2).encode(), partition=record.partition
            )
            for record in batch
        ]
        await asyncio.gather(*sent)


def positions(batch: list[ConsumerRecord]) -> dict[TopicPartition, int]:
    """Where the next reader begins in each partition."""
    return {TopicPartition(record.topic, record.partition): record.offset + 1 for record in batch}


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="square the numbers of a topic")
    for name in ("kafka", "source", "sink", "group"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--transactional-id", help="each instance needs its own; the default is the group")
    parser.add_argument("--guarantee", choices=["exactly_once", "at_least_once"], default="exactly_once")
    parser.add_argument("--rebalance", choices=["any-time", "wait"], default="wait")
    parser.add_argument("--batch-records", type=int, default=100)
    parser.add_argument("--session-timeout-ms", type=int, default=10_000)
    return parser.parse_args()


async def main() -> None:
    """Begin in the loop that aiokafka needs."""
    await Application(parsed()).run()


if __name__ == "__main__":
    asyncio.run(main())
