"""What leaders say of the ends of their partitions; an answer that does not come is an error here, whatever librdkafka says."""

from collections.abc import Iterable
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient


def listed(
    admin: AdminClient, topic: str, partitions: Iterable[int], spec: Any, level: IsolationLevel, within_s: float
) -> dict[int, int]:
    """Partition -> offset, of all of them or of none.

    Of a leader that does not answer in time librdkafka may give a negative offset, no error: docs/findings/list-offsets.md.

    Raises:
        KafkaException: a leader does not answer now.
    """
    wanted = {TopicPartition(topic, number): spec for number in partitions}
    futures = admin.list_offsets(wanted, isolation_level=level, request_timeout=within_s)
    try:
        return {partition.partition: _given(future.result(within_s + 1).offset) for partition, future in futures.items()}
    except TimeoutError as error:  # of the future: librdkafka itself was late with its own time limit
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from error  # noqa: SLF001 - it has no other name


def _given(offset: int) -> int:
    if offset < 0:
        raise TimeoutError
    return offset
