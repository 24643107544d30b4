"""The records of ``__consumer_offsets`` and ``__transaction_state``, as coordinators write them.

No client reads them. Keys and values are those of Kafka's own schemas: OffsetCommitKey (versions 0 and 1), OffsetCommitValue
(0 to 4), TransactionLogKey (0) and TransactionLogValue (0 and 1; 1 is flexible, KIP-915). Later versions add fields with tags
behind the fields that are read here. Records of groups and their members have other key versions.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

_OF_POSITIONS = (0, 1)  # versions of a key; groups and their members have 2 and above
_OF_TRANSACTIONS = 0
_FLEXIBLE = 4, 1  # the first flexible version of OffsetCommitValue, and of TransactionLogValue
_WITH_LEADER_EPOCH = 3
_MORE = 0x80
STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence")


class CommittedPosition(NamedTuple):
    """A position of a group in a partition; None where it was deleted, or expired."""

    group: str
    topic: str
    partition: int
    position: int | None
    committed_at_ms: int


class TransactionState(NamedTuple):
    """A coordinator's state of a transactional id at one moment."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    partitions: tuple[tuple[str, int], ...]
    started_ms: int
    updated_ms: int


def position(key: bytes, value: bytes | None) -> CommittedPosition | None:
    """Parse a record of ``__consumer_offsets``; None if it is not a position.

    Raises:
        ValueError: it is cut off, or not of these schemas.
    """
    fields = _Fields(key)
    if fields.number("h") not in _OF_POSITIONS:
        return None
    place = fields.text(), fields.text(), fields.number("i")
    if value is None:
        return CommittedPosition(*place, None, -1)
    fields = _Fields(value)
    version, offset = fields.number("h"), fields.number("q")
    if version >= _WITH_LEADER_EPOCH:
        fields.number("i")
    fields.text(flexible=version >= _FLEXIBLE[0])  # the client's metadata
    return CommittedPosition(*place, offset, fields.number("q"))


def transaction(key: bytes, value: bytes | None) -> TransactionState | None:
    """Parse a record of ``__transaction_state``; None if it removes the transactional id.

    Raises:
        ValueError: it is cut off, or not of these schemas.
    """
    fields = _Fields(key)
    version = fields.number("h")
    if version != _OF_TRANSACTIONS:
        raise ValueError(f"a key of {len(key)} bytes has version {version}, not that of a transactional id")
    name = fields.text()
    if value is None:
        return None
    fields = _Fields(value)
    flexible = fields.number("h") >= _FLEXIBLE[1]
    producer = fields.number("q"), fields.number("h")
    fields.number("i")  # its timeout
    status = fields.number("b")
    if not 0 <= status < len(STATES):
        raise ValueError(f"the transactional id {name!r} is in the unknown state {status}")
    partitions = tuple(sorted(_partitions(fields, flexible=flexible)))
    updated, started = fields.number("q"), fields.number("q")
    return TransactionState(name, *producer, STATES[status], partitions, started, updated)


def _partitions(fields: "_Fields", *, flexible: bool) -> Iterator[tuple[str, int]]:
    for _ in range(fields.length(flexible=flexible)):
        topic = fields.text(flexible=flexible)
        for _ in range(fields.length(flexible=flexible)):
            yield topic, fields.number("i")
        if flexible:
            fields.skip_tags()


@dataclass(slots=True)
class _Fields:
    """The fields of a record, one after the other."""

    data: bytes
    at: int = 0

    def number(self, kind: str) -> int:
        """Take a number, given its letter in `struct`."""
        return int(struct.unpack(f">{kind}", self.taken(struct.calcsize(f">{kind}")))[0])

    def text(self, *, flexible: bool = False) -> str:
        length = self.varint() - 1 if flexible else self.number("h")
        return self.taken(max(0, length)).decode()

    def length(self, *, flexible: bool) -> int:
        """Take the length of an array; 0 if it is null."""
        return max(0, self.varint() - 1 if flexible else self.number("i"))

    def varint(self) -> int:
        value = shift = 0
        while (byte := self.number("B")) & _MORE:
            value |= (byte ^ _MORE) << shift
            shift += 7
        return value | byte << shift

    def skip_tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self.taken(self.varint())

    def taken(self, size: int) -> bytes:
        found = self.data[self.at : self.at + size]
        if len(found) < size:
            raise ValueError(f"a record of {len(self.data)} bytes ends in the middle of a field")
        self.at += size
        return found
