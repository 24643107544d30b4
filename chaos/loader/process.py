"""The loader's process, which `chaos.loader.declaration.FillSource` starts.

    {"event": "loaded", "records": 20000}     so many ids were sent; it ends

Beside that are the statements of a loader with transactions (docs/adapters.md).
"""

import argparse
import signal
from pathlib import Path
from typing import TextIO

from confluent_kafka import Producer

from chaos.common.messages import say
from chaos.loader.plain import Loader, settings
from chaos.loader.transactions import TransactionalLoader, transactional, transactional_id
from chaos.subject.clients import librdkafka_options


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
