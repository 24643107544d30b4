"""A consumer group that holds a pipeline's positions: seeded once at deployment, asked from outside at any time."""

from collections.abc import Mapping
from contextlib import closing

from confluent_kafka import Consumer, KafkaException, TopicPartition

from pipelines.base import Endpoints, Topics

_WITHIN_S = 10.0


def seed(endpoints: Endpoints, group: str, topics: Topics) -> None:
    """Commit position 0 in every source partition. Once, before the first member joins, never at a restart.

    Raises:
        KafkaException: the group's coordinator did not answer.
    """
    start = [TopicPartition(topics.source, partition, 0) for partition in range(topics.partitions)]
    with closing(_asker(endpoints, group)) as asker:
        asker.commit(offsets=start, asynchronous=False)


def positions(endpoints: Endpoints, group: str, topics: Topics) -> Mapping[int, int]:
    """Committed position in each source partition, exclusive; a partition without one is left out.

    Raises:
        KafkaException: the group's coordinator did not answer.
    """
    asked = [TopicPartition(topics.source, partition) for partition in range(topics.partitions)]
    with closing(_asker(endpoints, group)) as asker:
        return known(asker.committed(asked, timeout=_WITHIN_S))


def known(answered: list[TopicPartition]) -> Mapping[int, int]:
    """What a group answered: partition -> position.

    Raises:
        KafkaException: it could not tell for one of them.
    """
    for one in answered:
        if one.error is not None:
            raise KafkaException(one.error)
    return {one.partition: one.offset for one in answered if one.offset >= 0}


def _asker(endpoints: Endpoints, group: str) -> Consumer:
    """It never joins; read_committed has the broker wait for a commit underway (require_stable, KIP-447)."""
    return Consumer(
        {
            **endpoints.options,
            "bootstrap.servers": endpoints.audit,
            "group.id": group,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
