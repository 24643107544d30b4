"""The loader with transactions: so many ids in each, one after the other, and the same ledger.

An id is ``ok`` when its transaction was told committed, and ``unknown`` when its outcome was never learned. A transaction that
was aborted leaves nothing: its ids are sent again in the next one. What the client tells is stated as well (docs/adapters.md).

A request to end a transaction that was not answered at once may have been sent twice, and the second one may arrive in the
middle of the next transaction. So a new producer takes over then, with a new epoch, which fences the late request
(docs/findings/late-commit.md explains this).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TextIO

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from chaos.common.clock import monotonic_s
from chaos.common.messages import state
from chaos.loader.plain import HEADER, Stoppable, due

TRANSACTION_TIMEOUT_MS = 20_000
RETRY_BACKOFF_MS = 250
_AT_ONCE_S = 0.8 * RETRY_BACKOFF_MS / 1000  # librdkafka sends nothing again before that (RD_KAFKA_RETRY_JITTER_PERCENT)
_ANSWERED_WITHIN_S = 60.0
_TURN_S = 0.5  # in which a signal is heard


def transactional_id(source: str) -> str:
    """It begins with the name of the source, as all that a pipeline uses on a shared cluster."""
    return f"{source}-loader"


def transactional(settings: dict[str, Any], transactional_id: str) -> dict[str, Any]:
    """The settings of the loader's producer, with transactions."""
    return settings | {
        "transactional.id": transactional_id,
        "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
        "delivery.timeout.ms": TRANSACTION_TIMEOUT_MS,
        "retry.backoff.ms": RETRY_BACKOFF_MS,
    }


class TransactionalLoader(Stoppable):
    """Sends the ids, and keeps the ledger."""

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
        self.sent = 0
        ledger.write(HEADER)
        self._producer = made()

    def run(self, records: int, rate_per_s: float) -> None:
        """Send ids at the rate, each transaction when its last id is due, until all are sent or `stop` is called.

        Raises:
            KafkaException: no producer could be initialised; the ledger is complete nevertheless.
        """
        self._initialise()
        began_s = monotonic_s()
        for begin in range(0, records, self._transaction_records):
            ids = range(begin, min(records, begin + self._transaction_records))
            while not self.stopped and ids[-1] >= due(records, rate_per_s, monotonic_s() - began_s):
                self._producer.poll(0.01)
            told = "aborted"
            while told == "aborted" and not self.stopped:
                told = self._transact(ids)
                if self._is_late and not self.stopped:
                    self._initialise()

    def _transact(self, ids: Sequence[int]) -> str:
        """Try to commit these; returns what was told."""
        self._transaction += 1
        self._is_late = False
        offsets: dict[int, int] = {}
        state(begin=self._transaction, ids=[str(number) for number in ids])
        told = self._told(ids, offsets)
        state(told=told, transaction=self._transaction)
        if told != "aborted":
            outcome = "ok" if told == "committed" else "unknown"
            for number in ids:
                home = f"{number % self._partitions},{offsets.get(number, '')}" if told == "committed" else ","
                self._ledger.write(f"{number},{outcome},{home}\n")
            self._ledger.flush()
            self.sent += len(ids)
        return told

    def _told(self, ids: Sequence[int], offsets: dict[int, int]) -> str:
        try:
            self._producer.begin_transaction()
            self._send(ids, offsets)
            self._ask(self._producer.commit_transaction)
        except KafkaException as raised:
            return self._told_after(raised.args[0])
        return "committed"

    def _told_after(self, error: KafkaError) -> str:
        """An error that demands an abort leaves the outcome to us; after any other a new producer settles it."""
        if error.txn_requires_abort():
            try:
                self._ask(self._producer.abort_transaction)
            except KafkaException:
                self._is_late = True
            else:
                return "aborted"
        self._is_late = True
        return "unknown"

    def _send(self, ids: Sequence[int], offsets: dict[int, int]) -> None:
        give_up_s = monotonic_s() + _ANSWERED_WITHIN_S
        for number in ids:
            text = str(number).encode()
            where: dict[str, Any] = {"partition": number % self._partitions, "on_delivery": partial(_reported, offsets)}
            while True:
                try:
                    self._producer.produce(self._topic, key=text, value=text, **where)
                except BufferError:
                    self._producer.poll(0.05)
                else:
                    break
        while self._producer.flush(_TURN_S) and monotonic_s() < min(give_up_s, self._stop_by_s):
            pass

    def _ask(self, call: Callable[[float], object]) -> None:
        """Make a call, again while it times out, as librdkafka demands; note whether its request may have been sent twice.

        Raises:
            KafkaException: it failed, or was not answered in time.
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
        """Make the first epoch, or with a new producer the next: what the one before left is committed or aborted then.

        Raises:
            KafkaException: no broker did so in time.
        """
        if self._transaction:
            self._producer = self._made()
        self._producer.list_topics(timeout=_ANSWERED_WITHIN_S)  # otherwise the coordinator is looked up by a 500 ms timer
        self._ask(self._producer.init_transactions)
        self._is_late = False


def _reported(offsets: dict[int, int], error: KafkaError | None, message: Message) -> None:
    offset = message.offset()
    if error is None and offset is not None and offset >= 0:
        offsets[int(message.key() or b"-1")] = offset
