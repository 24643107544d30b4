"""The options of the application, which are its command line: ``--batch-records 500``, ``--session-timeout 6s``."""

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import TypeVar

DELIVERIES = ("exactly_once", "at_least_once", "at_most_once")
_WORDS = {
    "delivery": DELIVERIES,
    "producer_per": ("unanswered", "process"),
    "auto_offset_reset": ("error", "earliest", "latest"),
    "transactional_ids": ("own", "shared"),
    "acks": ("all", "1", "0"),
    "positions": ("application", "client"),
    "isolation": ("read_committed", "read_uncommitted"),
    "group_metadata": ("sent", "left_out"),
    "stored_offset": ("next", "last"),
    "failed_batch": ("again", "forgotten"),
    "open_outcome": ("asked", "rolled_back"),
}
_WORKERS = 9  # one digit, because partitions are assigned in the order of the members' names
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)")
_MS = {"ms": 1, "s": 1000, "m": 60_000}
_TRUTH = {"true": True, "false": False}
_PLACE = ("kafka", "source", "sink", "group")


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the application.

    Attributes:
        delivery: ``exactly_once``, ``at_least_once`` or ``at_most_once``.
        workers: members of the consumer group, each with a transactional.id of its own.
        instance: number of this process among several in one group, from 1; their workers have different numbers.
        batch_records: the most records of one transaction.
        interval_ms: longest wait of a transaction for records before it goes on with those it has.
        transaction_failure_probability: probability of an abort after all of a transaction was written, 0..1.
        seed: seed of these aborts.
        producer_per: ``unanswered`` makes a new producer after a transaction that was not answered at once; ``process`` keeps
            the same one, whose late commit request can end a later transaction.
        transactional_ids: ``own``, one for each worker, or ``shared``, one for all, which then fence each other: a mistake.
        auto_offset_reset: start of a worker without a position: ``earliest``, ``latest``, or ``error`` to end instead.
        sink_partitions: rows of source partition i go to partition i mod so many; 0: to the partition of the same number.
        idempotence: for ``at_least_once``: whether brokers leave out rows that a retry sends again. ``at_most_once`` has no
            retries, and so no use for it; transactions cannot do without.
        acks: replicas that must have a row before it is acknowledged: ``all``, ``1`` or, without idempotence, ``0``: none, and
            the client counts it as written as soon as it is sent.
        positions: who commits them without transactions: the ``application``, a batch at a time, or the ``client``
            (``enable.auto.commit``), once a second, for all records that it has handed over, whether delivered or not.
        isolation: ``read_committed``, or ``read_uncommitted`` to read records that will be aborted, too.
        group_metadata: ``sent`` with the positions of a transaction, so that the group refuses those of a member that it has
            excluded (KIP-447), or ``left_out``, like older clients and programs.
        stored_offset: the position of a batch is the offset of the ``next`` record, or of its ``last`` one: a mistake, because
            whoever begins there reads that record again.
        failed_batch: an undelivered batch is read ``again``, or ``forgotten``: a mistake. With transactions the program goes on
            behind it; without, it ignores the fate of its rows, and commits their position.
        open_outcome: after a transaction of unknown outcome, the group is ``asked`` for its positions; or the transaction is
            taken for ``rolled_back``, and the batch is written again: a mistake.
        linger_ms: time that a request to write rows waits for more of them; it never waits after the batch is complete.
        request_records: the most rows of one request; 0: as many as the client puts into one.
        socket_timeout_ms: time to wait for the answer to a request.
        retry_backoff_ms: time before a request is sent again; a request that was answered sooner was sent once.
        transaction_timeout_ms: the coordinator aborts a transaction that is older.
        session_timeout_ms: the group excludes a member that is silent for longer.
        max_poll_interval_ms: and, in a rebalance, one that does not read for longer; 0 is long enough for three transactions.
    """

    delivery: str = "exactly_once"
    workers: int = 3
    instance: int = 1
    batch_records: int = 500
    interval_ms: int = 100
    transaction_failure_probability: float = 0.0
    seed: int = 0
    producer_per: str = "unanswered"
    transactional_ids: str = "own"
    auto_offset_reset: str = "error"
    sink_partitions: int = 0
    idempotence: bool = True
    acks: str = "all"
    positions: str = "application"
    isolation: str = "read_committed"
    group_metadata: str = "sent"
    stored_offset: str = "next"
    failed_batch: str = "again"
    open_outcome: str = "asked"
    linger_ms: int = 5
    request_records: int = 0
    socket_timeout_ms: int = 3000
    retry_backoff_ms: int = 250
    transaction_timeout_ms: int = 20_000
    session_timeout_ms: int = 6000
    max_poll_interval_ms: int = 0

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: one line about the first wrong value.
        """
        wrong = next((sentence for is_wrong, sentence in self._rules() if is_wrong), None)
        if wrong:
            raise ValueError(wrong)

    def _rules(self) -> tuple[tuple[bool, str], ...]:
        probability, delivery = self.transaction_failure_probability, self.delivery
        transactions = delivery == "exactly_once"
        return (
            *(
                (getattr(self, name) not in words, f"{name} must be one of {', '.join(words)}, not {getattr(self, name)!r}")
                for name, words in _WORDS.items()
            ),
            (
                self.acks != "all" and delivery != "at_most_once" and self.idempotence,
                f"acks {self.acks} needs idempotence false: an idempotent producer waits for all replicas",
            ),
            (transactions and not self.idempotence, "exactly_once needs idempotence true"),
            (transactions and self.positions != "application", "exactly_once commits positions in its transactions"),
            (
                not transactions and self.group_metadata != "sent",
                f"{delivery} has no transactions to leave group_metadata out of",
            ),
            (delivery == "at_most_once" and self.positions != "application", "at_most_once commits positions before rows"),
            (delivery == "at_most_once" and self.failed_batch != "again", "at_most_once forgets a failed batch in any case"),
            (not transactions and self.open_outcome != "asked", f"{delivery} has no transactions whose outcome could be open"),
            (not 1 <= self.workers <= _WORKERS, f"workers must be 1 to {_WORKERS}, not {self.workers}"),
            (self.instance < 1, f"instance must be 1 or more, not {self.instance}"),
            (self.sink_partitions < 0, f"sink_partitions must be 0 or more, not {self.sink_partitions}"),
            (self.batch_records < 1, f"batch_records must be 1 or more, not {self.batch_records}"),
            (self.request_records < 0, f"request_records must be 0 or more, not {self.request_records}"),
            (
                0 < self.max_poll_interval_ms < self.session_timeout_ms,
                "max_poll_interval must not be shorter than session_timeout",
            ),
            (not 0 <= probability <= 1, f"transaction_failure_probability must be 0 to 1, not {probability}"),
            (probability > 0 and not transactions, f"{delivery} has no transactions that could fail"),
        )

    @property
    def numbers(self) -> range:
        """Numbers of its workers."""
        return range((self.instance - 1) * self.workers, self.instance * self.workers)

    def transactional_id(self, group: str, worker: int) -> str:
        """Transactional id of a worker, equal after a restart."""
        return transactional_id(group, 0 if self.transactional_ids == "shared" else worker)


