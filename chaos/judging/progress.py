"""Progress: the pipeline goes on after a fault, soon enough, and the faults fell into a run that was under way.

Judged from the samples of the history alone: what a read_committed reader could see, several times a second.

    slow recovery   from a fault's injection to the end of the longest standstill after it took longer than ``recovery_slo``
    no recovery     the output never grew after a fault, although not all of the workload had been through

UNKNOWN when there was nothing to watch: no output before the first fault, or none at all.
"""

from collections.abc import Iterator, Sequence

from chaos.common.history import Event
from chaos.judging.recovery import Recovery, growths, longest_blocked_s, longest_standstill_s, recoveries
from verifiers.base import Example, Finding, Verdict

NAME = "progress"
_NOWHERE = -1


def check(events: Sequence[Event], slo_s: float, total: int, subject: str) -> Finding:
    """Judge one run.

    Args:
        events: its history.
        slo_s: the longest recovery that is allowed.
        total: records of the workload.
        subject: the log that was watched.

    Returns:
        A finding; ``checked`` are the times that the output grew, an example is a fault.
    """
    recovered = recoveries(events)
    found = list(_examples(recovered, slo_s, total))
    counts = {name: sum(example.anomaly == name for example in found) for name in ("slow recovery", "no recovery")}
    grown = growths(events)
    doubt = _doubt(grown, recovered)
    verdict = max(Verdict.INVALID if found else Verdict.VALID, Verdict.UNKNOWN if doubt else Verdict.VALID)
    return Finding(NAME, subject, verdict, len(found), len(grown), counts, tuple(found), doubt or _note(events))


def _examples(recovered: Sequence[Recovery], slo_s: float, total: int) -> Iterator[Example]:
    for one in recovered:
        if one.seconds is None and one.committed < total:
            yield _example("no recovery", one, f"{one.fault}: the output never grew again after {one.committed} of {total}")
        elif one.seconds is not None and one.seconds > slo_s:
            yield _example("slow recovery", one, f"{one.fault}: {one.seconds:.1f} s, {slo_s:g} s are allowed")


def _example(anomaly: str, one: Recovery, detail: str) -> Example:
    return Example(anomaly, _NOWHERE, None, None, one.injected.time_ms, detail)


def _doubt(grown: Sequence[Event], recovered: Sequence[Recovery]) -> str:
    """Why the run cannot tell; empty when it can."""
    if not grown:
        return "the output never grew: there was no progress to watch"
    first = next(iter(recovered), None)
    if first is not None and first.committed == 0:
        return f"nothing was committed before {first.fault}: it fell into no run"
    return ""


def _note(events: Sequence[Event]) -> str:
    still_s, blocked_s = longest_standstill_s(events), longest_blocked_s(events)
    return f"longest standstill {still_s:.1f} s, last stable offset blocked for {blocked_s:.1f} s"
