"""Fills a topic with orders, and says what became of each: the contract of a loader (docs/adapters.md) in Python.

python3 load_orders.py BOOTSTRAP TOPIC RECORDS RATE [FORGOTTEN]

Of FORGOTTEN records it says that they were acknowledged, and it never sends them: a control.
"""

import json
import sys
from functools import partial

from confluent_kafka import KafkaError, Message, Producer

REFUSED = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD, KafkaError.TOPIC_AUTHORIZATION_FAILED)


def say(**statement: object) -> None:
    """One line, in one piece."""
    sys.stdout.write(json.dumps(statement) + "\n")
    sys.stdout.flush()


def reported(number: int, error: KafkaError | None, message: Message) -> None:
    """Say what the client knows. After a timeout the record may be there all the same, so nothing is said."""
    if error is None:
        offset = message.offset()
        say(ok=number, partition=message.partition(), offset=offset if offset is not None and offset >= 0 else None)
    elif error.code() in REFUSED:
        say(fail=number, error=error.str())


def main() -> None:
    """Send all, and wait for the answers."""
    bootstrap, topic, records, rate, *more = sys.argv[1:]
    forgotten = int(more[0]) if more else 0
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 10})
    for number in range(int(records)):
        producer.poll(1 / float(rate))  # about that fast: it returns earlier when there are answers
        say(sent=number)
        if number < forgotten:
            say(ok=number, partition=0, offset=None)
            continue
        order = json.dumps({"order": number, "amount": number % 1000})
        producer.produce(topic, order, f"customer-{number % 97}", on_delivery=partial(reported, number))
    producer.flush(120)


if __name__ == "__main__":
    main()
