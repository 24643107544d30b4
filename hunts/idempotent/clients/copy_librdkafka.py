"""Copies a topic with an idempotent producer of confluent-kafka, which is librdkafka; see README.md beside this folder."""

import os
import sys

from confluent_kafka import Consumer, KafkaException, Message, Producer

RECORDS = 200
KAFKA = {"bootstrap.servers": os.environ["BOOTSTRAP"], "socket.timeout.ms": 3_000}


def main() -> None:
    """Copy until it is ended."""
    consumer = Consumer(
        {**KAFKA, "group.id": os.environ["GROUP"], "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    )
    producer = Producer({**KAFKA, "enable.idempotence": True, "message.timeout.ms": 10_000})
    consumer.subscribe([os.environ["SOURCE"]])
    while True:
        batch = consumer.consume(RECORDS, timeout=0.2)
        for record in batch:
            if record.error():
                raise KafkaException(record.error())
        rest = batch
        while rest:
            rest = refused(producer, rest)
        if batch:
            consumer.commit(asynchronous=False)


def refused(producer: Producer, batch: list[Message]) -> list[Message]:
    """Send records, wait for all answers, and return those that the client gave up."""
    errors: dict[int, object] = {}
    for number, record in enumerate(batch):
        told = lambda error, _message, number=number: errors.update({number: error})  # noqa: E731
        producer.produce(os.environ["SINK"], record.value(), record.key(), record.partition(), on_delivery=told)
    producer.flush()
    left = [number for number, error in errors.items() if error]
    if left:
        sys.stderr.write(f"{len(left)} records are sent again: {errors[left[0]]}\n")
    return [batch[number] for number in sorted(left)]


if __name__ == "__main__":
    main()
