"""The loader's process, which `chaos.loader.declaration.FillSource` starts.

    {"event": "loaded", "records": 20000}     so many rows were sent; it ends. With "refused": 3, if so many were refused,
                                              and "why", which is what was said of the last of them

Beside that are the statements of a loader with transactions (docs/adapters.md).
"""

import argparse
import signal
from pathlib import Path
from typing import Any, TextIO

from confluent_kafka import Producer

from chaos.common.messages import say
from chaos.loader import rows
from chaos.loader.plain import Loader, settings
from chaos.loader.transactions import TransactionalLoader, transactional, transactional_id
from chaos.subject.clients import librdkafka_options


def main() -> None:
    """Fill a topic; ends with 0 after the last row or after SIGTERM, whatever the outcomes in the ledger are."""
    arguments = _parsed()
    with arguments.ledger.open("w", encoding="utf-8") as ledger:
        loader = _loader(arguments, ledger)
        signal.signal(signal.SIGTERM, lambda _number, _frame: loader.stop())
        loader.run(arguments.records, arguments.rate, rows.read(arguments.rows) if arguments.rows else None)
    say("loaded", records=loader.sent, **({"refused": loader.refused, "why": loader.why} if loader.refused else {}))


def _loader(arguments: argparse.Namespace, ledger: TextIO) -> Loader | TransactionalLoader:
    chosen: dict[str, Any] = librdkafka_options() | settings(
        arguments.bootstrap,
        idempotence=not arguments.no_idempotence,
        acks=arguments.acks,
        batch_records=arguments.batch_records,
        in_flight=arguments.in_flight,
    )
    if arguments.rows:
        chosen["message.max.bytes"] = rows.LARGEST_BYTES + (1 << 20)  # whether one is too large is for the brokers to say
    topic, partitions = arguments.topic, arguments.partitions
    if arguments.transaction_records is None:
        return Loader(Producer(chosen), topic, partitions, ledger)
    chosen = transactional(chosen, transactional_id(topic))
    return TransactionalLoader(lambda: Producer(chosen), topic, partitions, ledger, arguments.transaction_records)


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="fill a topic with 0, 1, 2, …, or with rows of a file")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--ledger", type=Path, required=True)
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--no-idempotence", action="store_true")
    parser.add_argument("--acks", choices=("all", "1"), default="all")
    parser.add_argument("--batch-records", type=int)
    parser.add_argument("--in-flight", type=int, default=5)
    parser.add_argument("--transaction-records", type=int)
    return parser.parse_args()


if __name__ == "__main__":
    main()
