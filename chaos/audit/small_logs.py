"""Land topics of few records in this process, while Spark starts.

Spark takes 3.5 s to land two topics of 60,000 records, nearly all of it to load and compile code, and this process is idle
while a JVM starts (docs/adr/0018). Both land the same: the committed records up to the fixed offsets
(`tests/integration/test_audit.py`). Spark lands many records, identities in SQL, and folders that are kept
(`chaos.audit.logs.land`).
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from pyarrow import parquet

from chaos.audit.logs import Ends, Fixed, Numbers, Topics, since_landed, why_unreadable
from chaos.common import clock
from chaos.common.errors import InconclusiveError
from chaos.judging import landing
from verifiers import evidence

_AT_ONCE = 10_000
_POLL_S = 0.1
_SILENT_S = 30.0
_PIECE_BYTES = 16 << 20
_SCHEMA = landing.arrow_schema(evidence.OBSERVED)


class SmallLogs:
    """Write ``source/`` and ``sink/`` into a local folder, in a thread; leaving the block stops it."""

    def __init__(self, topics: Topics, fixed: Fixed, folder: Path) -> None:
        self._topics, self._fixed, self._folder = topics, fixed, folder
        self._stop = Event()
        self._thread = ThreadPoolExecutor(1, "few-records")

    def __enter__(self) -> Self:
        self._written = self._thread.submit(self._write)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self._thread.shutdown(wait=True)

    def landed(self) -> Fixed:
        """Wait until both logs are written, and return what `chaos.audit.logs.land` returns.

        Raises:
            InconclusiveError: a partition cannot be read, records of it were removed meanwhile, or the files cannot be written.
        """
        self._written.result()
        return since_landed(self._topics, self._fixed)

    def _write(self) -> None:
        for side, ends in (("source", self._fixed.source), ("sink", self._fixed.sink)):
            try:
                self._write_side(self._fixed.numbers[side], ends, self._folder / side)
            except (_UnreadableError, OSError) as error:  # a full disk, for example
                raise InconclusiveError(why_unreadable(str(error), self._topics, side, self._fixed)) from error

    def _write_side(self, numbers: Numbers, ends: Ends, folder: Path) -> None:
        own = {"group.id": f"{self._topics.groups or 'chaos-audit'}-few", "enable.auto.commit": False, "log_level": 0}
        how = {"isolation.level": "read_committed", "enable.partition.eof": True, "auto.offset.reset": "error"}
        settings: dict[str, Any] = {**self._topics.librdkafka, **own, **how, "bootstrap.servers": self._topics.bootstrap}
        folder.mkdir(parents=True)
        with ExitStack() as stack:
            files = {number: stack.enter_context(closing(_File(folder / f"{number}.parquet"))) for number in ends}
            consumer = stack.enter_context(closing(Consumer(settings)))
            places = [(topic, one, ends[number].low) for topic, those in numbers.items() for one, number in those.items()]
            consumer.assign([TopicPartition(*place) for place in places])  # it joins no group
            for number, message in _committed(consumer, numbers, ends, self._stop):
                files[number].add(number, message)


class _UnreadableError(Exception):
    """A partition cannot be read; the message says why."""


def _committed(consumer: Consumer, numbers: Numbers, ends: Ends, stop: Event) -> Iterator[tuple[int, Message]]:
    """Yield the committed records up to the ends, each with the number of its partition in the log."""
    left = {number for number, one in ends.items() if one.low < one.lso}
    heard_s = clock.monotonic_s()
    while left and not stop.is_set():
        found: list[Any] = consumer.consume(_AT_ONCE, _POLL_S)
        for message in found:
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - it has no other name
                if error.retriable():
                    continue
                raise _UnreadableError(error.str())
            number, offset = numbers[message.topic()][message.partition()], message.offset()
            if error is None and offset < ends[number].lso:
                yield number, message
            if offset >= ends[number].lso - (error is None):  # the last one may be a marker or an aborted record
                left.discard(number)
        now_s = clock.monotonic_s()
        heard_s = now_s if found else heard_s
        if now_s - heard_s > _SILENT_S:
            raise _UnreadableError(f"no record arrived for {_SILENT_S:g} s, and the end was not reached")


class _File:
    """Write the records of a partition into a Parquet file."""

    def __init__(self, path: Path) -> None:
        self._file = parquet.ParquetWriter(path, _SCHEMA)
        self._rows: list[tuple[int, int, int, bytes | None, bytes | None]] = []
        self._bytes = 0

    def add(self, number: int, message: Any) -> None:
        key, value = message.key(), message.value()
        self._rows.append((number, message.offset(), message.timestamp()[1], key, value))
        self._bytes += len(key or b"") + len(value or b"")
        if self._bytes >= _PIECE_BYTES:
            self._write()

    def _write(self) -> None:
        columns = zip(*self._rows, strict=True) if self._rows else [()] * len(_SCHEMA)
        arrays = [  # strings keep their bytes, UTF-8 or not, as Spark's ``CAST(key AS STRING)`` does
            pa.array(column, pa.binary()).view(of.type) if of.type == pa.string() else pa.array(column, of.type)
            for column, of in zip(columns, _SCHEMA, strict=True)
        ]
        self._file.write_table(pa.Table.from_arrays(arrays, schema=_SCHEMA))
        self._rows, self._bytes = [], 0

    def close(self) -> None:
        self._write()
        self._file.close()
