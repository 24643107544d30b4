"""Where readers began, and which records two of them read.

A position is only an end. A reader that gets position p from the coordinator (the answer to OffsetFetch) begins there:

    one reader       rows of [p, q) are written ──────▶ q is sent ──▶ its transaction is committed
    another                                     gets p ──▶ reads [p, …) ──▶ commits beyond p: [p, q) was committed twice

Two conditions make it certain that the first reader read the records up to q, and not the other one in a transaction that was
open already: all rows of the transaction were written before the other one got p, and q was sent without a generation of the
group. A coordinator refuses q if it has a generation that is not the current one (KIP-447).

The timestamps of rows do not show when they were written: a program may give them any, those of its input for example. Other
clocks do (`Clock`): a proxy that saw them sent, a broker that set the time (LogAppendTime), or the markers before and after
them in the log. If these do not show which came first, it is not certain (`Twice.certain`).

A reader that gets a position beyond the one in force skips the records between. One that gets none begins where its client
decides, which is not seen here.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from verifiers.transactions.logs import Log, Produced, Start, Unfenced
from verifiers.transactions.steps import Source, Step
from verifiers.transactions.together import Content, Piece, Transaction

_NEVER = 2**63 - 1
_SETTLES_MS = 5000  # a marker may be written so long after its transaction was decided


@dataclass(frozen=True, slots=True)
class Twice:
    """Records that two transactions committed; `certain` if the first had surely written its rows before the start."""

    start: Start
    first: Step
    second: Step
    begin: int
    end: int
    certain: bool = True


@dataclass(frozen=True, slots=True)
class Skipped:
    """Records that no reader got."""

    start: Start
    begin: int
    end: int


class Written(NamedTuple):
    """The bounds of the time at which the last row of a transaction was sent."""

    not_before_ms: int
    not_after_ms: int


class Clock:
    """The write times of transactions' rows, by clocks that the application does not set."""

    def __init__(
        self,
        contents: Mapping[Log, Content],
        transactions: Iterable[Transaction],
        produced: Iterable[Produced],
        forgotten_ms: int = -1,
    ) -> None:
        """Keep what `written` needs.

        Args:
            transactions: all, in the order of the coordinators' logs.
            produced: requests that proxies saw, in the order of time for each transactional id.
            forgotten_ms: up to when proxies may have forgotten some.
        """
        self._contents, self._forgotten_ms = contents, forgotten_ms
        self._sent: dict[str, list[int]] = defaultdict(list)
        for one in produced:
            self._sent[one.transactional_id].append(one.sent_ms)
        self._after: dict[int, int] = {}
        decided: dict[str, int] = {}
        for transaction in transactions:
            self._after[id(transaction)] = decided.get(transaction.transactional_id, -1)
            decided[transaction.transactional_id] = transaction.decided_ms

    def written(self, one: Transaction) -> Written:
        """Bound the write time of the last row; exactly, if a proxy saw it or a broker set the times of all rows."""
        sent = self._sent.get(one.transactional_id, [])
        last = bisect_right(sent, one.decided_ms) - 1
        if last >= 0 and sent[last] > max(self._after.get(id(one), -1), self._forgotten_ms):
            return Written(sent[last], sent[last])
        if all(piece.by_broker for piece in one.outputs):
            latest = max((piece.written_ms for piece in one.outputs), default=-1)
            return Written(latest, latest)
        between = [self._between(piece) for piece in one.outputs]
        begun = max([one.started_ms, *(begin for begin, _ in between)])
        return Written(begun, min(one.decided_ms, max((end for _, end in between), default=-1)))

    def _between(self, piece: Piece) -> tuple[int, int]:
        """Return the times of the markers before and after its last row."""
        ended = self._contents[piece.log].ended
        at = bisect_right(ended, piece.last, key=lambda one: -1 if one.marker is None else one.marker)
        return ended[at - 1].at_ms if at else -1, ended[at].at_ms if at < len(ended) else _NEVER


