"""Copies a topic in transactions of a hundred records.

client.py BOOTSTRAP SOURCE SINK GROUP released|patched

With `patched` the library keeps a request whose coordinator cannot be reached.
"""

import sys

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.consumer.fetcher import ConsumerRecord
from kafka.errors import KafkaConnectionError
from kafka.net.compat import KafkaNetClient
from kafka.structs import OffsetAndMetadata

RECORDS = 100


def main() -> None:
    """Until it is ended."""
    bootstrap, source, sink, group, library = sys.argv[1:]
    if library == "patched":
        patch()
    brokers = bootstrap.split(",")
    of_group = {"group_id": group, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
    consumer = KafkaConsumer(source, bootstrap_servers=brokers, isolation_level="read_committed", **of_group)
    producer = KafkaProducer(bootstrap_servers=brokers, transactional_id=group, transaction_timeout_ms=15_000)
    producer.init_transactions()
    while True:
        batch: list[ConsumerRecord] = []
        while len(batch) < RECORDS:
            for records in consumer.poll(timeout_ms=1000, max_records=RECORDS - len(batch)).values():
                batch += records
        producer.begin_transaction()
        for record in batch:
            producer.send(sink, record.value, record.key, partition=0)
        position = OffsetAndMetadata(batch[-1].offset + 1, "", -1)
        producer.send_offsets_to_transaction({TopicPartition(source, 0): position}, consumer.group_metadata())
        producer.commit_transaction()


def patch() -> None:
    """Answer False for a connection that failed, as for one that is not ready in time: the sender then keeps the request."""
    await_ready = KafkaNetClient.await_ready

    def is_ready(client: KafkaNetClient, node: object, timeout_ms: float = 30_000) -> bool:
        try:
            return bool(await_ready(client, node, timeout_ms))
        except KafkaConnectionError:
            return False

    KafkaNetClient.await_ready = is_ready


if __name__ == "__main__":
    main()
