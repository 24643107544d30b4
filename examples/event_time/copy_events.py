"""Copies a topic in transactions, and gives each row the time of its event, not the time at which it is written.

python3 copy_events.py BOOTSTRAP SOURCE SINK GROUP

The events are an hour old, and not in the order of their times: neighbours are up to six minutes apart.
"""

import faulthandler
import json
import sys

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

HOUR_MS = 3_600_000
MINUTE_MS = 60_000
DISORDER = 7
SEND_WITHIN_S = 15


def event_ms(record: Message) -> int:
    """When it happened, as a device would have said it: by its own clock, an hour before it was sent, in no order."""
    _, sent_ms = record.timestamp()
    return sent_ms - HOUR_MS - MINUTE_MS * (record.offset() % DISORDER)


def main() -> None:
    """Copy until it is ended. An error ends it, and whoever started it starts it again."""
    bootstrap, source, sink, group = sys.argv[1:]
    kafka = {"bootstrap.servers": bootstrap}
    position = {"enable.auto.commit": False, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    consumer = Consumer({**kafka, **position, "group.id": group, "session.timeout.ms": 6000})
    producer = Producer({**kafka, "transactional.id": group})
    producer.init_transactions(60)
    consumer.subscribe([source])
    sys.stdout.write(json.dumps({"event": "started"}) + "\n")
    sys.stdout.flush()
    while True:
        batch = consumer.consume(100, timeout=0.2)
        for record in batch:
            if record.error():
                raise KafkaException(record.error())
        if batch:
            copy(batch, consumer, producer, sink)


def copy(batch: list[Message], consumer: Consumer, producer: Producer, sink: str) -> None:
    """Write these records, and the positions behind them, in one transaction.

    librdkafka does not keep the limit of the call for the positions when the group's coordinator dies
    (docs/findings/send-offsets-hangs.md of this repository): then the program ends at once, and its successor goes on.
    """
    producer.begin_transaction()
    for record in batch:
        producer.produce(sink, record.value(), record.key(), record.partition(), timestamp=event_ms(record))
    places = [TopicPartition(record.topic(), record.partition(), record.offset() + 1) for record in batch]
    furthest = {place.partition: place for place in places}
    faulthandler.dump_traceback_later(SEND_WITHIN_S + 1, exit=True)
    try:
        producer.send_offsets_to_transaction(list(furthest.values()), consumer.consumer_group_metadata(), SEND_WITHIN_S)
    finally:
        faulthandler.cancel_dump_traceback_later()
    producer.commit_transaction(60)


if __name__ == "__main__":
    main()
