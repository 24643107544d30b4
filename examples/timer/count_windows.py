"""Counts the records of each second of the clock, and writes each count once, in a transaction with the positions.

python3 count_windows.py BOOTSTRAP SOURCE SINK GROUP

A timer closes a window, not a record: where nothing was read in a second, a count of 0 is written all the same. The positions
that are committed with it are those that were committed before.
"""

import faulthandler
import json
import sys
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

WINDOW_S = 1.0
SEND_WITHIN_S = 15


def main() -> None:
    """Count until it is ended. An error ends it, and whoever started it starts it again."""
    bootstrap, source, sink, group = sys.argv[1:]
    kafka = {"bootstrap.servers": bootstrap}
    position = {"enable.auto.commit": False, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    consumer = Consumer({**kafka, **position, "group.id": group, "session.timeout.ms": 6000})
    producer = Producer({**kafka, "transactional.id": group})
    producer.init_transactions(60)
    consumer.subscribe([source])
    sys.stdout.write(json.dumps({"event": "started"}) + "\n")
    sys.stdout.flush()
    furthest: dict[int, TopicPartition] = {}
    count, closes_s = 0, time.monotonic() + WINDOW_S  # noqa: TID251 - it knows nothing of chaos
    while True:
        for record in consumer.consume(200, timeout=0.05):
            if record.error():
                raise KafkaException(record.error())
            count += 1
            furthest[record.partition()] = TopicPartition(record.topic(), record.partition(), record.offset() + 1)
        if time.monotonic() >= closes_s:  # noqa: TID251 - likewise
            write(count, list(furthest.values()), consumer, producer, sink)
            count, closes_s = 0, closes_s + WINDOW_S


def write(count: int, places: list[TopicPartition], consumer: Consumer, producer: Producer, sink: str) -> None:
    """One row, and the positions behind all that was counted, in one transaction.

    librdkafka does not keep the limit of the call for the positions when the group's coordinator dies
    (docs/findings/send-offsets-hangs.md of this repository): then the program ends at once, and its successor goes on.
    """
    producer.begin_transaction()
    producer.produce(sink, json.dumps({"records": count}), f"{time.time():.0f}", 0)  # noqa: TID251 - likewise
    faulthandler.dump_traceback_later(SEND_WITHIN_S + 1, exit=True)
    try:
        producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), SEND_WITHIN_S)
    finally:
        faulthandler.cancel_dump_traceback_later()
    producer.commit_transaction(60)


if __name__ == "__main__":
    main()
