"""The loader without transactions: it sends rows at a steady rate, and keeps a ledger of their outcomes.

The ledger (CSV ``id,outcome,partition,offset``) has one line for every id that was handed to the producer:

    ok       acknowledged, at this offset (empty if the broker only answered that it had the record already)
    fail     refused, as every attempt would have been: the record is not in the log
    unknown  no answer, or none in time: the record may be in the log, once

The last error of a record says nothing about earlier attempts, so an error is `fail` only if every attempt must have had the
same answer (Jepsen's rule: an outcome in doubt is indeterminate).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, TextIO

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from chaos.common.clock import monotonic_s
from chaos.loader.rows_file import Row, integers

HEADER = "id,outcome,partition,offset\n"
DELIVERY_TIMEOUT_MS = 60_000
_LINGER_MS = 50  # with 10, three brokers use three times as much CPU for a thousand records a second
_REPORTED_WITHIN_S = 1.2 * DELIVERY_TIMEOUT_MS / 1000
_STOP_WITHIN_S = 5.0
_FATAL_WITHIN_S = 1.0
_REFUSED = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)


@dataclass(frozen=True, slots=True)
class Producing:
    """How the loader's producer sends; it retries for longer than any fault lasts.

    Attributes:
        idempotence: if False, a retry may write a record twice (``enable.idempotence=false``).
        acks: ``all``, or 1 to acknowledge a record that only the leader has.
        batch_records: records per request; None for as many as come within 50 ms.
        in_flight: requests that may wait for their answers on one connection.
        transaction_records: records per transaction; None for no transactions. It needs idempotence and acks ``all``.
    """

    idempotence: bool = True
    acks: str | int = "all"
    batch_records: int | None = None
    in_flight: int = 5
    transaction_records: int | None = None

    def settings(self, bootstrap: str) -> dict[str, str | int | bool]:
        """Return the settings of a producer without transactions."""
        batch = self.batch_records
        return {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": self.idempotence,
            "acks": str(self.acks),
            "retries": 2**31 - 1,
            "max.in.flight.requests.per.connection": self.in_flight,
            **({"linger.ms": _LINGER_MS} if batch is None else {"linger.ms": 0, "batch.num.messages": batch}),
            "socket.timeout.ms": 6000,
            "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
        }


def due(records: int, rate_per_s: float, elapsed_s: float) -> int:
    """Count the records that should have been sent by now; the first one is due at once."""
    return min(records, int(elapsed_s * rate_per_s) + 1)


def record_of(row: Row) -> dict[str, Any]:
    """Return the arguments of `Producer.produce` for a row."""
    known = {"key": row.key, "value": row.value, "partition": row.partition}
    return {**known, "headers": list(row.headers)} if row.headers else known


def outcome(error: KafkaError | None) -> str:
    """Map the error of a delivery report to an outcome."""
    if error is None:
        return "ok"
    return "fail" if error.code() in _REFUSED else "unknown"


class Stoppable:
    """A loader that can be stopped, and then waits only a little for what it has begun."""

    _stop_by_s = float("inf")

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stop_by_s < float("inf")

    def stop(self) -> None:
        """Begin nothing more, and wait only a little for what has begun."""
        self._stop_by_s = min(self._stop_by_s, monotonic_s() + _STOP_WITHIN_S)


class Loader(Stoppable):
    """Send the rows, and keep the ledger.

    Attributes:
        sent: rows that were handed to the producer.
        refused: rows that were refused for good.
        why: the error of the last refused row; "" if there is none.
    """

    def __init__(self, producer: Producer, topic: str, partitions: int, ledger: TextIO) -> None:
        """Begin the ledger with its header."""
        self._producer = producer
        self._topic = topic
        self._partitions = partitions
        self._ledger = ledger
        self._unreported: set[int] = set()
        self.sent = 0
        self.refused = 0
        self.why = ""
        ledger.write(HEADER)

    def run(self, records: int, rate_per_s: float, rows: Iterable[Row] | None = None) -> None:
        """Send rows at the rate until all are sent or `stop` is called, then wait for the reports.

        Args:
            rows: as many as ``records``; None for the integers.

        Raises:
            KafkaException: the producer had a fatal error; the ledger is complete nevertheless.
        """
        try:
            self._send_all(integers(records, self._partitions) if rows is None else rows, records, rate_per_s)
            self._wait_for_reports()
        finally:
            self._give_up_on_reports()

    def _send_all(self, rows: Iterable[Row], records: int, rate_per_s: float) -> None:
        began_s = monotonic_s()
        for row in rows:
            while not self.stopped and row.id >= due(records, rate_per_s, monotonic_s() - began_s):
                self._poll(0.01)
            if self.stopped:
                return
            self._send(row)

    def _send(self, row: Row) -> None:
        record, reported = record_of(row), partial(self._reported, row)
        while not self.stopped:
            try:
                self._producer.produce(self._topic, on_delivery=reported, **record)
            except BufferError:
                self._poll(0.05)
            except KafkaException:
                self._poll(_FATAL_WITHIN_S)  # raises the fatal error itself: this one only says that there was one
                raise
            else:
                self._unreported.add(row.id)
                self.sent += 1
                return

    def _wait_for_reports(self) -> None:
        """Wait in short turns, so that a signal is handled."""
        give_up_s = monotonic_s() + _REPORTED_WITHIN_S
        while self._unreported and monotonic_s() < min(give_up_s, self._stop_by_s):
            self._poll(0.1)

    def _poll(self, timeout_s: float) -> None:
        self._producer.poll(timeout_s)
        self._ledger.flush()

    def _give_up_on_reports(self) -> None:
        for number in sorted(self._unreported):
            self._ledger.write(f"{number},unknown,,\n")
        self._ledger.flush()

    def _reported(self, row: Row, error: KafkaError | None, message: Message) -> None:
        self._unreported.discard(row.id)
        offset = message.offset()
        known = error is None and offset is not None and offset >= 0
        if error is not None and outcome(error) == "fail":
            self.refused += 1
            self.why = error.str()
        self._ledger.write(f"{row.id},{outcome(error)},{message.partition()},{offset if known else ''}\n")
