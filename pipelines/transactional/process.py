"""The process of `ConsumeTransformProduce`, which says what it does in JSON lines.

    {"event": "assigned", "worker": 0, "partitions": [0, 1]}
    {"event": "started", "workers": 2}                     every worker has its producer and its place in the group
    {"event": "committed", "worker": 0, "times": 3, "records": 1500, "positions": {"0": 900}, "transaction": 7, "ms": 12}
    {"event": "aborted", …, "why": "chance"}               rolled back, and read again from the committed positions
    {"event": "renewed", "worker": 0, "times": 1, "records": 0, "why": "an answer took 3012 ms"}
    {"event": "dropped", …}                                at_most_once: rows that were not written
    {"event": "fenced" | "broken", "worker": 1, "why": …}  this worker has ended
    {"event": "stopped"}

``times`` says how many transactions a line stands for; ``records`` is their sum, everything else is the last one's. It runs
until SIGTERM, then ends with 0; with 1 when no worker is left.

Workers are threads. A zombie is made by what happens to the process (SIGKILL, SIGSTOP), so there must be exactly one: worker
processes would outlive a parent that is killed and go on writing. Fencing asks for no process of its own, for it is of a
producer's epoch and a fatal error is one client instance's; and librdkafka holds no lock of Python's while it waits.
"""

import argparse
import json
import os
import signal
from collections.abc import Callable
from threading import Thread

from pipelines.messages import say
from pipelines.options import librdkafka
from pipelines.pace import monotonic_s
from pipelines.throttled_events import Voice
from pipelines.transactional.delivery import Place
from pipelines.transactional.pipeline import ConsumeTransformProduce
from pipelines.transactional.worker import Worker

_TURN_S = 0.1
_STOP_WITHIN_S = 5.0


def main() -> None:
    """Run all workers until told to stop, or until none is left."""
    signals: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: signals.append(number))
    arguments = _parsed()
    options, place = ConsumeTransformProduce(**json.loads(arguments.options)), _place(arguments)
    voice = Voice()
    workers = [Worker(number, options, place, voice, lambda: bool(signals)) for number in range(options.workers)]
    run(workers, voice, lambda: bool(signals))
    if signals:
        say("stopped")
    os._exit(0 if signals else 1)  # clients of a broker that is gone would wait for it


def run(workers: list[Worker], voice: Voice, stopped: Callable[[], bool]) -> None:
    """Run them; returns when all have ended, or a while after they were told to."""
    threads = [Thread(target=worker.run, daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    _wait(threads, voice, lambda: stopped() or all(worker.ready for worker in workers))
    if not stopped() and all(worker.ready for worker in workers):
        voice.tell("started", workers=len(workers))
    _wait(threads, voice, stopped)
    give_up_s = monotonic_s() + _STOP_WITHIN_S
    _wait(threads, voice, lambda: monotonic_s() > give_up_s)
    voice.catch_up(at_once=True)


def _wait(threads: list[Thread], voice: Voice, over: Callable[[], bool]) -> None:
    """In short turns, so that a signal is heard; until it is over, or all threads have ended."""
    while not over():
        alive = next((thread for thread in threads if thread.is_alive()), None)
        if alive is None:
            return
        alive.join(_TURN_S)
        voice.catch_up()


def _place(arguments: argparse.Namespace) -> Place:
    return Place(arguments.kafka, arguments.source, arguments.sink, librdkafka())


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="datasource -> square -> datasink, without Spark")
    for name in ("kafka", "source", "sink", "options"):
        parser.add_argument(f"--{name}", required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
