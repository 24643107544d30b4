"""Fills a topic in transactions, and aborts every third of them: a loader of one's own (docs/adapters.md).

python3 load_ones.py BOOTSTRAP TOPIC RECORDS RATE

Keys are 0, 1, 2, …, and each value is 1, which is its own square.
"""

import json
import sys
from functools import partial

from confluent_kafka import KafkaError, Message, Producer

TOGETHER = 100


def say(statement: dict[str, object]) -> None:
    """One line, in one piece."""
    sys.stdout.write(json.dumps(statement) + "\n")
    sys.stdout.flush()


def reported(offsets: dict[int, int | None], number: int, error: KafkaError | None, message: Message) -> None:
    """Remember where it is. Nothing is said yet: whether it may be read, the end of its transaction decides."""
    if error is None:
        offsets[number] = message.offset()


def main() -> None:
    """One transaction after the other. An error ends it, and what has no answer then is of unknown outcome."""
    bootstrap, topic, records, rate = sys.argv[1:]
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-loader"})
    producer.init_transactions(60)
    for first in range(0, int(records), TOGETHER):
        numbers, offsets = range(first, min(first + TOGETHER, int(records))), dict[int, int | None]()
        producer.begin_transaction()
        for number in numbers:
            producer.poll(1 / float(rate))  # about that fast: it returns earlier when there are answers
            say({"sent": number})
            producer.produce(topic, "1", str(number), 0, on_delivery=partial(reported, offsets, number))
        producer.flush(60)
        if first // TOGETHER % 3 == 1:
            producer.abort_transaction(60)
            answers = [{"fail": number, "error": "aborted"} for number in numbers]
        else:
            producer.commit_transaction(60)
            answers = [{"ok": number, "partition": 0, "offset": offsets.get(number)} for number in numbers]
        for answer in answers:
            say(answer)


if __name__ == "__main__":
    main()
