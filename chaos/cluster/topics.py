"""Requests about the topics of any cluster: the ends of their partitions' logs, their ids, and their cleanup policy.

An audit of topics needs nothing else of a cluster, so it does not import the rest of `chaos.cluster.kafka`, and starts sooner.
"""

from collections.abc import Iterable
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType

from verifiers.base import Bounds

EARLIEST: Any = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]


def log_ends(admin: AdminClient, topic: str, partitions: Iterable[int], within_s: float) -> dict[int, Bounds]:
    """Return low, LSO and HW of every partition, requested in this order, so that LSO <= HW always.

    Args:
        within_s: time limit of each of the three requests.

    Raises:
        KafkaException: a leader does not answer now.
    """
    low = list_offsets(admin, topic, partitions, EARLIEST, IsolationLevel.READ_UNCOMMITTED, within_s)
    lso = list_offsets(admin, topic, partitions, LATEST, IsolationLevel.READ_COMMITTED, within_s)
    hw = list_offsets(admin, topic, partitions, LATEST, IsolationLevel.READ_UNCOMMITTED, within_s)
    return {number: Bounds(low[number], lso[number], hw[number]) for number in partitions}


def topic_ids(admin: AdminClient, topics: Iterable[str], within_s: float) -> dict[str, str]:
    """Return topic -> its id in hexadecimal digits (KIP-516); a topic that is deleted and created anew has another one.

    Brokers before Kafka 2.8 have no ids: all digits are 0.

    Raises:
        KafkaException: no broker answers now, or one of the topics does not exist.
    """
    found = admin.describe_topics(TopicCollection(list(topics)), request_timeout=within_s)
    try:
        ids = {topic: future.result(within_s + 1).topic_id for topic, future in found.items()}
    except TimeoutError as error:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from error  # noqa: SLF001 - it has no other name
    return {
        topic: f"{one.get_most_significant_bits() % 2**64:016x}{one.get_least_significant_bits() % 2**64:016x}"
        for topic, one in ids.items()
    }


def cleanup_policy(admin: AdminClient, topic: str, within_s: float) -> str:
    """Cleanup policy for old records of a topic: ``delete``, ``compact``, or both.

    Raises:
        KafkaException: no broker answers now, or it refuses this request.
    """
    (answer,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)], request_timeout=within_s).values()
    return str(answer.result(within_s + 1)["cleanup.policy"].value)


def list_offsets(
    admin: AdminClient, topic: str, partitions: Iterable[int], spec: Any, level: IsolationLevel, within_s: float
) -> dict[int, int]:
    """Return partition -> offset, for all partitions or for none.

    If a leader does not answer in time, librdkafka may give a negative offset, no error: docs/findings/list-offsets.md.

    Raises:
        KafkaException: a leader does not answer now.
    """
    wanted = {TopicPartition(topic, number): spec for number in partitions}
    futures = admin.list_offsets(wanted, isolation_level=level, request_timeout=within_s)
    try:
        return {partition.partition: _given(future.result(within_s + 1).offset) for partition, future in futures.items()}
    except TimeoutError as error:  # also raised by the future: librdkafka itself exceeds its time limit
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from error  # noqa: SLF001 - it has no other name


def _given(offset: int) -> int:
    if offset < 0:
        raise TimeoutError
    return offset
