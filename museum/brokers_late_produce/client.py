"""Copies a topic in transactions of a hundred records; one that fails is aborted.

client.py BOOTSTRAP SOURCE SINK GROUP again|end

With "again" an aborted batch is copied again; with "end" the program ends by the error.
"""

import sys

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

RECORDS = 100
WITHIN_S = 60


def batch_of(consumer: Consumer) -> list[Message]:
    """The next hundred records."""
    batch: list[Message] = []
    while len(batch) < RECORDS:
        events = consumer.consume(RECORDS - len(batch), timeout=1.0)
        batch += [event for event in events if not event.error()]
    return batch


def main() -> None:
    """Until it is ended."""
    bootstrap, source, sink, group, after_abort = sys.argv[1:]
    kafka = {"bootstrap.servers": bootstrap}
    consumer = Consumer({**kafka, "group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"})
    writing = {"transactional.id": group, "linger.ms": 200, "socket.timeout.ms": 2000, "message.timeout.ms": 6000}
    producer = Producer({**kafka, **writing})
    producer.init_transactions(WITHIN_S)
    consumer.subscribe([source])
    while True:
        batch = batch_of(consumer)
        committed = False
        while not committed:
            producer.begin_transaction()
            for record in batch:
                producer.produce(sink, record.value(), record.key(), 0)
            producer.flush(WITHIN_S)
            try:
                positions = [TopicPartition(source, 0, batch[-1].offset() + 1)]
                producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), WITHIN_S)
                producer.commit_transaction(WITHIN_S)
                committed = True
            except KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    raise
                producer.abort_transaction(WITHIN_S)
                if after_abort == "end":
                    raise


if __name__ == "__main__":
    main()
