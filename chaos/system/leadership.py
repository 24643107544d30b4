"""Who leads a partition, decided by hand: elections, reassignments, and the settings that stand in their way.

Clients of Python elect leaders and alter settings; AlterPartitionReassignments (KIP-455, v0) they do not offer, so it is
written here, in the manner of `chaos.system.wire`. A broker passes it on to the controller.
"""

import socket
import struct

from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType  # type: ignore[attr-defined]

from chaos.system import wire
from chaos.system.addresses import Address
from chaos.system.kafka import Kafka

_ALTER_REASSIGNMENTS = 45
_WITHIN_S = 10.0
_NO_TAGS = b"\x00"


def elect(kafka: Kafka, topic: str, partition: int, *, unclean: bool = False) -> None:
    """Elect the preferred replica, or with `unclean`, of a partition without leader, any replica that lives.

    Raises:
        KafkaException: it was refused, e.g. because there is a leader already.
    """
    which = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
    future = kafka.admin.elect_leaders(which, [TopicPartition(topic, partition)], request_timeout=_WITHIN_S)
    for refused in future.result(_WITHIN_S + 1).values():
        if refused is not None:
            raise KafkaException(refused)


def set_topic(kafka: Kafka, topic: str, key: str, value: str | None) -> None:
    """Give one setting of a topic a value of its own; with None the cluster's holds again.

    Raises:
        KafkaException: it was refused.
    """
    how = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    entry = ConfigEntry(key, value or "", incremental_operation=how)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for future in kafka.admin.incremental_alter_configs([resource], request_timeout=_WITHIN_S).values():
        future.result(_WITHIN_S + 1)


def reassign(kafka: Kafka, topic: str, partition: int, replicas: list[int]) -> None:
    """Let these brokers hold the replicas of a partition; the first is the preferred leader. It is done when metadata say so.

    Raises:
        OSError: no broker answers.
        KafkaException: it was refused.
    """
    answering = next((number for number in kafka.numbers if wire.answers(kafka.address(number))), None)
    if answering is None:
        raise ConnectionError("no broker answers: a partition cannot be reassigned now")
    _reassign(kafka.address(answering), topic, partition, replicas)


def _reassign(address: Address, topic: str, partition: int, replicas: list[int]) -> None:
    wanted = struct.pack(">i", partition) + _count(len(replicas)) + struct.pack(f">{len(replicas)}i", *replicas) + _NO_TAGS
    of_topic = _text(topic) + _count(1) + wanted + _NO_TAGS
    body = struct.pack(">i", round(1000 * _WITHIN_S)) + _count(1) + of_topic + _NO_TAGS
    with socket.create_connection(address, timeout=_WITHIN_S) as connection:
        wire.send(connection, _ALTER_REASSIGNMENTS, body, flexible=True)
        code = _error(wire.receive(connection), topic)
    if code:
        raise KafkaException(f"{topic}-{partition} cannot be reassigned to {replicas}: error {code}")


def _error(answer: bytes, topic: str) -> int:
    """Header v1 (correlation, tags), throttle time, error, message, topics[name, partitions[index, error, …]]."""
    (error,) = struct.unpack_from(">h", answer, 9)
    if error:
        return int(error)
    before = _text(topic) + _count(1)  # without an error there is no message: a null string, then one topic
    (of_partition,) = struct.unpack_from(">h", answer, 11 + 2 + len(before) + 4)
    return int(of_partition)


def _text(text: str) -> bytes:
    data = text.encode()
    return _count(len(data)) + data


def _count(count: int) -> bytes:
    """The length of a compact text or array: one more than it is, as an unsigned varint (KIP-482)."""
    left, encoded = count + 1, b""
    while left >> 7:
        encoded += bytes([left & 0x7F | 0x80])
        left >>= 7
    return encoded + bytes([left])
