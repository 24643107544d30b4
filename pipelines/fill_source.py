"""FillSourceTopic: the integers 0, 1, 2, … as decimal strings, key and value alike, at a steady rate, with a ledger.

Id ``i`` goes to partition ``i mod P``. The ledger (CSV ``id,outcome,partition,offset``) says of every id that was handed to the
producer what became of it:

    ok       acknowledged, at this offset
    fail     refused for good: it is not in the log
    unknown  no answer was had, or none in time: it may be in the log, once
"""

import argparse
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from confluent_kafka import KafkaError, Message, Producer
from pyspark.sql import DataFrame, SparkSession

from pipelines.base import Command, Endpoints, Topics
from pipelines.messages import say

LEDGER = "ledger.csv"
_HEADER = "id,outcome,partition,offset\n"
_DELIVERY_TIMEOUT_MS = 60_000
_STOP_WITHIN_S = 10.0
_UNKNOWN = frozenset(
    {
        KafkaError._MSG_TIMED_OUT,  # noqa: SLF001 - librdkafka's own errors have public names of this form
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._PURGE_INFLIGHT,  # noqa: SLF001
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)


@dataclass(frozen=True, slots=True)
class FillSource:
    """The loader.

    Attributes:
        records: how many ids.
        rate_per_s: records per second.
        idempotence: False lets a retry write twice (``enable.idempotence=false``); acks stay at all.
    """

    records: int
    rate_per_s: float
    idempotence: bool = True

    def command(self, endpoints: Endpoints, topics: Topics, folder: Path) -> Command:
        """The process; the ledger is ``<folder>/ledger.csv``."""
        options = {
            "--bootstrap": endpoints.kafka,
            "--topic": topics.source,
            "--partitions": str(topics.partitions),
            "--records": str(self.records),
            "--rate": str(self.rate_per_s),
            "--ledger": str(folder / LEDGER),
        }
        flags = () if self.idempotence else ("--no-idempotence",)
        return Command((sys.executable, "-m", "pipelines.fill_source", *(word for pair in options.items() for word in pair), *flags))

    def expected(self, spark: SparkSession, folder: Path, partitions: int) -> DataFrame:
        """What the ledger demands of the source.

        Returns:
            id long, partition int, value string, required boolean (False when the outcome is unknown), position long (null).
        """
        ledger = spark.read.csv(str(folder / LEDGER), header=True, schema="id long, outcome string, partition int, offset long")
        return ledger.where("outcome <> 'fail'").selectExpr(
            "id",
            f"CAST(id % {partitions} AS INT) AS partition",
            "CAST(id AS STRING) AS value",
            "outcome = 'ok' AS required",
            "CAST(NULL AS BIGINT) AS position",
        )


def outcome(error: KafkaError | None) -> str:
    """What a delivery report means."""
    if error is None:
        return "ok"
    return "unknown" if error.code() in _UNKNOWN else "fail"


def due(records: int, rate_per_s: float, elapsed_s: float) -> int:
    """How many records should have been sent by now."""
    return min(records, int(elapsed_s * rate_per_s) + 1)


class Loader:
    """Sends, and keeps the ledger."""

    def __init__(self, producer: Producer, topic: str, partitions: int, ledger: TextIO) -> None:
        """Begin the ledger with its header."""
        self._producer = producer
        self._topic = topic
        self._partitions = partitions
        self._ledger = ledger
        self._unreported: set[int] = set()
        self.stopped = False
        ledger.write(_HEADER)

    def run(self, records: int, rate_per_s: float) -> None:
        """Send ids at the rate, until all are sent or `stopped` is set; then wait for every report."""
        began_s = time.monotonic()  # noqa: TID251 - pipelines know nothing of chaos.clock
        for number in self._paced(records, rate_per_s, began_s):
            self._send(number)
        self._producer.flush(_STOP_WITHIN_S if self.stopped else 1.2 * _DELIVERY_TIMEOUT_MS / 1000)
        for number in sorted(self._unreported):
            self._ledger.write(f"{number},unknown,,\n")
        self._ledger.flush()

    def _paced(self, records: int, rate_per_s: float, began_s: float) -> Iterator[int]:
        sent = 0
        while sent < records and not self.stopped:
            ready = due(records, rate_per_s, time.monotonic() - began_s)  # noqa: TID251 - see above
            yield from range(sent, ready)
            sent = max(sent, ready)
            self._producer.poll(0.01)

    def _send(self, number: int) -> None:
        text = str(number).encode()
        self._unreported.add(number)
        while True:
            try:
                self._producer.produce(self._topic, key=text, value=text, partition=number % self._partitions, on_delivery=self._reported)
            except BufferError:
                self._producer.poll(0.05)
            else:
                return

    def _reported(self, error: KafkaError | None, message: Message) -> None:
        key = message.key()
        number = int(key) if key else -1
        self._unreported.discard(number)
        offset = message.offset() if error is None else ""
        self._ledger.write(f"{number},{outcome(error)},{message.partition()},{offset}\n")


def main() -> None:
    """Fill a topic."""
    parser = argparse.ArgumentParser(description="fill a topic with 0, 1, 2, …")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--ledger", type=Path, required=True)
    parser.add_argument("--no-idempotence", action="store_true")
    arguments = parser.parse_args()
    producer = Producer(
        {
            "bootstrap.servers": arguments.bootstrap,
            "enable.idempotence": not arguments.no_idempotence,
            "acks": "all",
            "linger.ms": 10,
            "socket.timeout.ms": 6000,
            "delivery.timeout.ms": _DELIVERY_TIMEOUT_MS,
        }
    )
    with arguments.ledger.open("w", encoding="utf-8") as ledger:
        loader = Loader(producer, arguments.topic, arguments.partitions, ledger)
        signal.signal(signal.SIGTERM, lambda _number, _frame: setattr(loader, "stopped", True))
        loader.run(arguments.records, arguments.rate)
    say("loaded", records=arguments.records)


if __name__ == "__main__":
    main()
