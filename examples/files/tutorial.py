"""The pipeline of files as tutorials show it: one consumer, one transactional producer, one file in each transaction.

Mistakes that such code really contains are here by name, ``--bug NAME``; ``none`` is the program without them:

    topic     the file's name stands where the topic should, as in Java's ``new ProducerRecord<>(file, row)``, which has two
              texts and compiles; here only the branch for JSON lines has it, and CSV is well. It asks for the topic before its
              transaction begins, or the client would wait in it for a topic that is just being made
    wakeup    ``except Exception`` comes before the exception that ends the loop, and takes it for an error of the file
    no-retry  after an abort the program ends, and nobody tries the file again
    forget    after an abort the loop goes on with the next record: what mending ``no-retry`` without a ``seek`` makes of it
"""

import argparse
import csv
import faulthandler
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
        if self.options.bug == "topic":
            self.await_topic(self.topic_of(message))
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
        """Write the rows of a file, and the position behind it, in one transaction.

        librdkafka does not keep the limit of the call for the position when the group's coordinator dies
        (docs/findings/send-offsets-hangs.md of this repository): then the program ends at once, and its successor goes on.
        """
        url = (message.value() or b"").decode()
        name, topic = file_name(url), self.topic_of(message)
        for row in self.rows(url, name):
            value = json.dumps({**row, "amount": int(row["amount"])}, separators=(",", ":"))
            self.producer.produce(topic, key=row["transaction"], value=value)
        position = TopicPartition(self.options.source, message.partition() or 0, (message.offset() or 0) + 1)
        faulthandler.dump_traceback_later(WITHIN_S + 1, exit=True)
        try:
            self.producer.send_offsets_to_transaction([position], self.consumer.consumer_group_metadata(), WITHIN_S)
        finally:
            faulthandler.cancel_dump_traceback_later()
        self.producer.commit_transaction(WITHIN_S)

    def topic_of(self, message: Message) -> str:
        name = file_name((message.value() or b"").decode())
        return name if self.options.bug == "topic" and name.endswith(".jsonl") else self.options.sink

    def await_topic(self, topic: str) -> None:
        """Ask for a topic until its partitions have leaders."""
        for _ in range(WITHIN_S):
            found = self.producer.list_topics(topic, WITHIN_S).topics[topic]
            if not found.error and found.partitions and all(one.leader >= 0 for one in found.partitions.values()):
                return
            self.producer.poll(1)
        raise TimeoutError(f"{topic} has no leaders after {WITHIN_S} s")

    def rows(self, url: str, name: str) -> Iterable[dict[str, str]]:
        here = url.replace("http://files/", f"http://{self.options.files}/")
        with urlopen(here, timeout=2) as answer:  # noqa: S310 - the URLs are those of the workload
            lines = answer.read().decode().splitlines()
        return map(json.loads, lines) if name.endswith(".jsonl") else csv.DictReader(lines)


def file_name(url: str) -> str:
    return PurePosixPath(urlsplit(url).path).name


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
