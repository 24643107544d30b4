"""Copies a topic in transactions of a hundred records, in two halves: the second is sent when the first is acknowledged.

client.py BOOTSTRAP SOURCE SINK GROUP

From the second batch on, each is tried twice: the first transaction is aborted, the second one committed. One that must be
aborted is done again; any other error ends the program.
"""

import sys

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

RECORDS = 100
HALF = RECORDS // 2
WITHIN_S = 60


def batch_of(consumer: Consumer) -> list[Message]:
    """The next hundred records."""
    batch: list[Message] = []
    while len(batch) < RECORDS:
        events = consumer.consume(RECORDS - len(batch), timeout=1.0)
        batch += [event for event in events if not event.error()]
    return batch


def write(producer: Producer, sink: str, batch: list[Message]) -> None:
    """Begin a transaction with the rows of a batch."""
    producer.begin_transaction()
    for half in (batch[:HALF], batch[HALF:]):
        for record in half:
            producer.produce(sink, record.value(), record.key(), 0)
        producer.flush(WITHIN_S)


def commit(producer: Producer, consumer: Consumer, batch: list[Message]) -> bool:
    """Commit the rows with their positions; false if the transaction had to be aborted."""
    positions = [TopicPartition(batch[-1].topic(), 0, batch[-1].offset() + 1)]
    try:
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), WITHIN_S)
        producer.commit_transaction(WITHIN_S)
    except KafkaException as error:
        if not error.args[0].txn_requires_abort():
            raise
        producer.abort_transaction(WITHIN_S)
        return False
    return True


def main() -> None:
    """Until it is ended, or an error ends it."""
    bootstrap, source, sink, group = sys.argv[1:]
    kafka = {"bootstrap.servers": bootstrap}
    consumer = Consumer({**kafka, "group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"})
    in_time = {"socket.timeout.ms": 2000, "message.timeout.ms": 8000, "transaction.timeout.ms": 10000}
    producer = Producer({**kafka, **in_time, "transactional.id": group, "linger.ms": 200})  # half a batch is one request
    producer.init_transactions(WITHIN_S)
    consumer.subscribe([source])
    is_first = True
    while True:
        batch = batch_of(consumer)
        if not is_first:
            write(producer, sink, batch)
            producer.abort_transaction(WITHIN_S)
        is_first = False
        is_done = False
        while not is_done:
            write(producer, sink, batch)
            is_done = commit(producer, consumer, batch)


if __name__ == "__main__":
    main()