def read_twice(
    starts: Iterable[Start], steps: Iterable[Step], unfenced: Iterable[Unfenced], written: Callable[[Transaction], Written]
) -> Iterator[Twice]:
    """Yield all ranges that were read twice, each once."""
    sent = defaultdict(list)
    for one in unfenced:
        sent[one.producer_id].append(one.sent_ms)
    by_source = _by_source(steps)
    for source, own in _of_source(starts).items():
        after = by_source.get(source, ())
        for start, until_ms in _with_next(own):
            older = [(step, _is_older(step, start, sent, written)) for step in after] if start.position >= 0 else ()
            certain = _twice(start, until_ms, after, [step for step, is_older in older if is_older])
            found = certain or _twice(start, until_ms, after, [step for step, is_older in older if is_older is None])
            if found is not None:
                yield found if certain else replace(found, certain=False)


def skipped(starts: Iterable[Start], steps: Iterable[Step]) -> Iterator[Skipped]:
    """Yield the ranges between the position in force and a later one that a reader got."""
    by_source = _by_source(steps)
    for source, own in _of_source(starts).items():
        taken = [step for step in by_source.get(source, ()) if step.taken]
        for start in own:
            before = [step for step in taken if _at_ms(step) < start.asked_ms - _SETTLES_MS][-1:]
            about = [step for step in taken if start.asked_ms - _SETTLES_MS <= _at_ms(step) <= start.answered_ms]
            ends = [step.end for step in (*before, *about)]
            ends += [step.begin for step in about[:1] if step.begin is not None]
            known = [end for end in ends if end is not None]
            if len(known) == len(ends) > 0 and start.position > max(known):
                yield Skipped(start, max(known), start.position)


def _twice(start: Start, until_ms: int, steps: Sequence[Step], older: Sequence[Step]) -> Twice | None:
    """Find records read before this start, committed after it, and committed again by its reader until the next start."""
    first = max(older, key=_end, default=None)
    if first is None or first.transaction is None:
        return None
    seconds = []
    for step in steps[steps.index(first) + 1 :]:
        own = step.transaction
        if own is None or _end(step) <= start.position or own.decided_ms >= until_ms:
            continue
        if until_ms == _NEVER or own.producer_id != first.transaction.producer_id:
            seconds.append(step)
    if not seconds:
        return None
    end = min(_end(first), max(map(_end, seconds)))
    return Twice(start, first, seconds[0], start.position, end)


def _is_older(
    step: Step, start: Start, sent: Mapping[int, Collection[int]], written: Callable[[Transaction], Written]
) -> bool | None:
    """Whether another reader read the step's records, from the start on, and committed them after it; None if not certain."""
    own = step.transaction
    may_be = (
        own is not None
        and _end(step) > start.position
        and own.decided_ms >= start.asked_ms
        and own.rows > 0
        and any(own.started_ms <= at_ms <= own.decided_ms for at_ms in sent.get(own.producer_id, ()))
    )
    if not may_be or own is None:
        return False
    last = written(own)
    if last.not_after_ms < start.answered_ms:
        return True
    return False if last.not_before_ms >= start.answered_ms else None


def _end(step: Step) -> int:
    return -1 if step.end is None else step.end


def _at_ms(step: Step) -> int:
    return step.transaction.decided_ms if step.transaction else step.at_ms


def _by_source(steps: Iterable[Step]) -> Mapping[Source, Sequence[Step]]:
    found: dict[Source, list[Step]] = defaultdict(list)
    for step in steps:
        found[step.group, *step.source].append(step)
    return found


def _of_source(starts: Iterable[Start]) -> Mapping[Source, Sequence[Start]]:
    found: dict[Source, list[Start]] = defaultdict(list)
    for start in sorted(starts, key=lambda one: (one.answered_ms, one.asked_ms)):
        found[start.consumer_group, start.topic, start.partition].append(start)
    return found


def _with_next(starts: Sequence[Start]) -> Iterator[tuple[Start, int]]:
    """Yield each start with the time at which the next one was requested."""
    yield from ((one, after.asked_ms) for one, after in pairwise(starts))
    if starts:
        yield starts[-1], _NEVER
