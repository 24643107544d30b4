"""The topics and positions of a consumer group, by its commits and the names that Kafka Streams gives.

A group may read more topics than a scenario fills: a Kafka Streams application that changes keys writes its records to a topic
of its own and reads them there (``<application.id>-…-repartition``; its application id is its group). Records in such a topic
are not in the output yet, though the positions in the sources are behind them.
"""

from collections.abc import Iterable, Mapping
from contextlib import closing

from confluent_kafka import Consumer, TopicPartition

from chaos.contract import clients

_REPARTITION, _CHANGELOG = "-repartition", "-changelog"


def positions(observer: Consumer, topics: Mapping[str, int], within_s: float) -> Mapping[str, Mapping[int, int]]:
    """Return topic -> partition -> the group's committed position, after a commit under way has ended (KIP-447).

    The client is a consumer that never joins. An AdminClient would not need the topics, but its `list_consumer_group_offsets`
    ends the process with a segmentation fault while the coordinator moves (librdkafka #5040, seen with 2.16.0).

    Args:
        observer: a consumer of the group (`chaos.contract.clients.observer`); it is closed.
        topics: name -> number of partitions.

    Raises:
        KafkaException: its coordinator does not answer now.
    """
    asked = [TopicPartition(topic, partition) for topic, count in topics.items() for partition in range(count)]
    found: dict[str, dict[int, int]] = {}
    with closing(observer):
        for one in clients.checked(observer.committed(asked, timeout=within_s)) if asked else ():
            if one.offset >= 0:
                found.setdefault(one.topic, {})[one.partition] = one.offset
    return found


def repartitions(group: str, topics: Iterable[str]) -> set[str]:
    """Select the topics through which a Kafka Streams application sends its records to itself."""
    return {name for name in internal(group, topics) if name.endswith(_REPARTITION)}


def internal(group: str, topics: Iterable[str]) -> set[str]:
    """Select the topics that a Kafka Streams application of this id made for itself."""
    return {name for name in topics if name.startswith(f"{group}-") and name.endswith((_REPARTITION, _CHANGELOG))}
