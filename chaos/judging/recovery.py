"""How the committed output went on: standstills, and what each fault cost, from the samples in the history.

A sample is recorded when something changed (`chaos.engine.sampler`): between two of them nothing did. ``end`` is the sum of the
last stable offsets of the output, ``high`` that of its high watermarks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from chaos.common.history import Event


@dataclass(frozen=True, slots=True)
class Recovery:
    """What one fault cost.

    Attributes:
        fault: its name.
        injected: the event of its injection.
        seconds: from the injection to the end of the standstill that was the longest until the next fault was injected, or to
            the first growth, if none was longer than those before the first fault; None when the output never grew again.
        committed: of the output, when it was injected.
    """

    fault: str
    injected: Event
    seconds: float | None
    committed: int


def recoveries(events: Sequence[Event]) -> tuple[Recovery, ...]:
    """Of every fault that was injected, in that order."""
    injected = [event for event in events if (event.process, event.type, event.f) == ("nemesis", "ok", "inject")]
    grown = growths(events)
    begins_s = _begins_s(events)
    ends_s = [begins_s[event.value["fault"]] for event in injected[1:]] + [float("inf")]
    usual_s = _longest_s([event for event in grown if injected and event.index < injected[0].index])
    return tuple(
        Recovery(str(event.value["fault"]), event, _seconds(event, end_s, grown, usual_s), _committed_at(event, events))
        for event, end_s in zip(injected, ends_s, strict=False)  # one end more than injections, when there are none
    )


def growths(events: Sequence[Event]) -> list[Event]:
    """The samples at which the committed output was more than ever before: a new leader may put it back for a moment."""
    samples = [event for event in events if (event.process, event.f) == ("sampler", "progress")]
    most = list(accumulate(map(committed, samples), max))
    return [now for now, before, after in zip(samples[1:], most, most[1:], strict=False) if after > before]


def longest_standstill_s(events: Sequence[Event]) -> float:
    """Between the first and the last time that the output grew; 0 when it did not."""
    return _longest_s(growths(events))


def longest_blocked_s(events: Sequence[Event]) -> float:
    """The longest time that the last stable offset stood still with records above it: a transaction was open (KAFKA-10167)."""
    samples = [event for event in events if (event.process, event.f) == ("sampler", "progress") and "high" in event.value]
    longest_s, since_s = 0.0, None
    for before, now in pairwise(samples):
        stands = now.value["end"] == before.value["end"] and before.value["high"] > before.value["end"]
        since_s = (before.elapsed_s if since_s is None else since_s) if stands else None
        longest_s = max(longest_s, now.elapsed_s - since_s if since_s is not None else 0.0)
    return round(longest_s, 3)


def committed(event: Event) -> int:
    """Of the output, by one sample; at most the records of the workload."""
    return int(event.value["committed"])


def _begins_s(events: Sequence[Event]) -> dict[str, float]:
    """Fault -> when its injection was begun; it bites before it is done."""
    begins_s: dict[str, float] = {}
    for event in events:
        if (event.process, event.f) == ("nemesis", "inject"):
            begins_s.setdefault(event.value["fault"], event.elapsed_s)
    return begins_s


def _longest_s(grown: Sequence[Event]) -> float:
    return max((now.elapsed_s - before.elapsed_s for before, now in pairwise(grown)), default=0.0)


def _seconds(began: Event, end_s: float, grown: Sequence[Event], usual_s: float) -> float | None:
    """To the end of the longest standstill; to the first growth, if none was longer than is usual.

    Of a standstill that the next fault made longer, what was there before decides whether it is the longest.
    """
    times_s = [began.elapsed_s, *(event.elapsed_s for event in grown if event.index > began.index)]
    pairs = [(before, now) for before, now in pairwise(times_s) if before == began.elapsed_s or before < end_s]
    standstills = [(min(now, end_s) - before, now - began.elapsed_s) for before, now in pairs]
    if not standstills:
        return None
    longest = max(standstills)
    return round((longest if longest[0] > usual_s else standstills[0])[1], 3)


def _committed_at(moment: Event, events: Sequence[Event]) -> int:
    samples = [event for event in events if (event.process, event.f) == ("sampler", "progress") and event.index < moment.index]
    return committed(samples[-1]) if samples else 0
