"""Who leads a partition, decided by hand: elections, reassignments, and the settings that stand in their way.

Two requests are written here by hand, in the manner of `chaos.cluster.protocol`: AlterPartitionReassignments (KIP-455, v0),
which no client of Python offers, and ElectLeaders (KIP-460, v1), which confluent-kafka 2.16.1 cannot send (``SystemError: more
argument specifiers than keyword list entries``). A broker passes them on to the controller.
"""

import socket
import struct

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType  # type: ignore[attr-defined]

from chaos.cluster import protocol
from chaos.cluster.addresses import Address
from chaos.cluster.kafka import Kafka
from chaos.common.errors import InjectionError

_ELECT_LEADERS = 43
_ALTER_REASSIGNMENTS = 45
_WITHIN_S = 10.0
_NO_TAGS = b"\x00"


def elect(kafka: Kafka, topic: str, partition: int, *, unclean: bool = False) -> None:
    """Elect the preferred replica, or with `unclean`, of a partition without leader, any replica that lives.

    Raises:
        OSError: no broker answers.
        InjectionError: it was refused, e.g. because there is a leader already.
    """
    name = topic.encode()
    of_topic = struct.pack(">h", len(name)) + name + struct.pack(">ii", 1, partition)
    body = struct.pack(">bi", int(unclean), 1) + of_topic + struct.pack(">i", round(1000 * _WITHIN_S))
    with socket.create_connection(_answering(kafka), timeout=_WITHIN_S) as connection:
        protocol.send(connection, _ELECT_LEADERS, body, version=1)
        code = _election_error(protocol.receive(connection), len(name))
    if code:
        raise InjectionError(f"no leader was elected for {topic}-{partition}: error {code}")


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
        InjectionError: it was refused.
    """
    wanted = struct.pack(">i", partition) + _count(len(replicas)) + struct.pack(f">{len(replicas)}i", *replicas) + _NO_TAGS
    of_topic = _text(topic) + _count(1) + wanted + _NO_TAGS
    body = struct.pack(">i", round(1000 * _WITHIN_S)) + _count(1) + of_topic + _NO_TAGS
    with socket.create_connection(_answering(kafka), timeout=_WITHIN_S) as connection:
        protocol.send(connection, _ALTER_REASSIGNMENTS, body, flexible=True)
        code = _reassignment_error(protocol.receive(connection), topic)
    if code:
        raise InjectionError(f"{topic}-{partition} cannot be reassigned to {replicas}: error {code}")


def _answering(kafka: Kafka) -> Address:
    """A broker that lives.

    Raises:
        ConnectionError: none does.
    """
    address = next((kafka.address(number) for number in kafka.numbers if protocol.answers(kafka.address(number))), None)
    if address is None:
        raise ConnectionError("no broker answers: nobody can be asked to change who leads")
    return address


def _election_error(answer: bytes, name_length: int) -> int:
    """Header v0 (correlation), throttle time, error, topics[name, partitions[index, error, message]]."""
    error, topics = struct.unpack_from(">hi", answer, 8)
    if error or not topics:
        return int(error)
    (of_partition,) = struct.unpack_from(">h", answer, 14 + 2 + name_length + 4 + 4)
    return int(of_partition)


def _reassignment_error(answer: bytes, topic: str) -> int:
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
