"""Fills a topic in transactions of a hundred records, and aborts every third (the loader's contract: docs/adapters.md).

load.py BOOTSTRAP TOPIC RECORDS COMPRESSION
"""

import json
import sys

from confluent_kafka import Message, Producer

RECORDS = 100
ABORTED = 3
WITHIN_S = 60


def say(**line: object) -> None:
    """One line, in one piece."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Write all records, and say of each whether it is to be read."""
    bootstrap, topic, records, compression = sys.argv[1:]
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": topic, "compression.type": compression, "linger.ms": 100}
    )
    producer.init_transactions(WITHIN_S)
    for number, first in enumerate(range(0, int(records), RECORDS)):
        places: dict[int, int] = {}

        def delivered(_error: object, message: Message, places: dict[int, int] = places) -> None:
            places[int(message.key())] = message.offset()

        producer.begin_transaction()
        for name in range(first, first + RECORDS):
            say(sent=name)
            producer.produce(topic, f"order {name}", str(name), 0, on_delivery=delivered)
        producer.flush(WITHIN_S)
        if (number + 1) % ABORTED == 0:
            producer.abort_transaction(WITHIN_S)
            for name in places:
                say(fail=name, error="its transaction was aborted")
        else:
            producer.commit_transaction(WITHIN_S)
            for name, offset in places.items():
                say(ok=name, partition=0, offset=offset)


if __name__ == "__main__":
    main()
