"""Copies a topic, a hundred records at most at a time.

client.py BOOTSTRAP SOURCE SINK GROUP released|patched

With `patched` a consumer starts from the whole committed position, with its leader epoch.
"""

import sys
from contextlib import suppress

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.consumer.subscription_state import SubscriptionState
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

RECORDS, PARTITION = 100, 1


def main() -> None:
    """Until it is ended."""
    bootstrap, source, sink, group, library = sys.argv[1:]
    if library == "patched":
        patch()
    brokers = bootstrap.split(",")
    of_group = {"group_id": group, "enable_auto_commit": False, "auto_offset_reset": "earliest", "session_timeout_ms": 6000}
    consumer = KafkaConsumer(source, bootstrap_servers=brokers, **of_group)
    producer = KafkaProducer(bootstrap_servers=brokers, acks="all", enable_idempotence=True)
    while True:
        for records in consumer.poll(timeout_ms=1000, max_records=RECORDS).values():
            for record in records:
                producer.send(sink, record.value, record.key, partition=PARTITION)
            producer.flush()
            with suppress(KafkaError):  # its coordinator may be dead: the next commit will tell
                consumer.commit()


def patch() -> None:
    """Seek the whole position that was fetched from the group: the library takes its offset alone."""
    fetch, seek = ConsumerCoordinator.fetch_committed_offsets_async, SubscriptionState.seek
    committed: dict[TopicPartition, OffsetAndMetadata] = {}

    async def fetch_and_keep(
        coordinator: ConsumerCoordinator, partitions: set[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        found: dict[TopicPartition, OffsetAndMetadata] = await fetch(coordinator, partitions, timeout_ms=timeout_ms)
        committed.update(found)
        return found

    def seek_whole(state: SubscriptionState, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        whole = committed.pop(partition, None)
        seek(state, partition, whole if whole and whole.offset == offset else offset)

    ConsumerCoordinator.fetch_committed_offsets_async = fetch_and_keep
    SubscriptionState.seek = seek_whole


if __name__ == "__main__":
    main()
