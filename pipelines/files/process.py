"""Files with transactions: all records of one file in one transaction, with the position of its URL.

    urls ──consume──▶ download ─▶ parse ──produce──▶ transactions      N records of one file
                        │                                              in the same transaction (KIP-98, KIP-447)
                        └─────────── position of the URL ───────▶ the consumer group

There are N nodes, each with a transactional.id of its own, which share the partitions of the topic of URLs. They are the
workers of `pipelines.transactional`, which explains how they read, renew their producers and are fenced; this module handles a
URL. The records of a file are written while it comes (`pipelines.files.download`), so a file may be larger than memory, and
whatever ends it in the middle, an error of the server or SIGTERM, aborts the transaction.

A failed download is tried again after a pause, ``attempts`` times. A file that is bad, or is tried in vain, either ends its
node (``--bad-file stop``), whose last line names the URL and the row, and so in the end all nodes: the URL is not passed. Or
its position is committed without a record (``--bad-file skip``), and an event reports it:

    {"event": "refused", "worker": 0, "url": "http://…/17.csv", "why": "http://…/17.csv, row 3: it has 2 fields, not 3"}

With ``--summaries TOPIC`` each file has one record more, in another topic: its number of rows, and the sum of their amounts.
It is in the same transaction. ``--summaries-are apart`` is a mistake: a separate producer writes it when the rows are read,
and nothing takes it back if the transaction is aborted.

All other lines are those of `pipelines.transactional.process`; the statements of deliveries among them (docs/adapters.md).
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Event

from confluent_kafka import Message, Producer

from pipelines.files.download import BadFileError, FileRows, Row, StoppedError, Summary, TryAgainError, Web
from pipelines.kafka import librdkafka_options
from pipelines.messages import ThrottledEvents, say
from pipelines.transactional.delivery import Batch, BrokenError, Place, common, written
from pipelines.transactional.options import Options, parsed
from pipelines.transactional.process import run
from pipelines.transactional.worker import Worker

BAD_FILES = ("stop", "skip")
SUMMARIES = ("included", "apart")


@dataclass(frozen=True, slots=True)
class FileOptions(Options):
    """The options of the pipeline; in place of records, a transaction has one file.

    Attributes:
        bad_file: reaction to a file that cannot be processed: ``stop`` ends its node, ``skip`` goes on with the next.
        attempts: number of attempts for a file that cannot be downloaded.
        backoff_ms: the pause before the second attempt; it doubles up to ``backoff_max_ms``.
        timeout_ms: time to wait for an answer of a server, and for each part of one.
        summaries: the topic of the records about whole files; none, if it is empty.
        summaries_are: ``included`` in the transaction of the rows, or written ``apart`` from it, before it is committed.
        connect_to: ``HOST=ADDRESS:PORT``: the address to connect to for this host of URLs, like curl's option of this name.
    """

    batch_records: int = 1
    bad_file: str = "stop"
    attempts: int = 10
    backoff_ms: int = 100
    backoff_max_ms: int = 1000
    timeout_ms: int = 2000
    summaries: str = ""
    summaries_are: str = "included"
    connect_to: str = ""

    def _rules(self) -> tuple[tuple[bool, str], ...]:
        return (
            *Options._rules(self),  # noqa: SLF001 - of this class; `super()` does not know a class with slots
            (self.batch_records != 1, f"batch_records must be 1, one file in a transaction, not {self.batch_records}"),
            (self.delivery != "exactly_once", f"delivery must be exactly_once, not {self.delivery!r}"),
            (self.bad_file not in BAD_FILES, f"bad_file must be one of {', '.join(BAD_FILES)}, not {self.bad_file!r}"),
            (
                self.summaries_are not in SUMMARIES,
                f"summaries_are must be one of {', '.join(SUMMARIES)}, not {self.summaries_are!r}",
            ),
            (self.attempts < 1, f"attempts must be 1 or more, not {self.attempts}"),
            (
                bool(self.connect_to) and not _is_mapping(self.connect_to),
                f"connect_to must be HOST=ADDRESS:PORT, not {self.connect_to!r}",
            ),
        )

    def web(self, stopped: Callable[[], bool]) -> Web:
        """The settings for requests of files."""
        host, _, address = self.connect_to.partition("=")
        return Web(self.timeout_ms / 1000, {host: address} if host else {}, stopped)

    def pause_s(self, failures: int) -> float:
        """Seconds to wait before the attempt that follows so many failures."""
        return min(self.backoff_max_ms, self.backoff_ms * 2.0 ** (failures - 1)) / 1000


def _is_mapping(text: str) -> bool:
    host, _, address = text.partition("=")
    to_host, _, port = address.rpartition(":")
    return bool(host and to_host and port.isdecimal())


@dataclass(slots=True)
class Files:
    """The files of one node's URLs, one after the other.

    Attributes:
        pause: waits for so many seconds, or until the pipeline is told to stop.
        apart: writes the summary of a file at once; None if it is included in the transaction.
        url, rows: those of the last file; failures: number of its failures.
    """

    worker: int
    options: FileOptions
    events: ThrottledEvents
    web: Web
    pause: Callable[[float], object]
    apart: Callable[[Summary], None] | None = None
    url: tuple[int, int] = (-1, -1)
    rows: FileRows | None = None
    failures: int = 0

    def batch(self, records: Sequence[Message]) -> Batch:
        """Return the rows of the file behind one URL, which are downloaded when they are read; none, if it is refused.

        Raises:
            BrokenError: it is refused, and a refused file ends the node.
        """
        (record,) = records
        place = record.partition() or 0, record.offset() or 0
        error = self.rows.error if self.rows is not None and place == self.url else None
        self.failures = self.failures + 1 if error else 0
        text = (record.value() or b"").decode(errors="backslashreplace")
        ends = {place[0]: place[1] + 1}
        self.url = place
        if error and not isinstance(error, StoppedError):
            if isinstance(error, BadFileError) or self.failures >= self.options.attempts:
                return Batch(self._refused(text, str(error)), ends)
            self.pause(self.options.pause_s(self.failures))
        self.rows = FileRows(text, self.web)
        summary = Summary(self.rows)
        if self.apart is not None:
            return Batch(SummarisedApart(self.rows, partial(self.apart, summary)), ends)
        return Batch(self.rows, ends, {self.options.summaries: summary} if self.options.summaries else {})

    def _refused(self, url: str, why: str) -> tuple[()]:
        tried = f" ({self.failures} attempts)" if self.failures > 1 else ""
        if self.options.bad_file == "stop":
            raise BrokenError(f"{why}{tried}")
        self.events.say("refused", worker=self.worker, url=url, why=f"{why}{tried}")
        return ()


@dataclass(frozen=True, slots=True)
class SummarisedApart:
    """The rows of a file; after the last one its summary is written, whatever the fate of their transaction."""

    of: FileRows
    write: Callable[[], None]

    def __len__(self) -> int:
        return len(self.of)

    def __iter__(self) -> Iterator[Row]:
        yield from self.of
        self.write()


def writer(options: FileOptions, place: Place) -> Callable[[Summary], None]:
    """Return a function that writes summaries without a transaction."""
    producer = Producer(common(options, place) | {"enable.idempotence": True})

    def write(summary: Summary) -> None:
        if refused := written(producer, options.summaries, summary, options.transaction_timeout_ms / 1000):
            raise TryAgainError(f"{summary.of.url}: the summary was not written: {refused[0]}")

    return write


def main() -> None:
    """Run all nodes until told to stop, or until none is left."""
    stop = Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: stop.set())
    arguments, options = parsed(kind=FileOptions, description="urls -> download -> parse -> transactions")
    place = Place(arguments.kafka, arguments.source, arguments.sink, arguments.group, librdkafka_options())
    events = ThrottledEvents()
    nodes = [node(number, options, place, events, stop) for number in range(options.workers)]
    run(nodes, events, stop.is_set)
    if stop.is_set():
        say("stopped")
    else:
        reasons = dict.fromkeys(one.ended_because for one in nodes if one.ended_because)
        sys.stderr.write(f"no node is left: {'; '.join(reasons)}\n")  # the last line, which a report shows
    os._exit(0 if stop.is_set() else 1)  # the clients of a broker that is gone would wait for it


def node(number: int, options: FileOptions, place: Place, events: ThrottledEvents, stop: Event) -> Worker:
    """Make a worker that turns each URL into a transaction."""
    apart = writer(options, place) if options.summaries and options.summaries_are == "apart" else None
    files = Files(number, options, events, options.web(stop.is_set), stop.wait, apart)
    return Worker(number, options, place, events, stop.is_set, files.batch)


if __name__ == "__main__":
    main()
