"""The loader: it writes the integers 0, 1, 2, … as decimal strings, as key and value, at a steady rate, and keeps a ledger.

Id ``i`` goes to partition ``i mod P``. The ledger is described in `pipelines.loader.process`, and what transactions change in
`pipelines.loader.transactions`.
"""

import argparse
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from pipelines.base import Command, Endpoints, Topics
from pipelines.kafka import librdkafka_options, option_variables
from pipelines.loader.process import Loader, settings
from pipelines.loader.transactions import TransactionalLoader, transactional
from pipelines.messages import say

LEDGER = "ledger.csv"


@dataclass(frozen=True, slots=True)
class FillSource:
    """The loader.

    Attributes:
        records: how many ids.
        rate_per_s: records per second.
        idempotence: if False, a retry may write a record twice (``enable.idempotence=false``).
        acks: ``all``, or ``1`` if a record is acknowledged when only the leader has it.
        batch_records: how many records go into one request; None for as many as come within 10 ms.
        in_flight: how many requests may wait for their answers on one connection.
        transaction_records: how many ids make a transaction; None for none. It needs idempotence and acks ``all``.
    """

    records: int
    rate_per_s: float
    idempotence: bool = True
    acks: str = "all"
    batch_records: int | None = None
    in_flight: int = 5
    transaction_records: int | None = None

    def command(self, endpoints: Endpoints, topics: Topics, folder: Path) -> Command:
        """The process, which ends by itself; its ledger is ``<folder>/ledger.csv``."""
        options = {
            "--bootstrap": endpoints.kafka,
            "--topic": topics.source,
            "--partitions": str(topics.partitions),
            "--records": str(self.records),
            "--rate": str(self.rate_per_s),
            "--ledger": str(folder / LEDGER),
            "--acks": self.acks,
            "--in-flight": str(self.in_flight),
        }
        if self.batch_records is not None:
            options["--batch-records"] = str(self.batch_records)
        if self.transaction_records is not None:
            options["--transaction-records"] = str(self.transaction_records)
        words = (word for pair in options.items() for word in pair)
        flags = () if self.idempotence else ("--no-idempotence",)
        return Command((sys.executable, "-m", "pipelines.loader.pipeline", *words, *flags), option_variables(endpoints))

    def transactional_ids(self, topics: Topics) -> tuple[str, ...]:
        """The same one for every partition; empty without transactions."""
        return (transactional_id(topics.source),) * topics.partitions if self.transaction_records else ()

    def expected(self, spark: SparkSession, folder: Path, partitions: int) -> DataFrame:
        """What the source must contain according to the ledger.

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


def transactional_id(source: str) -> str:
    """It begins with the name of the source, as all that a pipeline uses on a shared cluster."""
    return f"{source}-loader"


def main() -> None:
    """Fill a topic; ends with 0 after the last id or after SIGTERM, whatever the outcomes in the ledger are."""
    arguments = _parsed()
    with arguments.ledger.open("w", encoding="utf-8") as ledger:
        loader = _loader(arguments, ledger)
        signal.signal(signal.SIGTERM, lambda _number, _frame: loader.stop())
        loader.run(arguments.records, arguments.rate)
    say("loaded", records=loader.sent)


def _loader(arguments: argparse.Namespace, ledger: TextIO) -> Loader | TransactionalLoader:
    chosen = librdkafka_options() | settings(
        arguments.bootstrap,
        idempotence=not arguments.no_idempotence,
        acks=arguments.acks,
        batch_records=arguments.batch_records,
        in_flight=arguments.in_flight,
    )
    topic, partitions = arguments.topic, arguments.partitions
    if arguments.transaction_records is None:
        return Loader(Producer(chosen), topic, partitions, ledger)
    chosen = transactional(chosen, transactional_id(topic))
    return TransactionalLoader(lambda: Producer(chosen), topic, partitions, ledger, arguments.transaction_records)


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="fill a topic with 0, 1, 2, …")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--ledger", type=Path, required=True)
    parser.add_argument("--no-idempotence", action="store_true")
    parser.add_argument("--acks", choices=("all", "1"), default="all")
    parser.add_argument("--batch-records", type=int)
    parser.add_argument("--in-flight", type=int, default=5)
    parser.add_argument("--transaction-records", type=int)
    return parser.parse_args()


if __name__ == "__main__":
    main()
