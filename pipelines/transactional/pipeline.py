"""ConsumeTransformProduce: the plain transactional application of Kafka's documentation, without Spark.

    datasource ──consume──▶ square ──produce──▶ datasink          same key, same partition
                              └──positions──▶ the consumer group   in the same transaction (KIP-98, KIP-447)

``exactly_once``   positions and rows are one transaction
``at_least_once``  rows first, then positions: whoever dies between the two writes the rows again
``at_most_once``   positions first, then rows: whoever dies between the two never writes them

How a batch is delivered is in `pipelines.transactional.delivery`, how a worker reads in `pipelines.transactional.worker`.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark.sql import DataFrame

from pipelines import kafka
from pipelines.base import Command, Endpoints, Topics
from pipelines.options import variables
from pipelines.spark_square.pipeline import SparkSquare

DELIVERIES = ("exactly_once", "at_least_once", "at_most_once")
PRODUCERS_PER = ("unanswered", "process")
RESETS = ("error", "earliest", "latest")
_WORKERS = 9  # one digit: members are told apart by the order of their names


@dataclass(frozen=True, slots=True)
class ConsumeTransformProduce:
    """The pipeline.

    Attributes:
        delivery: ``exactly_once``, ``at_least_once`` or ``at_most_once``.
        workers: members of the consumer group, each with a transactional.id of its own.
        batch_records: the most records of one transaction.
        interval_ms: the longest time that a transaction waits for records before it goes with those it has.
        transaction_failure_probability: of a transaction to be aborted when all of it is written, 0..1.
        seed: of these failures.
        producer_per: ``unanswered`` makes a new producer after a transaction that was not answered at once; ``process`` keeps
            one, whose late commit request can end a later transaction.
        auto_offset_reset: where a worker begins without a position: ``earliest``, ``latest``, or ``error``, and it ends.
        socket_timeout_ms: for the answer to any request.
        retry_backoff_ms: before a request is sent again; what takes less than this was sent once.
        transaction_timeout_ms: the coordinator aborts a transaction that is older.
        session_timeout_ms: the group excludes a member that is silent for longer.
    """

    delivery: str = "exactly_once"
    workers: int = 3
    batch_records: int = 500
    interval_ms: int = 100
    transaction_failure_probability: float = 0.0
    seed: int = 0
    producer_per: str = "unanswered"
    auto_offset_reset: str = "error"
    socket_timeout_ms: int = 3000
    retry_backoff_ms: int = 250
    transaction_timeout_ms: int = 20_000
    session_timeout_ms: int = 6000

    def __post_init__(self) -> None:
        """Refuse what cannot be meant.

        Raises:
            ValueError: one line for the first thing that is wrong.
        """
        wrong = next((sentence for is_wrong, sentence in self._rules() if is_wrong), None)
        if wrong:
            raise ValueError(wrong)

    def _rules(self) -> tuple[tuple[bool, str], ...]:
        probability, delivery = self.transaction_failure_probability, self.delivery
        return (
            (delivery not in DELIVERIES, f"delivery {delivery!r} is none of {', '.join(DELIVERIES)}"),
            (
                self.producer_per not in PRODUCERS_PER,
                f"producer_per {self.producer_per!r} is none of {', '.join(PRODUCERS_PER)}",
            ),
            (
                self.auto_offset_reset not in RESETS,
                f"auto_offset_reset {self.auto_offset_reset!r} is none of {', '.join(RESETS)}",
            ),
            (not 1 <= self.workers <= _WORKERS, f"workers must be 1 to {_WORKERS}, not {self.workers}"),
            (self.batch_records < 1, f"batch_records must be 1 or more, not {self.batch_records}"),
            (not 0 <= probability <= 1, f"transaction_failure_probability must be 0 to 1, not {probability}"),
            (probability > 0 and delivery != "exactly_once", f"{delivery} has no transactions that could fail"),
        )

    def command(self, endpoints: Endpoints, topics: Topics, folder: Path) -> Command:  # noqa: ARG002 - it keeps no files
        """The process."""
        options = {
            "--kafka": endpoints.kafka,
            "--source": topics.source,
            "--sink": topics.sink,
            "--options": json.dumps(asdict(self)),
        }
        words = (word for pair in options.items() for word in pair)
        return Command((sys.executable, "-m", "pipelines.transactional.process", *words), variables(endpoints))

    def prepare(self, endpoints: Endpoints, topics: Topics) -> None:
        """Seed the group."""
        kafka.seed(endpoints, application(topics.source), topics)

    def positions(self, endpoints: Endpoints, topics: Topics, folder: Path) -> Mapping[int, int]:  # noqa: ARG002
        """Of the group, whatever the delivery."""
        return kafka.positions(endpoints, application(topics.source), topics)

    def expected(self, source: DataFrame) -> DataFrame:
        """What any square pipeline must write."""
        return SparkSquare().expected(source)

    def consumer_group(self, topics: Topics) -> str:
        """Its consumer group."""
        return application(topics.source)

    def transactional_ids(self, topics: Topics) -> tuple[str, ...]:
        """By source partition, as long as all workers live: when one is gone, the others share its partitions."""
        if self.delivery != "exactly_once":
            return ()
        return tuple(
            transactional_id(topics.source, _owner(partition, topics.partitions, self.workers))
            for partition in range(topics.partitions)
        )


def application(source: str) -> str:
    """The consumer group, and the prefix of the transactional ids. It begins as the source does."""
    return f"{source}-ctp"


def transactional_id(source: str, worker: int) -> str:
    """One for each worker, for ever."""
    return f"{application(source)}-{worker}"


def _owner(partition: int, partitions: int, workers: int) -> int:
    """Which worker the ``range`` assignor gives a partition: the first ones get one more when it does not come out even."""
    share, more = divmod(partitions, workers)
    bounds = [(worker + 1) * share + min(worker + 1, more) for worker in range(workers)]
    return next(worker for worker, bound in enumerate(bounds) if partition < bound)
