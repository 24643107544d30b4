"""Steps: the effect of each commit on each position of a group, in the order in which the commits took effect.

A position that was sent in a transaction takes effect at the transaction's marker, one that was sent outside of any at once.
A position that was *written* before the one in force takes no effect, even if its marker comes later: it was overtaken.
A removal may lie between a position and its marker, because a coordinator decides a commit before it writes the markers. Such a
position counts as in force before the removal.

A position is only an end. No log stores where the reader of a transaction began; the position in force counts as its beginning.
A position that was removed (its group was deleted or has expired, or its topic was deleted) is no longer in force, but the
records before it stay read: the next position is compared with it, and has the time of the removal.
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
        begin: the position in force, or the last one before it was removed; None if there was none, or none is known.
        end: the position that was committed; None if it was removed.
        transaction: None outside of any, or if it could not be put together.
        inside: whether it was sent in a transaction.
        at: offset of the position in its log, taken: whether it took effect.
        first: whether the group had no position there before, and none was lost to compaction.
        removed_ms: when the position before this one was removed; None if it was not.
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
    """The coordinator's state of one partition: its last position and offset in the log, and those of its removal."""

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
    """Yield the steps of all commits.

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
    """Return the state after a position, or a removal, took effect."""
    if one.position is None:
        offset, position = (before.offset, before.position) if before else (-1, None)
        return _Now(offset, position, one.committed_at_ms, one.offset)
    if before is not None and one.offset < before.removed_at:  # it was removed before its marker came
        return before._replace(offset=one.offset, position=one.position)
    return _Now(one.offset, one.position)


def _sent(content: Content, owners: Mapping[int, Transaction]) -> Iterator[_Sent]:
    """Yield positions that may take effect; if a transaction sent several of one partition, the last."""
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
    """The records of a log that a read_committed reader gets."""

    def __init__(self, content: Content) -> None:
        """Count once, so that each later count is a search."""
        spans = [one for one in content.spans if one.piece is None or one.piece.control == "COMMIT"]
        self._begin, self._end = content.extent.begin, content.extent.end
        self._spans = spans
        self._firsts = [one.first for one in spans]
        self._sums = [0]
        for one in spans:
            self._sums.append(self._sums[-1] + one.records)

    def between(self, begin: int, end: int) -> int | None:
        """Count the records between two offsets; None if some were removed, or were not read."""
        if begin < self._begin or end > self._end:
            return None
        return self._below(end) - self._below(begin)

    def offsets(self, begin: int, end: int) -> Iterator[int]:
        """Yield the offsets of the records between two offsets."""
        for span in self._spans[max(0, bisect_right(self._firsts, begin) - 1) :]:
            if span.first >= end:
                return
            yield from range(max(span.first, begin), min(span.last + 1, end))

    def _below(self, offset: int) -> int:
        at = bisect_right(self._firsts, offset - 1)
        beyond = max(0, self._spans[at - 1].last - offset + 1) if at else 0
        return self._sums[at] - beyond
