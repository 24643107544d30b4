"""The same pipeline as tutorials show it: one consumer, one transactional producer, one file in each transaction.

Mistakes that such code really contains are here by name, ``--bug NAME``; ``none`` is the program without them:

    topic     the file's name stands where the topic should, as in Java's ``new ProducerRecord<>(file, row)``, which has two
              texts and compiles; here only the branch for JSON lines has it, and CSV is well
    wakeup    ``except Exception`` comes before the exception that ends the loop, and takes it for an error of the file
    no-retry  after an abort the program ends, and nobody tries the file again
    forget    after an abort the loop goes on with the next record: what mending ``no-retry`` without a ``seek`` makes of it
"""

import argparse
import csv
import json
import signal
import sys
from collections.abc import Iterable
from http.client import HTTPException
from pathlib import PurePosixPath
from urllib.parse import urlsplit
from urllib.request import urlopen

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

WITHIN_S = 10
BUGS = ("none", "topic", "wakeup", "no-retry", "forget")


class WakeUp(Exception):  # noqa: N818 - Kafka's Java client calls it WakeupException
    """Raised once by the next poll after SIGTERM: the loop shall end."""


class Loop:
    """Consume, download, produce, commit: file by file."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Make the clients, and be woken up by SIGTERM."""
        self.options = options
        self.woken = False
        self.producer = Producer(
            {"bootstrap.servers": options.kafka, "transactional.id": options.group, "transaction.timeout.ms": 20_000}
        )
        self.consumer = Consumer(
            {
                "bootstrap.servers": options.kafka,
                "group.id": options.group,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "session.timeout.ms": 6000,
            }
        )
        signal.signal(signal.SIGTERM, lambda _number, _frame: setattr(self, "woken", True))

    def run(self) -> None:
        self.producer.init_transactions(WITHIN_S)
        self.consumer.subscribe([self.options.source], on_assign=lambda _consumer, _partitions: say("started"))
        try:
            while self.goes_on():
                pass
        finally:
            self.consumer.close()

    def goes_on(self) -> bool:
        try:
            self.turn()
        except Exception as error:
            if isinstance(error, WakeUp) and self.options.bug != "wakeup":
                return False
            say("error", why=str(error))
            if self.options.bug == "no-retry":
                raise
        return True

    def turn(self) -> None:
        message = self.poll()
        if message is None:
            return
        self.producer.begin_transaction()
        try:
            self.process(message)
        except (KafkaException, HTTPException, OSError, ValueError):
            self.producer.abort_transaction(WITHIN_S)
            if self.options.bug != "forget":
                self.consumer.seek(TopicPartition(self.options.source, message.partition() or 0, message.offset() or 0))
            raise

    def poll(self) -> Message | None:
        if self.woken:
            self.woken = False
            raise WakeUp
        message = self.consumer.poll(0.1)
        if message is not None and message.error():
            raise KafkaException(message.error())
        return message

    def process(self, message: Message) -> None:
        url = (message.value() or b"").decode()
        name = PurePosixPath(urlsplit(url).path).name
        is_mistaken = self.options.bug == "topic" and name.endswith(".jsonl")
        for row in self.rows(url, name):
            value = json.dumps({**row, "amount": int(row["amount"])}, separators=(",", ":"))
            self.producer.produce(name if is_mistaken else self.options.sink, key=row["transaction"], value=value)
        position = TopicPartition(self.options.source, message.partition() or 0, (message.offset() or 0) + 1)
        self.producer.send_offsets_to_transaction([position], self.consumer.consumer_group_metadata(), WITHIN_S)
        self.producer.commit_transaction(WITHIN_S)

    def rows(self, url: str, name: str) -> Iterable[dict[str, str]]:
        here = url.replace("http://files/", f"http://{self.options.files}/")
        with urlopen(here, timeout=2) as answer:  # noqa: S310 - the URLs are those of the workload
            lines = answer.read().decode().splitlines()
        return map(json.loads, lines) if name.endswith(".jsonl") else csv.DictReader(lines)


def say(event: str, **more: str) -> None:
    """Write one line of JSON, for people and for the test."""
    sys.stdout.write(json.dumps({"event": event, **more}) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Run until SIGTERM."""
    parser = argparse.ArgumentParser(description="urls -> download -> parse -> transactions, as a tutorial has it")
    for name in ("kafka", "source", "sink", "group", "files"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--bug", choices=BUGS, default="none")
    Loop(parser.parse_args()).run()


if __name__ == "__main__":
    main()
