"""The plain transactional application of Kafka's documentation, consume-transform-produce, without Spark.

    datasource ──consume──▶ square ──produce──▶ datasink          same key, same partition
                              └──positions──▶ the consumer group   in the same transaction (KIP-98, KIP-447)

``exactly_once``   positions and rows are one transaction
``at_least_once``  rows first, then positions: a crash between the two makes it write the rows again
``at_most_once``   positions first, then rows: a crash between the two makes it lose the rows

`pipelines.transactional.delivery` delivers a batch, `pipelines.transactional.worker` reads; the command line is in
`pipelines.transactional.options`. The process reports its actions in JSON lines:

    {"event": "assigned", "worker": 0, "partitions": [0, 1]}
    {"event": "started", "workers": 2}                     every worker has its producer and its place in the group
    {"event": "committed", "worker": 0, "times": 3, "records": 1500, "positions": {"0": 900}, "transaction": 7, "ms": 12}
    {"event": "aborted", …, "why": "chance"}               rolled back; its records are read again
    {"event": "renewed", "worker": 0, "times": 1, "records": 0, "why": "an answer took 3012 ms"}
    {"event": "dropped", …}                                at_most_once: unwritten rows
    {"event": "fenced" | "broken", "worker": 1, "why": …}  this worker has ended
    {"event": "stopped"}

Beside these are the statements of docs/adapters.md: ``begin`` and ``told`` of every transaction, ``got`` and ``start`` of every
read, each by its worker.

``times`` is the number of transactions in a line; ``records`` is their sum, everything else belongs to the last one.
The process runs until SIGTERM, and then ends with 0. It ends with 1 if no worker is left.

Workers are threads. Signals to the process (SIGKILL, SIGSTOP) make a zombie, so there must be exactly one process: worker
processes would outlive a killed parent, and go on writing. Fencing does not need processes: it concerns the epoch of one
producer, and a fatal error one client instance; and librdkafka does not hold Python's global lock while it waits.
"""

import os
import signal
import sys
from collections.abc import Callable
from threading import Thread

from pipelines.kafka import librdkafka_options
from pipelines.messages import ThrottledEvents, monotonic_s, say
from pipelines.transactional.delivery import Place
from pipelines.transactional.options import Options, parsed
from pipelines.transactional.worker import Worker

_TURN_S = 0.1
_STOP_WITHIN_S = 5.0


def main() -> None:
    """Run all workers until told to stop, or until none is left."""
    signals: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: signals.append(number))
    arguments, options = parsed(kind=Options)
    place = Place(arguments.kafka, arguments.source, arguments.sink, arguments.group, librdkafka_options())
    events = ThrottledEvents()
    workers = [Worker(number, options, place, events, lambda: bool(signals)) for number in options.numbers]
    run(workers, events, lambda: bool(signals))
    if signals:
        say("stopped")
    else:
        why = next((worker.ended_because for worker in workers if worker.ended_because), "")
        sys.stderr.write(f"no worker is left: {why}\n")  # the last line, which a report shows
    os._exit(0 if signals else 1)  # the clients of a broker that is gone would wait for it


def run(workers: list[Worker], events: ThrottledEvents, stopped: Callable[[], bool]) -> None:
    """Run the workers; return when all have ended, or a while after they were told to stop."""
    threads = [Thread(target=worker.run, daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    _wait(threads, events, lambda: stopped() or all(worker.ready for worker in workers))
    if not stopped() and all(worker.ready for worker in workers):
        events.say("started", workers=len(workers))
    _wait(threads, events, stopped)
    give_up_s = monotonic_s() + _STOP_WITHIN_S
    _wait(threads, events, lambda: monotonic_s() > give_up_s)
    events.catch_up(at_once=True)


def _wait(threads: list[Thread], events: ThrottledEvents, over: Callable[[], bool]) -> None:
    """Wait until `over` or until all threads have ended, in short turns, so that a signal is handled in between."""
    while not over():
        alive = next((thread for thread in threads if thread.is_alive()), None)
        if alive is None:
            return
        alive.join(_TURN_S)
        events.catch_up()


if __name__ == "__main__":
    main()
