"""Where readers began, and which records were read by two of them.

A position is only an end. Whoever is given position p by the coordinator (the answer to OffsetFetch) begins there:

    one reader       rows of [p, q) are written ──────▶ q is sent ──▶ its transaction is committed
    another                                     is given p ──▶ reads [p, …) ──▶ commits beyond p: [p, q) was committed twice

That the records up to q were read by the first one, and not by the other in a transaction that was open already, is certain
here under two conditions: all rows of the transaction were written before the other one was given p, and q was sent without a
generation of the group. A coordinator refuses q if it has a generation, and that is not the present one (KIP-447).

A reader that is given a position beyond the one in force skips what is between. One that is given none begins where its client
decides, which is not seen here.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from verifiers.transactions.logs import Start, Unfenced
from verifiers.transactions.steps import Source, Step
from verifiers.transactions.together import Transaction

_NEVER = 2**63 - 1
_SETTLES_MS = 5000  # a marker may be written so much later than its transaction was decided


@dataclass(frozen=True, slots=True)
class Twice:
    """Records that were committed by two transactions."""

    start: Start
    first: Step
    second: Step
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """Records that no reader was given."""

    start: Start
    begin: int
    end: int


def read_twice(starts: Iterable[Start], steps: Iterable[Step], unfenced: Iterable[Unfenced]) -> Iterator[Twice]:
    """All ranges, each once."""
    sent = defaultdict(list)
    for one in unfenced:
        sent[one.producer_id].append(one.sent_ms)
    by_source = _by_source(steps)
    for source, own in _of_source(starts).items():
        after = by_source.get(source, ())
        for start, until_ms in _with_next(own):
            found = _twice(start, until_ms, after, sent) if start.position >= 0 else None
            if found is not None:
                yield found


def skipped(starts: Iterable[Start], steps: Iterable[Step]) -> Iterator[Skipped]:
    """What lies between the position that was in force and the one that a reader was given."""
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


def _twice(start: Start, until_ms: int, steps: Sequence[Step], sent: Mapping[int, Collection[int]]) -> Twice | None:
    """What was read before this start, committed after it, and committed again by who began there, until the next start."""
    first: Step | None = None
    for step in steps:
        if step.transaction is not None and _is_older(step, step.transaction, start, sent):
            first = step if first is None or _end(step) > _end(first) else first
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


def _is_older(step: Step, own: Transaction, start: Start, sent: Mapping[int, Collection[int]]) -> bool:
    """Whether its records were certainly read by another reader, from the start on, and committed after that."""
    return (
        _end(step) > start.position
        and own.decided_ms >= start.asked_ms
        and own.rows > 0
        and own.written_ms < start.answered_ms
        and any(own.started_ms <= at_ms <= own.decided_ms for at_ms in sent.get(own.producer_id, ()))
    )


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
    """Each, and when the next one was asked for."""
    yield from ((one, after.asked_ms) for one, after in pairwise(starts))
    if starts:
        yield starts[-1], _NEVER
