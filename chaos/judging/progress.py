"""Progress: the pipeline goes on after a fault, soon enough, and the faults hit a run that was under way.

It is judged from the samples of the history alone: the rows that a read_committed reader could see, several times a second. A
sample is recorded when something changed (`chaos.engine.observers`): nothing changed between two samples.
`chaos.scenario.verifiers.ANOMALIES_OF_PROGRESS` defines the anomalies.

The output shows whether work was left: rows that had not come. Positions behind a complete output are wrong, but no standstill;
that is UNKNOWN here, and the verifier `offsets` judges it.

UNKNOWN also if there was nothing to watch: no output before the first fault, or none at all; and if the run ended after a fault
without output, sooner than a recovery may take. A pipeline that was to end (``ends``), and ended, owes no recovery.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise

from chaos.common.events import (
    FaultInjected,
    FaultStepBegan,
    PhaseBegan,
    PhaseEnded,
    PhaseFailed,
    PipelineSampled,
    ProcessReport,
    ProgressSampled,
    ReadersBlocked,
)
from chaos.common.history import Event, of_type
from chaos.scenario.verifiers import ANOMALIES_OF_PROGRESS, PROGRESS
from verifiers.base import Example, Finding, Verdict

_NOWHERE = -1
_BUSY = 5  # processes for each core: two runs at a time on two cores have less


@dataclass(frozen=True, slots=True)
class Recovery:
    """The recovery from one fault.

    Attributes:
        fault: its name.
        injected: the event of its injection.
        seconds: from the injection to the end of the longest standstill before the next injection, or to the first growth, if
            no standstill was longer than those before the first fault; None if the output never grew again.
        committed: rows of the output at the injection.
        stood_s: length of that standstill.
    """

    fault: str
    injected: Event
    seconds: float | None
    committed: int
    stood_s: float = 0.0

    def is_slow(self, slo_s: float) -> bool:
        """Whether it took longer than allowed; an output that flowed for a while has recovered, whatever comes later.

        So a standstill counts if it began soon after the injection, or if it alone was longer than allowed.
        """
        if self.seconds is None or self.seconds <= slo_s:
            return False
        return self.stood_s > slo_s or self.seconds - self.stood_s <= slo_s / 2


def check(
    events: Sequence[Event], slo_s: float, total: int, subject: str, *, each: bool = True, ends: str | None = None
) -> Finding:
    """Judge one run.

    Args:
        events: its history.
        slo_s: the longest allowed recovery.
        total: rows that the output must reach.
        subject: the watched log.
        each: whether each record of the source is a row of the output.
        ends: the words with which the pipeline must end by itself; None if it must not end.

    Returns:
        A finding; ``checked`` is the number of times that the output grew; an example is a fault.
    """
    ended = _expected_end(events, ends)
    events = events if ended is None else events[:ended]
    recovered = recoveries(events)
    grown = growths(events)
    is_left = partial(_is_left, events, total=total, each=each) if ended is None else _nothing_is_left
    watched_s = _watched_until_s(events)
    found = list(_examples(recovered, slo_s, total, is_left, watched_s))
    if not any(example.anomaly == "no recovery" for example in found):
        found += _stopped(events, grown, slo_s, total, is_left, watched_s)
    found += _blocked(events, slo_s)
    counts = {name: sum(example.anomaly == name for example in found) for name in ANOMALIES_OF_PROGRESS}
    limitation = _limitation(grown, recovered) or _too_short(recovered, slo_s, is_left, watched_s)
    if not limitation and not found and ended is None:
        limitation = _behind(events, grown, slo_s, total, watched_s)
    verdict = max(Verdict.INVALID if found else Verdict.VALID, Verdict.UNKNOWN if limitation else Verdict.VALID)
    stopped_s = watched_s if counts["no recovery"] else 0.0
    note = limitation or _note(events, stopped_s) + (_load(events) if found else "")
    return Finding(PROGRESS, subject, verdict, len(found), len(grown), counts, tuple(found), note)


def refused(events: Sequence[Event]) -> int:
    """Count the records of the workload that were refused for good, as the loaders report: they could not pass."""
    said = {one.who: one for _, one in of_type(events, ProcessReport) if one.event == "loaded" and one.is_of_loader}
    return sum(int(one.content.get("refused", 0)) for one in said.values())


def demanded(events: Sequence[Event]) -> int | None:
    """Return the rows that the output must reach, from the samples; None without a sample."""
    samples = of_type(events, ProgressSampled)
    return samples[-1][1].total if samples else None


def _examples(
    recovered: Sequence[Recovery], slo_s: float, total: int, is_left: Callable[[int], bool], watched_s: float
) -> Iterator[Example]:
    for one in recovered:
        if one.seconds is None and is_left(one.committed) and watched_s - one.injected.elapsed_s > slo_s:
            yield _example(
                "no recovery", one, f"{one.fault}: the output never grew again after {one.committed} of {total} records"
            )
        elif one.is_slow(slo_s):
            yield _example("slow recovery", one, f"{one.fault}: recovery took {one.seconds:.1f} s, {slo_s:g} s are allowed")


def _stopped(
    events: Sequence[Event], grown: Sequence[Event], slo_s: float, total: int, is_left: Callable[[int], bool], watched_s: float
) -> Iterator[Example]:
    """Yield an example if the output grew after the last fault, but then stood still, incomplete, until the end."""
    samples = of_type(events, ProgressSampled)
    committed = max((sample.committed for _, sample in samples), default=0)
    stood_s = watched_s - grown[-1].elapsed_s if grown else 0.0
    if stood_s > slo_s and is_left(committed):
        detail = f"the output stopped after {committed} of {total} records, and stood still for {stood_s:.1f} s until the end"
        yield Example("no recovery", _NOWHERE, None, None, grown[-1].time_ms, detail)


def _blocked(events: Sequence[Event], slo_s: float) -> Iterator[Example]:
    for over, block in of_type(events, ReadersBlocked):
        if block.seconds > slo_s:
            detail = (
                f"an open transaction hid partition {block.partition} from offset {block.end} on for {block.seconds:.1f} s; "
                f"{slo_s:g} s are allowed"
            )
            yield Example("blocked", _NOWHERE, None, None, over.time_ms - round(1000 * block.seconds), detail)


def _watched_until_s(events: Sequence[Event]) -> float:
    """Return the time until which samples were taken: that of `observe`, or the end of a history without it."""
    began = [event.elapsed_s for event, value in of_type(events, PhaseBegan) if value.phase == "observe"]
    return began[0] if began else max((event.elapsed_s for event in events), default=0.0)


def _is_left(events: Sequence[Event], committed: int, *, total: int, each: bool) -> bool:
    """Whether rows had not come; judged by the output alone, unless the number of expected rows is not known.

    If the loader died, a pipeline that has read the whole source has stopped for no fault of its own. The number of rows for a
    part of the source is known only if each record is a row.
    """
    if _is_drained(events):
        return False
    lag = _lag(events)
    if lag is None or not each:
        return committed < total and lag != 0
    # End offsets of the filled topics; the markers of a loader's transactions are among them.
    written = max((sample.written for _, sample in of_type(events, ProgressSampled)), default=0)
    return committed < min(written, _sent(events, total))


def _sent(events: Sequence[Event], total: int) -> int:
    """Count the records that the loaders wrote, from their last reports; the whole workload unless one of them failed."""
    said = {one.who: one.content for _, one in of_type(events, ProcessReport) if one.event == "loaded" and one.is_of_loader}
    filled = [int(content.get("records", 0)) for content in said.values()]
    return min(total, sum(filled) - refused(events)) if said and any(one.get("failed") for one in said.values()) else total


def _nothing_is_left(_committed: int) -> bool:
    """For a pipeline that was to end: its unfinished work is no standstill."""
    return False


def _lag(events: Sequence[Event]) -> int | None:
    """Return how far the positions were behind at the end; None if there are none."""
    samples = of_type(events, PipelineSampled)
    return samples[-1][1].lag if samples else None


def _expected_end(events: Sequence[Event], ends: str | None) -> int | None:
    """Return the place in the history at which a pipeline ended with the declared words; None if it did not."""
    if ends is None:
        return None
    places = (place for place, event in enumerate(events) if isinstance(event.value, PhaseFailed) and event.value.says(ends))
    return next(places, None)


def _behind(events: Sequence[Event], grown: Sequence[Event], slo_s: float, total: int, watched_s: float) -> str:
    """Note that the positions never reached the end of the source, though the output is complete; "" if they did."""
    lag, stood_s = _lag(events), watched_s - grown[-1].elapsed_s if grown else 0.0
    if _is_drained(events) or not lag or stood_s <= slo_s:
        return ""
    committed = max(sample.committed for _, sample in of_type(events, ProgressSampled))
    return (
        f"the positions were {lag} behind at the end, though the output is complete with {committed} of {total} records: "
        "they are wrong, or of another reader; the verifier offsets judges them"
    )


def _is_drained(events: Sequence[Event]) -> bool:
    """Whether the pipeline reached the end of its source: its last records may be later than the last sample."""
    return any(value.phase == "drain" for _, value in of_type(events, PhaseEnded))


def _example(anomaly: str, one: Recovery, detail: str) -> Example:
    return Example(anomaly, _NOWHERE, None, None, one.injected.time_ms, detail)


def _limitation(grown: Sequence[Event], recovered: Sequence[Recovery]) -> str:
    """Why this run shows nothing about progress; "" if it does."""
    if not grown:
        return "the output never grew: there was no progress to watch"
    first = next(iter(recovered), None)
    if first is not None and first.committed == 0:
        return f"nothing was committed before {first.fault}: the run was not under way yet"
    return ""


def _too_short(recovered: Sequence[Recovery], slo_s: float, is_left: Callable[[int], bool], watched_s: float) -> str:
    """Why a run that ended soon after a fault does not show that the pipeline would not recover; "" if it ran on.

    It is chance whether a last row was seen between the fault and the end, so that must not decide.
    """
    for one in recovered:
        seen_s = watched_s - one.injected.elapsed_s
        if one.seconds is None and is_left(one.committed) and seen_s <= slo_s:
            return (
                f"{one.fault}: the run ended {seen_s:.1f} s after it without output, but {slo_s:g} s are allowed for a recovery"
            )
    return ""


def _note(events: Sequence[Event], stopped_s: float = 0.0) -> str:
    """Tell the longest standstill.

    Args:
        stopped_s: until when the output was watched if it never went on; else 0.
    """
    last_s = max((event.elapsed_s for event in growths(events)), default=0.0)
    still_s, blocked_s = max(longest_standstill_s(events), stopped_s - last_s), longest_blocked_s(events)
    said = f"longest standstill {still_s:.1f} s, last stable offset blocked for {blocked_s:.1f} s"
    samples = [sample for _, sample in of_type(events, PipelineSampled)]
    return f"{said}, at most {max(sample.lag for sample in samples)} records behind" if samples else said


def _load(events: Sequence[Event]) -> str:
    """Tell that the machine of the run was busy; "" if it was not."""
    load = max((began.load for _, began in of_type(events, PhaseBegan) if began.load is not None), default=0.0)
    return f"; {load:.0f} processes wanted each core of this machine, which slows down all of the run" if load >= _BUSY else ""


def recoveries(events: Sequence[Event]) -> tuple[Recovery, ...]:
    """Measure the recovery from every injected fault, in the order of injection."""
    injected, samples = of_type(events, FaultInjected), of_type(events, ProgressSampled)
    grown = growths(events)
    begins_s = _begins_s(events)
    ends_s = [begins_s[value.fault] for _, value in injected[1:]] + [float("inf")]
    usual_s = _longest_s([event for event in grown if injected and event.index < injected[0][0].index])
    found = []
    for (event, value), end_s in zip(injected, ends_s, strict=False):  # one end more than injections, when there are none
        took_s, stood_s = _seconds(event, end_s, grown, usual_s) or (None, 0.0)
        committed = next((sample.committed for earlier, sample in reversed(samples) if earlier.index < event.index), 0)
        found.append(Recovery(value.fault, event, took_s, committed, stood_s))
    return tuple(found)


def growths(events: Sequence[Event]) -> list[Event]:
    """Return the samples with more committed output than ever before: a new leader may put it back for a moment."""
    samples = of_type(events, ProgressSampled)
    most = list(accumulate((sample.committed for _, sample in samples), max))
    return [now for (now, _), before, after in zip(samples[1:], most, most[1:], strict=False) if after > before]


def longest_standstill_s(events: Sequence[Event]) -> float:
    """Return the longest time between two growths of the output; 0 if it did not grow."""
    return _longest_s(growths(events))


def longest_blocked_s(events: Sequence[Event]) -> float:
    """Return the longest time that the last stable offset of a partition stood still with records above it; 0 below a second.

    A transaction was open then (KAFKA-10167).
    """
    return max((block.seconds for _, block in of_type(events, ReadersBlocked)), default=0.0)


def _begins_s(events: Sequence[Event]) -> dict[str, float]:
    """Fault -> when its injection began; it takes effect before the injection is done."""
    begins_s: dict[str, float] = {}
    for event in events:
        match event.value:
            case FaultStepBegan(fault=fault, step="inject") | FaultInjected(fault=fault):
                begins_s.setdefault(fault, event.elapsed_s)
            case _:
                pass
    return begins_s


def _longest_s(grown: Sequence[Event]) -> float:
    return max((now.elapsed_s - before.elapsed_s for before, now in pairwise(grown)), default=0.0)


def _seconds(began: Event, end_s: float, grown: Sequence[Event], usual_s: float) -> tuple[float, float] | None:
    """Return the time to the end of the longest standstill, and its length; to the first growth if none was unusually long.

    If the next fault made a standstill longer, only the part before that fault decides whether it is the longest.
    """
    times_s = [began.elapsed_s, *(event.elapsed_s for event in grown if event.index > began.index)]
    pairs = [(before, now) for before, now in pairwise(times_s) if before == began.elapsed_s or before < end_s]
    standstills = [(min(now, end_s) - before, now - began.elapsed_s, now - before) for before, now in pairs]
    if not standstills:
        return None
    longest = max(standstills)
    _, took_s, stood_s = longest if longest[0] > usual_s else standstills[0]
    return round(took_s, 3), round(stood_s, 3)
