"""The records of ``__consumer_offsets`` and ``__transaction_state``, as coordinators write them.

No client reads them. Keys and values are those of Kafka's own schemas: OffsetCommitKey (versions 0 and 1), OffsetCommitValue
(0 to 4), TransactionLogKey (0) and TransactionLogValue (0 and 1; 1 is flexible, KIP-915). What a later version adds comes
behind what is read here, in fields with tags. Records of groups and their members have other key versions.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

_OF_POSITIONS = (0, 1)  # versions of a key; 2 and above are of groups and their members
_OF_TRANSACTIONS = 0
_FLEXIBLE = 4, 1  # the first version of an OffsetCommitValue, and of a TransactionLogValue, that is
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
    """What a coordinator knows of a transactional id at one moment."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    partitions: tuple[tuple[str, int], ...]
    started_ms: int
    updated_ms: int


def position(key: bytes, value: bytes | None) -> CommittedPosition | None:
    """What a record of ``__consumer_offsets`` says of a position, if it is about one.

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
    """What a record of ``__transaction_state`` says; None where the transactional id was forgotten.

    Raises:
        ValueError: it is cut off, or not of these schemas.
    """
    fields = _Fields(key)
    version = fields.number("h")
    if version != _OF_TRANSACTIONS:
        raise ValueError(f"a key of {len(key)} bytes has version {version}, which is not that of a transactional id")
    name = fields.text()
    if value is None:
        return None
    fields = _Fields(value)
    flexible = fields.number("h") >= _FLEXIBLE[1]
    producer = fields.number("q"), fields.number("h")
    fields.number("i")  # its timeout
    status = fields.number("b")
    if not 0 <= status < len(STATES):
        raise ValueError(f"the transactional id {name!r} is in state {status}, which is not known")
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
        """By its letter in `struct`."""
        return int(struct.unpack(f">{kind}", self.taken(struct.calcsize(f">{kind}")))[0])

    def text(self, *, flexible: bool = False) -> str:
        length = self.varint() - 1 if flexible else self.number("h")
        return self.taken(max(0, length)).decode()

    def length(self, *, flexible: bool) -> int:
        """Of an array; 0 where it is null."""
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
