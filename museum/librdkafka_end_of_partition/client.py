"""Copies a topic, and commits the position that the client says when it is told to end and has come to the end of the log.

client.py BOOTSTRAP SOURCE SINK GROUP
"""

import signal
import sys

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition


def main() -> None:
    """Until it is told to end; then the rest of the log is copied first."""
    bootstrap, source, sink, group = sys.argv[1:]
    kafka = {"bootstrap.servers": bootstrap}
    reading = {"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest", "enable.partition.eof": True}
    consumer, producer = Consumer({**kafka, **reading}), Producer({**kafka, "enable.idempotence": True})
    place = TopicPartition(source, 0)
    consumer.subscribe([source])
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: told.append(number))
    at_end = False
    while not (told and at_end):
        for event in consumer.consume(1, timeout=1.0):
            at_end = event.error() is not None
            if not at_end:
                producer.produce(sink, event.value(), event.key(), 0)
                producer.flush()
                consumer.commit(message=event, asynchronous=False)
            elif event.error().code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - its name
                raise KafkaException(event.error())
    consumer.commit(offsets=consumer.position([place]), asynchronous=False)
    consumer.close()


if __name__ == "__main__":
    main()
