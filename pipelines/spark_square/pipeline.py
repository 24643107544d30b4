"""The square pipeline: Structured Streaming reads ``datasource``, squares, writes ``datasink``, partition by partition.

``exactly_once`` writes through `pipelines.spark_square.sink` and keeps its position in a consumer group, committed with the
rows. ``at_least_once`` is Spark's stock Kafka sink (``KafkaStreamingWrite``: no commit coordinator, any retry writes again) and
keeps its position in the checkpoint.
"""

import json
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition
from pyspark.sql import DataFrame
from pyspark.sql.functions import expr

from pipelines.base import Command, Endpoints, Topics
from pipelines.options import variables
from pipelines.spark_square.sink import transactional_id

CHECKPOINT = "checkpoint"
_SQUARED = "CAST(CAST(value AS DECIMAL(38, 0)) * CAST(value AS DECIMAL(38, 0)) AS STRING)"
_HOME = Path(__file__).parents[2]
_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True)
class SparkSquare:
    """The pipeline.

    Attributes:
        delivery: ``exactly_once`` or ``at_least_once``.
        batch_records: ``maxOffsetsPerTrigger``, over all partitions.
        home: the folder that holds the package `pipelines`, for driver and executors.
        speculation: a task that takes much longer than the others gets a copy.
    """

    delivery: str = "exactly_once"
    batch_records: int = 3000
    home: Path = _HOME
    speculation: bool = False

    def command(self, endpoints: Endpoints, topics: Topics, folder: Path) -> Command:
        """The driver."""
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
            **variables(endpoints),
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
            start = [TopicPartition(topics.source, partition, 0) for partition in range(topics.partitions)]
            with closing(_group(endpoints, topics)) as group:
                group.commit(offsets=start, asynchronous=False)

    def positions(self, endpoints: Endpoints, topics: Topics, folder: Path) -> Mapping[int, int]:
        """Of the group, or of the newest batch that the checkpoint calls committed.

        Raises:
            KafkaException: the group's coordinator did not answer.
        """
        if self.delivery == "at_least_once":
            return checkpointed(folder / CHECKPOINT, topics.source)
        asked = [TopicPartition(topics.source, partition) for partition in range(topics.partitions)]
        with closing(_group(endpoints, topics)) as group:
            found = group.committed(asked, timeout=_WITHIN_S)
        for one in found:
            if one.error is not None:
                raise KafkaException(one.error)
        return {one.partition: one.offset for one in found if one.offset >= 0}

    def expected(self, source: DataFrame) -> DataFrame:
        """Each id once, in its own partition, squared; an id that is in the source twice is demanded by its first record."""
        rows = source.selectExpr("CAST(key AS BIGINT) AS id", "partition", "offset", f"{_SQUARED} AS value")
        firsts = rows.groupBy("id").agg(expr("min_by(struct(partition, value, offset), struct(partition, offset)) AS first"))
        return firsts.selectExpr("id", "first.partition", "first.value", "true AS required", "first.offset AS position")

    def consumer_group(self, topics: Topics) -> str:
        """Its consumer group; empty when its position is in the checkpoint."""
        return application(topics) if self.delivery == "exactly_once" else ""

    def transactional_ids(self, topics: Topics) -> tuple[str, ...]:
        """By source partition."""
        if self.delivery == "at_least_once":
            return ()
        return tuple(transactional_id(application(topics), topics.source, partition) for partition in range(topics.partitions))


def application(topics: Topics) -> str:
    """Name of the application: its consumer group, and the prefix of its transactional ids. It begins as its topics do."""
    return f"{topics.sink}-square"


def checkpointed(checkpoint: Path, topic: str) -> Mapping[int, int]:
    """End offsets of the newest batch N that has both ``offsets/N`` and ``commits/N``.

    Spark writes the first when it plans the batch and the second when all tasks have ended. A file cut short by a crash counts
    as absent. Format: ``OffsetSeqLog``, a version, a line of metadata, then one line for each source.
    """
    done = sorted((int(path.name) for path in (checkpoint / "commits").glob("[0-9]*") if path.name.isdigit()), reverse=True)
    found = (planned(checkpoint / "offsets" / str(batch), topic) for batch in done)
    return next((ends for ends in found if ends), {})


def planned(log: Path, topic: str) -> Mapping[int, int]:
    """Partition -> end offset, exclusive; empty if the file does not say."""
    try:
        last = json.loads(log.read_text(encoding="utf-8").splitlines()[-1])
        return {int(partition): int(offset) for partition, offset in last[topic].items()}
    except (FileNotFoundError, IndexError, json.JSONDecodeError, KeyError):
        return {}


def _group(endpoints: Endpoints, topics: Topics) -> Consumer:
    """Asks for positions; read_committed has the broker wait for a commit underway (require_stable, KIP-447)."""
    return Consumer(
        {
            **endpoints.options,
            "bootstrap.servers": endpoints.audit,
            "group.id": application(topics),
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
