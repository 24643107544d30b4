"""What each commit did to each position of a group, in the order in which the commits took effect.

A position that was sent in a transaction takes effect at the transaction's marker, one that was sent outside of any at once.
The broker lets one that was *written* before the one in force take no effect, though its marker comes later: it was overtaken.
A removal may lie between a position and its marker, because a coordinator decides a commit before it writes the markers. Such a
position is taken to have been in force before the removal.

A position is only an end. Where the reader of a transaction began is stored nowhere; it is taken to be the position in force.
A position that was removed (its group was deleted or has expired, or its topic was deleted) is in force no longer, but what was
read up to it stays read: the next one is compared with it, and knows of the removal.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from verifiers.transactions.logs import OFFSETS, Log, Position
from verifiers.transactions.together import Content, Transaction

Source = tuple[str, str, int]
"""A group, a topic, and a partition of it."""


@dataclass(frozen=True, slots=True)
class Step:
    """One commit of one position.

    Attributes:
        begin: the position that was in force, or was the last one before it was removed; None where there was none, or none is
            known.
        end: the position that was committed; None where it was removed.
        transaction: None outside of any, or where it could not be put together.
        inside: whether it was sent in a transaction.
        at: offset of the position in its log, taken: whether it took effect.
        first: whether the group had no position there before, and none was lost to compaction.
        removed_ms: when the position before this one was removed, None where it was not.
    """

    group: str
    source: Log
    begin: int | None
    end: int | None
    transaction: Transaction | None
    inside: bool
    log: Log
    at: int
    at_ms: int
    taken: bool
    first: bool
    removed_ms: int | None = None


class _Now(NamedTuple):
    """What the coordinator has of one partition: the last position and where it lies, and when and where that was removed."""

    offset: int
    position: int | None
    removed_ms: int | None = None
    removed_at: int = -1


class _Sent(NamedTuple):
    effect: int
    position: Position
    inside: bool
    transaction: Transaction | None


def steps(contents: Mapping[Log, Content], owners: Mapping[int, Transaction]) -> Iterator[Step]:
    """All commits.

    Args:
        owners: identity of a piece -> its transaction.
    """
    for log, content in sorted(contents.items()):
        if log[0] == OFFSETS:
            yield from _steps(log, content, owners)


def _steps(log: Log, content: Content, owners: Mapping[int, Transaction]) -> Iterator[Step]:
    now: dict[Source, _Now] = {}
    for one in content.before:
        now[_source(one)] = _after(now.get(_source(one)), one)
    for sent in sorted(_sent(content, owners), key=lambda one: (one.effect, one.position.offset)):
        position = sent.position
        source = _source(position)
        before = now.get(source)
        taken = before is None or position.offset > before.offset
        if taken:
            now[source] = _after(before, position)
        yield Step(
            position.consumer_group,
            (position.topic, position.partition),
            before.position if before else None,
            position.position,
            sent.transaction,
            sent.inside,
            log,
            position.offset,
            position.committed_at_ms,
            taken,
            first=before is None,
            removed_ms=before.removed_ms if before and position.offset > before.removed_at else None,
        )


def _after(before: _Now | None, one: Position) -> _Now:
    """What there is once a position took effect, or its removal."""
    if one.position is None:
        offset, position = (before.offset, before.position) if before else (-1, None)
        return _Now(offset, position, one.committed_at_ms, one.offset)
    if before is not None and one.offset < before.removed_at:  # it was removed before its marker came
        return before._replace(offset=one.offset, position=one.position)
    return _Now(one.offset, one.position)


def _sent(content: Content, owners: Mapping[int, Transaction]) -> Iterator[_Sent]:
    """What may take effect; of the positions that one transaction sent of one partition, the last."""
    for piece in content.ended:
        if piece.control == "COMMIT" and piece.marker is not None:
            last = {_source(one): one for one in piece.positions}
            for position in last.values():
                yield _Sent(piece.marker, position, inside=True, transaction=owners.get(id(piece)))
    for position in content.plain:
        yield _Sent(position.offset, position, inside=False, transaction=None)


def _source(position: Position) -> Source:
    return position.consumer_group, position.topic, position.partition


class Visible:
    """How many records of a log a read_committed reader is given between two of its offsets."""

    def __init__(self, content: Content) -> None:
        """Count once; what is asked then is a search."""
        spans = [one for one in content.spans if one.piece is None or one.piece.control == "COMMIT"]
        self._begin, self._end = content.extent.begin, content.extent.end
        self._spans = spans
        self._firsts = [one.first for one in spans]
        self._sums = [0]
        for one in spans:
            self._sums.append(self._sums[-1] + one.records)

    def between(self, begin: int, end: int) -> int | None:
        """None where records were removed, or were not read."""
        if begin < self._begin or end > self._end:
            return None
        return self._below(end) - self._below(begin)

    def offsets(self, begin: int, end: int) -> Iterator[int]:
        """The offsets of these records."""
        for span in self._spans[max(0, bisect_right(self._firsts, begin) - 1) :]:
            if span.first >= end:
                return
            yield from range(max(span.first, begin), min(span.last + 1, end))

    def _below(self, offset: int) -> int:
        at = bisect_right(self._firsts, offset - 1)
        beyond = max(0, self._spans[at - 1].last - offset + 1) if at else 0
        return self._sums[at] - beyond