Chosen = TypeVar("Chosen", bound=Options)


def parsed(
    words: Sequence[str] | None = None,
    *,
    kind: type[Chosen],
    description: str = "datasource -> square -> datasink, without Spark",
) -> tuple[argparse.Namespace, Chosen]:
    """Parse the command line: addresses and names (``kafka``, ``source``, ``sink``, ``group``), and the options.

    Every field of this kind of `Options` is an option; ``…_ms`` is written without it, as a duration: ``--session-timeout 6s``.
    """
    parser = argparse.ArgumentParser(description=description)
    for name in _PLACE:
        parser.add_argument(f"--{name}", required=True)
    for field in fields(kind):
        assert field.default is not MISSING  # noqa: S101 - a slip of ours
        option = field.name.removesuffix("_ms").replace("_", "-")
        reads: Callable[[str], object] = _milliseconds if field.name.endswith("_ms") else type(field.default)
        reads = _truth if reads is bool else reads
        parser.add_argument(f"--{option}", dest=field.name, type=reads, default=field.default)
    arguments = parser.parse_args(words)
    try:
        return arguments, kind(**{field.name: getattr(arguments, field.name) for field in fields(kind)})
    except ValueError as error:
        parser.error(str(error))


def _milliseconds(text: str) -> int:
    """Parse a duration.

    Raises:
        ArgumentTypeError: it is not a duration.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration; write 250ms, 6s or 2m")
    return round(float(match[1]) * _MS[match[2]])


def _truth(text: str) -> bool:
    """Parse a truth value.

    Raises:
        ArgumentTypeError: it is not a truth value.
    """
    if text not in _TRUTH:
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return _TRUTH[text]


def transactional_id(group: str, worker: int) -> str:
    """Name of a worker, equal after a restart: of its consumer and, if each has its own, of its transactions."""
    return f"{group}-{worker}"


def speaker(worker: int) -> str:
    """Name of a worker in statements: each has a consumer and a producer of its own."""
    return f"worker-{worker}"
