"""The square pipeline: Structured Streaming reads ``datasource``, squares, writes ``datasink``, partition by partition.

``exactly_once`` writes through `pipelines.spark_square.sink` and keeps its position in a consumer group, committed with the
rows. ``at_least_once`` is Spark's stock Kafka sink (``KafkaStreamingWrite``: it has no commit coordinator, so any retry writes
again) and keeps its position in the checkpoint.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame

from chaos.subject import clients, models
from chaos.subject.base import CHECKPOINT, Command, Endpoints, Topics
from chaos.subject.checkpoint import checkpointed
from pipelines.spark_square.sink import transactional_id

_HOME = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class SparkSquare:
    """The pipeline.

    Attributes:
        delivery: ``exactly_once`` or ``at_least_once``.
        batch_records: ``maxOffsetsPerTrigger``, over all partitions.
        home: the folder that contains the package `pipelines`, for driver and executors.
        speculation: whether a task that takes much longer than the others gets a copy.
    """

    delivery: str = "exactly_once"
    batch_records: int = 3000
    home: Path = _HOME
    speculation: bool = False

    def command(self, endpoints: Endpoints, topics: Topics, folder: Path) -> Command:
        options = {
            "--delivery": self.delivery,
            "--batch-records": str(self.batch_records),
            "--master": endpoints.spark_master,
            "--kafka": endpoints.kafka,
            "--source": topics.source,
            "--sink": topics.sink,
            "--application": application(topics),
            "--checkpoint": str(folder / CHECKPOINT),
            "--host": endpoints.host,
            "--jars": ":".join(endpoints.jars),
            "--home": str(self.home),
        }
        words = (word for pair in options.items() for word in pair)
        env = {
            "PYTHONPATH": str(self.home),
            "PYSPARK_PYTHON": sys.executable,  # the executors' too
            "SPARK_LOCAL_IP": endpoints.host,
            "SPARK_SCALA_VERSION": "2.13",
            **clients.option_variables(endpoints),
        }
        flags = ("--speculation",) if self.speculation else ()
        argv = (
            sys.executable,
            "-m",
            "pipelines.spark_square.driver",
            *words,
            f"--java-options={endpoints.java_options}",
            *flags,
        )
        return Command(argv, env)

    def prepare(self, endpoints: Endpoints, topics: Topics) -> None:
        """Seed the group: position 0 in every source partition. Once, before the first start, never at a restart."""
        if self.delivery == "exactly_once":
            clients.seed(endpoints, application(topics), topics)

    def positions(self, endpoints: Endpoints, topics: Topics, folder: Path) -> Mapping[int, int]:
        """The positions of the group, or of the newest batch that is committed in the checkpoint.

        Raises:
            KafkaException: the group's coordinator did not answer.
        """
        if self.delivery == "at_least_once":
            return checkpointed(folder / CHECKPOINT, topics.source)
        return clients.positions(endpoints, application(topics), topics)

    def expected(self, source: DataFrame) -> DataFrame:
        """Each id once, squared, in the partition of its first record; that record demands the row."""
        return models.expected(source, "square")

    def consumer_group(self, topics: Topics) -> str:
        """Its consumer group; empty if its position is in the checkpoint."""
        return application(topics) if self.delivery == "exactly_once" else ""

    def transactional_ids(self, topics: Topics) -> tuple[str, ...]:
        """By source partition."""
        if self.delivery == "at_least_once":
            return ()
        return tuple(transactional_id(application(topics), topics.source, partition) for partition in range(topics.partitions))


def application(topics: Topics) -> str:
    """The consumer group, and the prefix of the transactional ids; both begin with the name of the sink."""
    return f"{topics.sink}-square"
