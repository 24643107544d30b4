"""The loader's process; `chaos.loader.declaration.FillSource` starts it, and writes its orders to a file.

    python -m chaos.loader.process FILE

FILE is JSON: ``bootstrap``, ``topic``, ``partitions``, ``records``, ``rate_per_s``, the paths ``ledger`` and ``rows``, and
``producing`` (`chaos.loader.plain.Producing`). The process prints, at its end:

    {"event": "loaded", "records": 20000}     the number of rows that were sent; with "refused": 3, the number of refused rows,
                                              and "why", the error of the last of them

With transactions it prints further statements (docs/adapters.md).
"""

import json
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from confluent_kafka import Producer

from chaos.common.messages import say
from chaos.contract.clients import librdkafka_options
from chaos.loader import rows_file
from chaos.loader.plain import Loader, Producing
from chaos.loader.transactions import TransactionalLoader, transactional, transactional_id


def main() -> None:
    """Fill a topic; exit with 0 after the last row or after SIGTERM, whatever the outcomes in the ledger are."""
    told = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    with Path(told["ledger"]).open("w", encoding="utf-8") as ledger:
        loader = _loader(told, ledger)
        signal.signal(signal.SIGTERM, lambda _number, _frame: loader.stop())
        loader.run(told["records"], told["rate_per_s"], rows_file.read(Path(told["rows"])) if told["rows"] else None)
    say("loaded", records=loader.sent, **({"refused": loader.refused, "why": loader.why} if loader.refused else {}))


def _loader(told: Mapping[str, Any], ledger: TextIO) -> Loader | TransactionalLoader:
    producing, topic, partitions = Producing(**told["producing"]), told["topic"], told["partitions"]
    chosen: dict[str, Any] = librdkafka_options() | producing.settings(told["bootstrap"])
    if told["rows"]:
        chosen["message.max.bytes"] = rows_file.LARGEST_BYTES + (1 << 20)  # brokers decide which row is too large
    if producing.transaction_records is None:
        return Loader(Producer(chosen), topic, partitions, ledger)
    chosen = transactional(chosen, transactional_id(topic))
    return TransactionalLoader(lambda: Producer(chosen), topic, partitions, ledger, producing.transaction_records)


if __name__ == "__main__":
    main()
