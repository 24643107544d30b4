"""The plain transactional application of Kafka's documentation, consume-transform-produce, without Spark.

    datasource ──consume──▶ square ──produce──▶ datasink          same key, same partition
                              └──positions──▶ the consumer group   in the same transaction (KIP-98, KIP-447)

``exactly_once``   positions and rows are one transaction
``at_least_once``  rows first, then positions: a crash between the two makes it write the rows again
``at_most_once``   positions first, then rows: a crash between the two makes it lose the rows

How a batch is delivered is in `pipelines.transactional.delivery`, how a worker reads in `pipelines.transactional.worker`.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark.sql import DataFrame

from chaos.subject import clients, models
from chaos.subject.base import Command, Endpoints, Topics
from pipelines.transactional.options import Options, application, transactional_id


@dataclass(frozen=True, slots=True)
class ConsumeTransformProduce(Options):
    """The pipeline."""

    def command(self, endpoints: Endpoints, topics: Topics, folder: Path) -> Command:  # noqa: ARG002 - it keeps no files
        options = {
            "--kafka": endpoints.kafka,
            "--source": topics.source,
            "--sink": topics.sink,
            "--options": json.dumps(asdict(self)),
        }
        words = (word for pair in options.items() for word in pair)
        return Command((sys.executable, "-m", "pipelines.transactional.process", *words), clients.option_variables(endpoints))

    def prepare(self, endpoints: Endpoints, topics: Topics) -> None:
        clients.seed(endpoints, application(topics.source), topics)

    def positions(self, endpoints: Endpoints, topics: Topics, folder: Path) -> Mapping[int, int]:  # noqa: ARG002
        return clients.positions(endpoints, application(topics.source), topics)

    def expected(self, source: DataFrame) -> DataFrame:
        return models.expected(source, "square")

    def consumer_group(self, topics: Topics) -> str:
        return application(topics.source)

    def transactional_ids(self, topics: Topics) -> tuple[str, ...]:
        """By source partition while all workers live; when one is gone, the others share its partitions."""
        if self.delivery != "exactly_once":
            return ()
        return tuple(
            transactional_id(topics.source, _owner(partition, topics.partitions, self.workers))
            for partition in range(topics.partitions)
        )


def _owner(partition: int, partitions: int, workers: int) -> int:
    """The worker that the ``range`` assignor gives a partition: the first ones get one more if the shares are not even."""
    share, more = divmod(partitions, workers)
    bounds = [(worker + 1) * share + min(worker + 1, more) for worker in range(workers)]
    return next(worker for worker, bound in enumerate(bounds) if partition < bound)
