"""The plain application as `guarantee.py` runs it: its own workers and its own delivery, with four things of the benchmark's.

    values are copied      so that a record leaves as large as it came
    rows are spread        over as many partitions of the sink as a transaction shall have
    nothing is stated      what a judge needs (docs/adapters.md) costs something for each record, and more with transactions
    deliveries are noted   when each ended, and of how many records

It writes ``started``, and when it is told to end, one line of JSON: each delivery as [worker, seconds, records], seconds on the
monotonic clock that all processes of this machine share; and how often each other event was reported, with the reason that was
given last.
"""

import argparse
import json
import os
import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pipelines.messages import ThrottledEvents, monotonic_s
from pipelines.transactional.delivery import Batch, Place
from pipelines.transactional.options import Options
from pipelines.transactional.process import run
from pipelines.transactional.worker import Worker


class Deliveries(ThrottledEvents):
    """Notes deliveries, and counts all else."""

    def __init__(self) -> None:
        """Nothing was delivered yet."""
        super().__init__()
        self.delivered: list[tuple[int, float, int]] = []
        self.others = Counter[str]()
        self.why = ""

    def say(self, event: str, **value: Any) -> None:
        if event == "started":
            print(event, flush=True)
        elif event != "assigned":
            self._other(event, value)

    def state(self, **_line: Any) -> None:
        """Nobody judges this run."""

    def count(self, event: str, worker: int, records: int, **last: Any) -> None:
        if event == "committed":
            self.delivered.append((worker, monotonic_s(), records))
        else:
            self._other(event, last)

    def _other(self, event: str, said: Mapping[str, Any]) -> None:
        self.others[event] += 1
        self.why = str(said.get("why", ""))

    def catch_up(self, *, at_once: bool = False) -> None:
        """Nothing is held back."""


def main() -> None:
    """Run until SIGTERM."""
    signals: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: signals.append(number))
    parser = argparse.ArgumentParser()
    parser.add_argument("--place", type=json.loads, required=True, help="fields of Place")
    parser.add_argument("--options", type=json.loads, required=True, help="fields of Options")
    parser.add_argument("--partitions", type=int, required=True, help="of the sink, in each transaction")
    words = parser.parse_args()
    place, options, events = Place(**words.place), Options(**words.options), Deliveries()
    transform = partial(copied, partitions=words.partitions)
    workers = [Worker(number, options, place, events, lambda: bool(signals), transform) for number in options.numbers]
    run(workers, events, lambda: bool(signals))
    print(json.dumps({"delivered": events.delivered, "others": events.others, "why": events.why}), flush=True)
    os._exit(0)  # as the application does


def copied(records: Sequence[Any], partitions: int) -> Batch:
    """Values without keys, for one partition after the other."""
    ends = {record.partition(): record.offset() + 1 for record in records}  # of each partition the last one stays
    return Batch([(number % partitions, None, record.value()) for number, record in enumerate(records)], ends)


if __name__ == "__main__":
    main()
