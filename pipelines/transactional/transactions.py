"""``exactly_once``: rows and positions are one transaction, and no late request can end another transaction.

A request that was not answered at once may still be delivered: the client gives up on a connection, sends the request again on
another one and goes on, and then the delayed request arrives. An EndTxn that arrives so late ends the *next* transaction of the
same epoch, which has rows but no positions yet (Kafka before transactions v2, KIP-890; librdkafka 2.16 has no v2). So after
each transaction the worker checks whether any of its requests may have been sent twice. If so, it makes a new producer:
``init_transactions`` bumps the epoch, and the late request is fenced.

The check rests on time: librdkafka retries inside ``commit_transaction`` without reporting it, but never before
``retry.backoff.ms`` less a random part of up to a fifth. A call that took less was sent once and answered.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from pipelines.kafka import HungError, send_offsets
from pipelines.messages import ThrottledEvents, monotonic_s
from pipelines.transactional.delivery import Batch, BrokenError, FencedError, Place, RowsError, common, enqueue
from pipelines.transactional.options import Options, speaker

_JITTER = 0.2  # RD_KAFKA_RETRY_JITTER_PERCENT
_RENEWALS = 10
_FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})  # noqa: SLF001


class Transactions:
    """One transactional.id, and the producers that use it one after the other."""

    def __init__(
        self, worker: int, options: Options, place: Place, events: ThrottledEvents, stopped: Callable[[], bool]
    ) -> None:
        """Make a producer; `prepare` gives it its epoch."""
        self._worker = worker
        self._options = options
        self._place = place
        self._events = events
        self._stopped = stopped
        self._chance = Random(f"{options.seed}-{worker}")  # noqa: S311 - a seed is the point
        self._within_s = 2 * options.socket_timeout_ms / 1000
        self._renewals = 0
        self._slowest_ms = 0
        self._transaction = 0
        self._told = ""
        self._nobody = Consumer(_no_member(place)) if options.group_metadata == "left_out" else None
        self._producer = self._made()

    def prepare(self) -> None:
        """Fence earlier producers with this transactional.id, and wait until their transactions are committed or aborted."""
        try:
            self._initialise()
        except KafkaException as raised:
            self._renew(raised.args[0])

    def deliver(self, batch: Batch, consumer: Consumer) -> str:
        """State the client's answer: committed or aborted if its call returned, else unknown, whatever the real outcome."""
        self._slowest_ms = 0
        self._transaction += 1
        self._told = "unknown"
        name = speaker(self._worker)
        self._events.state(begin=self._transaction, by=name, ids=batch.keys)  # so the rows are known even without an answer
        try:
            failed = self._settle(batch, consumer)
        finally:
            self._events.state(told=self._told, transaction=self._transaction, by=name)
        if self._slowest_ms and self._options.producer_per == "unanswered":
            self._renew(f"an answer took {self._slowest_ms} ms")
        return failed

    def _settle(self, batch: Batch, consumer: Consumer) -> str:
        try:
            failed = self._transact(batch, consumer)
            self._renewals = 0
        except KafkaException as raised:
            failed = self._recover(raised.args[0])
        except HungError as error:
            failed = str(error)
            self._renew(failed)
        except RowsError as error:
            failed = str(error)
            self._roll_back()
        return failed

    def _transact(self, batch: Batch, consumer: Consumer) -> str:
        self._producer.begin_transaction()
        for topic, rows in ((self._place.sink, batch.rows), *batch.beside.items()):
            enqueue(self._producer, topic, rows)
        self._producer.flush(self._within_s)  # brokers recognise late rows by their sequence number
        if self._chance.random() < self._options.transaction_failure_probability:
            self._abort()
            return "chance"
        positions, member = batch.positions(self._place.source), (self._nobody or consumer).consumer_group_metadata()
        self._ask(lambda within_s: self._send_offsets(positions, member, within_s))
        self._ask(self._producer.commit_transaction)
        self._told = "committed"
        return ""

    def _abort(self) -> None:
        self._ask(self._producer.abort_transaction)
        self._told = "aborted"

    def _send_offsets(self, positions: list[TopicPartition], member: Any, within_s: float) -> None:
        """Send positions; with one producer per process there is no replacement for a hung one, so there is no deadline.

        Raises:
            HungError: the producer must be replaced.
        """
        if self._options.producer_per == "process":
            self._producer.send_offsets_to_transaction(positions, member, within_s)
        else:
            send_offsets(self._producer, positions, member, within_s)

    def _ask(self, call: Callable[[float], object]) -> None:
        """Make a call, and remember its duration if its request may have been sent twice.

        Raises:
            KafkaException: it failed, or got no answer in time.
        """
        began_s = monotonic_s()
        while not self._has_ended(call):
            pass
        took_ms = round(1000 * (monotonic_s() - began_s))
        if took_ms >= (1 - _JITTER) * self._options.retry_backoff_ms:
            self._slowest_ms = max(self._slowest_ms, took_ms)

    def _has_ended(self, call: Callable[[float], object]) -> bool:
        """Make the call; return False if it must be repeated, as librdkafka demands after a timeout."""
        try:
            call(self._within_s)
        except KafkaException as raised:
            if self._options.producer_per == "process" and raised.args[0].retriable() and not self._stopped():
                return False
            raise
        return True

    def _recover(self, error: KafkaError) -> str:
        """Bring the producer back to a state in which a transaction can begin.

        An error that is neither fatal nor abortable leaves the outcome open: ``init_transactions`` of a new producer settles
        it, and the committed positions show the outcome.
        """
        if error.fatal() or not error.txn_requires_abort():
            if self._options.open_outcome == "rolled_back":
                self._told = "aborted"  # an assumption without an answer
            self._renew(error)
            return f"its outcome was open: {error}"
        self._roll_back()
        return str(error)

    def _roll_back(self) -> None:
        try:
            self._abort()
        except KafkaException as raised:
            self._renew(raised.args[0])

    def _renew(self, why: KafkaError | str) -> None:
        """Make a new producer, and with it a new epoch.

        Raises:
            FencedError: the old one was fenced, so another worker has taken over.
            BrokenError: too many new ones in a row without a transaction between them.
        """
        self._slowest_ms = 0
        while not self._stopped():
            self._refuse_if_fenced(why)
            self._renewals += 1
            self._events.count("renewed", self._worker, 0, why=str(why))
            if self._renewals > _RENEWALS:
                raise BrokenError(f"{_RENEWALS} new producers in a row and no transaction: {why}")
            self._producer = self._made()
            try:
                self._initialise()
            except KafkaException as raised:
                why = raised.args[0]
            else:
                return

    def _refuse_if_fenced(self, why: KafkaError | str) -> None:
        """Raise FencedError after a fencing: ``produce`` reports only a fatal error, the next call its cause."""
        if isinstance(why, KafkaError) and why.code() == KafkaError._FATAL:  # noqa: SLF001 - it has no public name
            try:
                self._producer.abort_transaction(self._within_s)
            except KafkaException as raised:
                why = raised.args[0]
        if isinstance(why, KafkaError) and why.code() in _FENCED:
            raise FencedError(str(why))

    def _initialise(self) -> None:
        self._producer.list_topics(timeout=self._within_s)  # otherwise a 500 ms timer looks up the coordinator
        self._producer.init_transactions(self._within_s)

    def _made(self) -> Producer:
        return Producer(
            common(self._options, self._place)
            | {
                "transactional.id": self._options.transactional_id(self._place.group, self._worker),
                "transaction.timeout.ms": self._options.transaction_timeout_ms,
                "message.timeout.ms": self._options.transaction_timeout_ms,
            }
        )


def _no_member(place: Place) -> dict[str, str | int]:
    """Return settings of a consumer that never joins: its metadata has the group's name, but no member and generation."""
    return {**place.options, "bootstrap.servers": place.kafka, "group.id": place.group, "log_level": 2}
