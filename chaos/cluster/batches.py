"""The record batches of a topic, as a leader sends them: who wrote which offsets, and where each transaction was ended.

A consumer hides all of that, so it is asked with a request of Kafka's protocol: Fetch v4, read_uncommitted, which returns
markers too. Of a batch only its header is read (61 bytes, message format 2), and of a control batch its one key::

    first offset int64 | length int32 | … | magic int8 | crc | attributes int16 | last offset delta int32 | … (16 bytes)
    | producer id int64 | producer epoch int16 | … | control key: version int16, type int16 (0 ABORT, 1 COMMIT)

Sources: Kafka's ``DefaultRecordBatch``, ``ControlRecordType``, ``FetchRequest.json``.
"""

import socket
import struct
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from confluent_kafka.admin import AdminClient

from chaos.common.errors import InconclusiveError

_ASK_S = 10.0
_FETCH = 1
_VERSION = 4
_MOST_BYTES = 4 << 20
_CLIENT = b"chaos"
_HEADER = 61
_TRANSACTIONAL = 0x10
_CONTROL = 0x20
_MARKERS = {0: "ABORT", 1: "COMMIT"}


class Batch(NamedTuple):
    """One record batch.

    Attributes:
        first_offset: of it, last_offset: inclusive.
        producer_id: -1 when the producer is neither idempotent nor transactional.
        control: ``COMMIT`` or ``ABORT`` when it is a transaction's marker, else None.
    """

    partition: int
    first_offset: int
    last_offset: int
    producer_id: int
    producer_epoch: int
    transactional: bool
    control: str | None


def read(bootstrap: str, topic: str, ends: Mapping[int, tuple[int, int]]) -> Iterator[Batch]:
    """Every batch between low (inclusive) and high (exclusive) of each partition, cut to them.

    Raises:
        KafkaException: no metadata can be had.
        InconclusiveError: a leader does not answer, or not with batches that we can read.
    """
    metadata: Any = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(topic, timeout=_ASK_S)
    for partition, (low, high) in sorted(ends.items()):
        leader = metadata.brokers[metadata.topics[topic].partitions[partition].leader]
        try:
            with socket.create_connection((leader.host, leader.port), timeout=_ASK_S) as connection:
                yield from _partition(connection, topic, partition, low, high)
        except (OSError, ValueError, struct.error) as error:
            raise InconclusiveError(f"the batches of {topic}-{partition} cannot be read: {error}; run again") from error


def parse(partition: int, data: bytes) -> Iterator[Batch]:
    """The whole batches in what a Fetch returned; one that was cut off at the end is left out.

    Raises:
        ValueError: a batch is of an older message format.
    """
    at = 0
    while at + _HEADER <= len(data):
        first, length = struct.unpack_from(">qi", data, at)
        end = at + 12 + length
        if end > len(data):
            return
        yield _batch(partition, first, data[at:end])
        at = end


def _batch(partition: int, first: int, data: bytes) -> Batch:
    if data[16] != 2:  # noqa: PLR2004 - the magic number of message format 2
        raise ValueError(f"the batch at offset {first} is of message format {data[16]}, which has no transactions")
    attributes, last_delta = struct.unpack_from(">hi", data, 21)
    producer, epoch = struct.unpack_from(">qh", data, 43)
    control = _marker(data) if attributes & _CONTROL else None
    return Batch(partition, first, first + last_delta, producer, epoch, bool(attributes & _TRANSACTIONAL), control)


def _marker(data: bytes) -> str:
    """Its one record: length, attributes (one byte), timestamp delta, offset delta, length of the key, key."""
    at = _behind_varint(data, _HEADER) + 1
    for _ in range(3):
        at = _behind_varint(data, at)
    _version, kind = struct.unpack_from(">hh", data, at)
    if kind not in _MARKERS:
        raise ValueError(f"a control record of type {kind}, which is no transaction's marker")
    return _MARKERS[kind]


def _behind_varint(data: bytes, at: int) -> int:
    while data[at] & 0x80:
        at += 1
    return at + 1


def _partition(connection: socket.socket, topic: str, partition: int, low: int, high: int) -> Iterator[Batch]:
    while low < high:
        found = list(parse(partition, _fetch(connection, topic, partition, low)))
        if not found:
            raise ValueError(f"there is no batch at offset {low}, before the end at {high}")
        for batch in found:
            if batch.first_offset < high:
                yield batch._replace(first_offset=max(low, batch.first_offset), last_offset=min(high - 1, batch.last_offset))
        low = found[-1].last_offset + 1


def _fetch(connection: socket.socket, topic: str, partition: int, offset: int) -> bytes:
    name = topic.encode()
    limits = struct.pack(">iiiib", -1, 500, 1, _MOST_BYTES, 0)  # replica, longest wait in ms, bytes, read_uncommitted
    asked = struct.pack(">ih", 1, len(name)) + name + struct.pack(">iiqi", 1, partition, offset, _MOST_BYTES)
    header = struct.pack(">hhih", _FETCH, _VERSION, 0, len(_CLIENT)) + _CLIENT
    frame = header + limits + asked
    connection.sendall(struct.pack(">i", len(frame)) + frame)
    with connection.makefile("rb") as stream:
        (size,) = struct.unpack(">i", stream.read(4))
        return _records(stream.read(size), len(name))


def _records(answer: bytes, name_length: int) -> bytes:
    """Correlation, throttle, topics[name, partitions[index, error, hw, lso, aborted[producer, first offset], records]]."""
    at = 4 + 4 + 4 + 2 + name_length + 4
    _index, error, _hw, _lso, aborted = struct.unpack_from(">ihqqi", answer, at)
    if error:
        raise ValueError(f"Fetch was answered with error {error}")
    at += 26 + 16 * max(0, aborted)
    (size,) = struct.unpack_from(">i", answer, at)
    return answer[at + 4 : at + 4 + max(0, size)]
