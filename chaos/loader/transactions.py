"""The loader with transactions: a fixed number of rows in each, one after the other, and the ledger of `chaos.loader.plain`.

A row is ``ok`` if the client reported its transaction as committed, and ``unknown`` if it never learned the outcome. An aborted
transaction leaves nothing: the next one sends its rows again, except refused ones. The loader also prints the outcome that the
client reports (docs/adapters.md).

A request to end a transaction that is not answered at once may have been sent twice, and the second copy may arrive in the
middle of the next transaction. Then a new producer takes over, whose new epoch fences the late request
(docs/findings/late-commit.md).
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any, TextIO

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from chaos.common.clock import monotonic_s
from chaos.common.messages import state
from chaos.loader.plain import HEADER, Stoppable, due, outcome, record_of
from chaos.loader.rows_file import Row, integers, text

TRANSACTION_TIMEOUT_MS = 20_000
RETRY_BACKOFF_MS = 250
_AT_ONCE_S = 0.8 * RETRY_BACKOFF_MS / 1000  # librdkafka sends nothing again before that (RD_KAFKA_RETRY_JITTER_PERCENT)
_ANSWERED_WITHIN_S = 60.0
_TURN_S = 0.5  # a signal waits at most so long


def transactional_id(source: str) -> str:
    """Name the loader's transactional.id after the source: on a shared cluster, all names of a run begin alike."""
    return f"{source}-loader"


def transactional(settings: dict[str, Any], transactional_id: str) -> dict[str, Any]:
    """Add the settings of transactions to those of the loader's producer."""
    return settings | {
        "transactional.id": transactional_id,
        "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
        "delivery.timeout.ms": TRANSACTION_TIMEOUT_MS,
        "retry.backoff.ms": RETRY_BACKOFF_MS,
    }


class TransactionalLoader(Stoppable):
    """Send the rows, and keep the ledger; attributes are those of `chaos.loader.plain.Loader`."""

    def __init__(
        self, made: Callable[[], Producer], topic: str, partitions: int, ledger: TextIO, transaction_records: int
    ) -> None:
        """Begin the ledger with its header.

        Args:
            made: makes a producer with the one transactional.id.
        """
        self._made = made
        self._topic = topic
        self._partitions = partitions
        self._ledger = ledger
        self._transaction_records = transaction_records
        self._transaction = 0
        self._is_late = False
        self._refused: set[int] = set()
        self.sent = 0
        self.refused = 0
        self.why = ""
        ledger.write(HEADER)
        self._producer = made()

    def run(self, records: int, rate_per_s: float, rows: Iterable[Row] | None = None) -> None:
        """Send rows at the rate, each transaction when its last row is due, until all are sent or `stop` is called.

        Args:
            rows: as many as ``records``; None for the integers.

        Raises:
            KafkaException: no producer could be initialised; the ledger is complete nevertheless.
        """
        self._initialise()
        began_s = monotonic_s()
        left = iter(integers(records, self._partitions) if rows is None else rows)
        while these := list(islice(left, self._transaction_records)):
            while not self.stopped and these[-1].id >= due(records, rate_per_s, monotonic_s() - began_s):
                self._producer.poll(0.01)
            told = "aborted"
            while told == "aborted" and these and not self.stopped:
                told = self._transact(these)
                these = self._without_refused(these) if told == "aborted" else these
                if self._is_late and not self.stopped:
                    self._initialise()

    def _without_refused(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows of an aborted transaction that are sent again."""
        for row in rows:
            if row.id in self._refused:
                self._ledger.write(f"{row.id},fail,{row.partition},\n")
                self.refused += 1
                self.sent += 1
        return [row for row in rows if row.id not in self._refused]

    def _transact(self, rows: Sequence[Row]) -> str:
        """Try to commit these rows; return the outcome that the client reported."""
        self._transaction += 1
        self._is_late = False
        offsets: dict[int, int] = {}
        state(begin=self._transaction, ids=[key for row in rows if (key := text(row.key)) is not None])
        told = self._told(rows, offsets)
        state(told=told, transaction=self._transaction)
        if told != "aborted":
            found = "ok" if told == "committed" else "unknown"
            for row in rows:
                home = f"{row.partition},{offsets.get(row.id, '')}" if told == "committed" else ","
                self._ledger.write(f"{row.id},{found},{home}\n")
            self._ledger.flush()
            self.sent += len(rows)
        return told

    def _told(self, rows: Sequence[Row], offsets: dict[int, int]) -> str:
        try:
            self._producer.begin_transaction()
            self._send(rows, offsets)
            self._ask(self._producer.commit_transaction)
        except KafkaException as raised:
            return self._told_after(raised.args[0])
        return "committed"

    def _told_after(self, error: KafkaError) -> str:
        """Abort after an error that demands it; after any other error a new producer settles the outcome."""
        if error.txn_requires_abort():
            try:
                self._ask(self._producer.abort_transaction)
            except KafkaException:
                self._is_late = True
            else:
                return "aborted"
        self._is_late = True
        return "unknown"

    def _send(self, rows: Sequence[Row], offsets: dict[int, int]) -> None:
        give_up_s = monotonic_s() + _ANSWERED_WITHIN_S
        for row in rows:
            record, reported = record_of(row), partial(self._reported, row, offsets)
            while True:
                try:
                    self._producer.produce(self._topic, on_delivery=reported, **record)
                except BufferError:
                    self._producer.poll(0.05)
                else:
                    break
        while self._producer.flush(_TURN_S) and monotonic_s() < min(give_up_s, self._stop_by_s):
            pass

    def _reported(self, row: Row, offsets: dict[int, int], error: KafkaError | None, message: Message) -> None:
        offset = message.offset()
        if error is None and offset is not None and offset >= 0:
            offsets[row.id] = offset
        if error is not None and outcome(error) == "fail":
            self._refused.add(row.id)
            self.why = error.str()

    def _ask(self, call: Callable[[float], object]) -> None:
        """Make a call, and repeat it while it times out, as librdkafka demands; note whether its request may be sent twice.

        Raises:
            KafkaException: the call failed, or was not answered in time.
        """
        began_s = monotonic_s()
        while True:
            try:
                call(_TURN_S)
            except KafkaException as raised:
                if not raised.args[0].retriable() or monotonic_s() >= min(began_s + _ANSWERED_WITHIN_S, self._stop_by_s):
                    raise
            else:
                break
        self._is_late = self._is_late or monotonic_s() - began_s >= _AT_ONCE_S

    def _initialise(self) -> None:
        """Begin the first epoch, or with a new producer the next one, which ends an open transaction of the one before.

        Raises:
            KafkaException: no broker did so in time.
        """
        if self._transaction:
            self._producer = self._made()
        self._producer.list_topics(timeout=_ANSWERED_WITHIN_S)  # otherwise a 500 ms timer looks up the coordinator
        self._ask(self._producer.init_transactions)
        self._is_late = False
