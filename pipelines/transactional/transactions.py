"""``exactly_once``: rows and positions are one transaction, and no late request can end another.

A request that was not answered at once may still be delivered: the client gives up on a connection, sends again on another
one, goes on, and what was held on the way arrives. An EndTxn that arrives so late ends the *next* transaction of the same
epoch, rows without positions (Kafka before transactions v2, KIP-890; librdkafka 2.16 has no v2). So after each transaction
it is asked whether any request about it may have been sent twice, and if so there is a new producer: ``init_transactions``
bumps the epoch, and the late request is fenced.

How it can be known: librdkafka retries inside ``commit_transaction`` and says nothing about it, but never before
``retry.backoff.ms``, of which it takes up to a fifth away at random. What took less was sent once and answered.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from pipelines.pace import monotonic_s
from pipelines.patience import HungError, send_offsets
from pipelines.throttled_events import Voice
from pipelines.transactional.delivery import Batch, BrokenError, FencedError, Place, common, enqueue
from pipelines.transactional.pipeline import ConsumeTransformProduce, transactional_id

_JITTER = 0.2  # RD_KAFKA_RETRY_JITTER_PERCENT
_RENEWALS = 10
_FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})  # noqa: SLF001


class Transactions:
    """One transactional.id, and the producers that have it one after the other."""

    def __init__(
        self, worker: int, options: ConsumeTransformProduce, place: Place, voice: Voice, stopped: Callable[[], bool]
    ) -> None:
        """Make a producer; `prepare` gives it its epoch."""
        self._worker = worker
        self._options = options
        self._place = place
        self._voice = voice
        self._stopped = stopped
        self._chance = Random(f"{options.seed}-{worker}")  # noqa: S311 - a seed is the point
        self._within_s = 2 * options.socket_timeout_ms / 1000
        self._renewals = 0
        self._slowest_ms = 0
        self._producer = self._made()

    def prepare(self) -> None:
        """Fence whoever had this transactional.id, and wait for what it left to be committed or aborted."""
        try:
            self._initialise()
        except KafkaException as raised:
            self._renew(raised.args[0])

    def deliver(self, batch: Batch, consumer: Consumer) -> str:
        """One transaction."""
        self._slowest_ms = 0
        try:
            failed = self._transact(batch, consumer)
            self._renewals = 0
        except KafkaException as raised:
            failed = self._recover(raised.args[0])
        except HungError as error:
            failed = str(error)
            self._renew(failed)
        if self._slowest_ms and self._options.producer_per == "unanswered":
            self._renew(f"an answer took {self._slowest_ms} ms")
        return failed

    def _transact(self, batch: Batch, consumer: Consumer) -> str:
        self._producer.begin_transaction()
        enqueue(self._producer, self._place.sink, batch.rows)
        self._producer.flush(self._within_s)  # rows that come late are known by their sequence: no reason for a new producer
        if self._chance.random() < self._options.transaction_failure_probability:
            self._ask(self._producer.abort_transaction)
            return "chance"
        positions, member = batch.positions(self._place.source), consumer.consumer_group_metadata()
        self._ask(lambda within_s: self._send_offsets(positions, member, within_s))
        self._ask(self._producer.commit_transaction)
        return ""

    def _send_offsets(self, positions: list[TopicPartition], member: Any, within_s: float) -> None:
        """One producer for ever has nothing to put in the place of one that hangs.

        Raises:
            HungError: it must be replaced.
        """
        if self._options.producer_per == "process":
            self._producer.send_offsets_to_transaction(positions, member, within_s)
        else:
            send_offsets(self._producer, positions, member, within_s)

    def _ask(self, call: Callable[[float], object]) -> None:
        """Make a call, and take note when its request may have been sent twice.

        Raises:
            KafkaException: it failed, or nobody answered in time.
        """
        began_s = monotonic_s()
        while not self._made_once(call):
            pass
        took_ms = round(1000 * (monotonic_s() - began_s))
        if took_ms >= (1 - _JITTER) * self._options.retry_backoff_ms:
            self._slowest_ms = max(self._slowest_ms, took_ms)

    def _made_once(self, call: Callable[[float], object]) -> bool:
        """Whether it came to an end; one producer for ever must resume what timed out, as librdkafka asks for."""
        try:
            call(self._within_s)
        except KafkaException as raised:
            if self._options.producer_per == "process" and raised.args[0].retriable() and not self._stopped():
                return False
            raise
        return True

    def _recover(self, error: KafkaError) -> str:
        """Bring the producer back to where a transaction can begin.

        An error that is neither fatal nor abortable leaves the outcome open: ``init_transactions`` of a new producer settles
        it, and the committed positions tell which way.
        """
        if error.fatal() or not error.txn_requires_abort():
            self._renew(error)
            return f"its outcome was open: {error}"
        try:
            self._ask(self._producer.abort_transaction)
        except KafkaException as raised:
            self._renew(raised.args[0])
        return str(error)

    def _renew(self, why: KafkaError | str) -> None:
        """A new producer, and with it a new epoch.

        Raises:
            FencedError: the old one was fenced, so this epoch is somebody else's.
            BrokenError: too many in a row without a transaction between them.
        """
        self._slowest_ms = 0
        while not self._stopped():
            self._refuse_if_fenced(why)
            self._renewals += 1
            self._voice.count("renewed", self._worker, 0, why=str(why))
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
        """After ``produce`` only the next call tells what was fatal."""
        if isinstance(why, KafkaError) and why.code() == KafkaError._FATAL:  # noqa: SLF001 - no other name
            try:
                self._producer.abort_transaction(self._within_s)
            except KafkaException as raised:
                why = raised.args[0]
        if isinstance(why, KafkaError) and why.code() in _FENCED:
            raise FencedError(str(why))

    def _initialise(self) -> None:
        self._producer.list_topics(timeout=self._within_s)  # else the coordinator is asked for by a 500 ms timer
        self._producer.init_transactions(self._within_s)

    def _made(self) -> Producer:
        return Producer(
            common(self._options, self._place)
            | {
                "transactional.id": transactional_id(self._place.source, self._worker),
                "transaction.timeout.ms": self._options.transaction_timeout_ms,
                "message.timeout.ms": self._options.transaction_timeout_ms,
            }
        )
