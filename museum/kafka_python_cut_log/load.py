"""Fills a topic, and reports outcomes of its first records alone: a leader that dies takes acknowledged ones with it.

load.py BOOTSTRAP TOPIC RECORDS RATE
"""

import json
import sys
from threading import Event

from confluent_kafka import Message, Producer

WITHIN_S = 120
REPORTED = 100


def say(**line: object) -> None:
    """One line, in one piece (docs/adapters.md)."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def delivered(error: object, message: Message) -> None:
    """Report an early record."""
    number = int(message.key())
    if not error and number < REPORTED:
        say(ok=number, partition=0, offset=message.offset())


def main() -> None:
    """Send all records, one after the other."""
    bootstrap, topic, records, rate = sys.argv[1:]
    producer = Producer({"bootstrap.servers": bootstrap, "acks": 1, "message.timeout.ms": 1000 * WITHIN_S, "linger.ms": 50})
    for number in range(int(records)):
        say(sent=number)
        producer.produce(topic, f"order {number}", str(number), 0, on_delivery=delivered)
        producer.poll(0)
        Event().wait(1 / float(rate))
    producer.flush(WITHIN_S)


if __name__ == "__main__":
    main()
