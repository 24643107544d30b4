"""Triggers, the moments of injections: brokers and checkpoints show them, never the pipeline itself.

A trigger may also be a request of the protocol: the `kafka` toxic stops it on the wire while its fault is injected.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from statistics import median
from threading import Event as Flag
from typing import Any

from chaos.cluster.rules import Interception, RequestRules, Rule
from chaos.common import clock
from chaos.common.errors import InconclusiveError
from chaos.common.events import FaultEvent, FaultFailed, FaultInjected, FaultProved, PipelineSampled, ProgressSampled
from chaos.common.history import History
from chaos.engine.batches import BatchSight, Job
from chaos.faults.base import FaultContext
from chaos.faults.targets import resolve_links
from chaos.grammar.targets import LinkPattern
from chaos.grammar.triggers import LAST, OF_BROKERS, After, AfterFault, AtBatch, OnRequest, Progress
from chaos.judging.progress import growths

_EVERY_S = 0.005
_BATCH_EVERY_S = 0.03  # each look reads folders, and may ask three brokers
_QUIET_S = 3.0
_INTERVAL_AT_MOST_S = 60.0
_EVENTS: Mapping[str, type[FaultEvent]] = {"injected": FaultInjected, "proved": FaultProved}


@dataclass(frozen=True, slots=True)
class Watch:
    """The state of a run that triggers look at.

    Attributes:
        began_s: time of the first output, in monotonic seconds; ``after`` counts from there.
        records: number of records that the output will have, if none is refused.
        deadline_s: seconds to wait for a trigger.
        stop: set when the run ends early.
        job: the Spark job whose batches matter; None if no trigger is on a batch.
        workload: number of records in the source, if the output will have another one.
    """

    history: History
    began_s: float
    records: int
    deadline_s: float
    stop: Flag
    job: Job | None = None
    workload: int | None = None

    @property
    def written(self) -> int:
        """Number of records that the filled topics will have."""
        return (self.records if self.workload is None else self.workload) - refused(self.history)

    @property
    def total(self) -> int:
        """Number of records that will pass: all that no broker has refused."""
        return self.records - refused(self.history)


def wait_for(when: After | Progress | AfterFault | AtBatch, watch: Watch, *, offset: float = 0.0) -> Mapping[str, Any]:
    """Return at the declared moment, with the observation.

    Args:
        offset: delay after the moment of a trigger on progress, as a share of the usual time between two growths.

    Raises:
        InconclusiveError: the run was stopped first.
        DeadlineError: the moment never came.
    """
    match when:
        case After(after_s=after_s):
            _pause(watch.began_s + after_s - clock.monotonic_s(), watch)
            return {"elapsed_s": round(clock.monotonic_s() - watch.began_s, 3)}
        case AfterFault(fault=fault, once=once, after_s=after_s):
            until(
                lambda: _did(watch.history, fault, _EVENTS[once]),
                watch,
                f"{fault} to be {once}",
                over=lambda: _failure(watch.history, fault),
            )
            _pause(after_s, watch)
            return {"after": fault}
        case Progress(percent=percent):
            wanted = watch.total * percent / 100
            until(lambda: committed(watch.history) >= wanted, watch, f"{percent:g} % of the workload to be committed")
            seen = {"committed": committed(watch.history), "of": watch.total}
            between_s = usual_interval_s(watch.history) if offset else 0.0
            if not between_s:
                return seen
            _pause(offset * between_s, watch)
            return seen | {"offset_s": round(offset * between_s, 3), "interval_s": round(between_s, 3)}
        case AtBatch():
            return _batch(when, watch)


def _batch(when: AtBatch, watch: Watch) -> Mapping[str, Any]:
    assert watch.job is not None  # noqa: S101 - elsewhere such a trigger is refused when the file is read
    sight = BatchSight(when, watch.job)

    def over() -> str:
        return sight.missed or (all_through(watch) if sight.rests and when.batch != LAST else "")

    until(sight.came, watch, f"{when}", over, every_s=_BATCH_EVERY_S, seen=sight.told)
    return sight.facts


def usual_interval_s(history: History) -> float:
    """Median of the times between two growths of the output so far; 0 before there were three growths."""
    grown = [event.elapsed_s for event in growths(history.events())]
    intervals_s = [now - before for before, now in pairwise(grown)]
    return min(median(intervals_s), _INTERVAL_AT_MOST_S) if len(intervals_s) > 1 else 0.0


def refused(history: History) -> int:
    """Number of records that brokers refused for good, from the loaders' last reports."""
    return sum(int(loaded.content.get("refused", 0)) for loaded in history.last_of_loaders("loaded"))


def committed(history: History) -> int:
    """Number of records that a read_committed reader of the pipeline's output can see, by the last sample."""
    sample = history.latest(ProgressSampled)
    return sample.committed if sample else 0


def end(history: History) -> int:
    """End of the output for a read_committed reader, by the last sample: its records, markers and duplicates."""
    sample = history.latest(ProgressSampled)
    return sample.end if sample else 0


def through(watch: Watch) -> bool:
    """Whether the whole workload has passed.

    The output alone does not prove it: markers, aborted rows and duplicates take offsets too. So all records must be in the
    source, and the pipeline at its end. Its position is sampled once a second: this may be true a moment late, never too early.
    """
    sample, pipeline = watch.history.latest(ProgressSampled), watch.history.latest(PipelineSampled)
    if sample is None or sample.committed < watch.total or sample.written < watch.written:
        return False
    return pipeline is None or pipeline.lag == 0


def all_through(watch: Watch) -> str:
    """Return a reason once the whole workload has passed and nothing has grown for a while: no request will come any more."""
    is_over = through(watch) and watch.history.age_s(ProgressSampled) >= _QUIET_S
    return "all of the workload had passed" if is_over else ""


def until(
    condition: Callable[[], bool],
    watch: Watch,
    reason: str,
    over: Callable[[], str] = lambda: "",
    *,
    every_s: float = _EVERY_S,
    seen: Callable[[], str] | None = None,
) -> None:
    """Return when the condition holds.

    Args:
        over: returns the reason why the condition cannot come true any more; empty as long as it can.
        every_s: seconds between two looks.
        seen: returns the progress, for the error at the deadline; the committed part of the workload by default.

    Raises:
        InconclusiveError: the run was stopped first, or `over` gave a reason.
        DeadlineError: the condition never came true.
    """
    clock.wait_until(
        lambda: condition() or watch.stop.is_set() or bool(over()),
        within_s=watch.deadline_s,
        reason=f"the trigger: {reason}",
        every_s=every_s,
        seen=seen or (lambda: f"{committed(watch.history)} of {watch.total}"),
    )
    if not condition():
        raise InconclusiveError(f"{over() or 'the run ended'} before the trigger came: {reason}")


def _pause(seconds: float, watch: Watch) -> None:
    if seconds > 0 and clock.pause(seconds, watch.stop):
        raise InconclusiveError("the run ended before the trigger came")


def _did(history: History, fault: str, kind: type[FaultEvent]) -> bool:
    values = (event.value for event in history.events())
    return any(isinstance(value, kind) and value.fault == fault for value in values)


def _failure(history: History, fault: str) -> str:
    failures = [value for event in history.events() if isinstance(value := event.value, FaultFailed) and value.fault == fault]
    return f"{fault} failed" if any(value.step in {"trigger", "inject", "prove"} for value in failures) else ""


# a request of the protocol, held on its way ---------------------------------------------------------------------------


_PEERS = LinkPattern("broker-*", "broker-*")
_PIPELINE = LinkPattern("pipeline", "*")
_MAX_HOLD_MS = 120_000


@dataclass(frozen=True, slots=True)
class RequestHold:
    """A rule that waits for its frame.

    Attributes:
        name: the rule's name.
        links: the links' names.
    """

    name: str
    when: OnRequest
    links: Sequence[str]
    rules: RequestRules

    def interception(self) -> Interception | None:
        """The frame, once it is held."""
        return next(iter(self.rules.interceptions(self.name)), None)

    def missed(self) -> Mapping[str, Any]:
        """Return the traffic instead, to distinguish a request that is never sent from one that is sent too rarely.

        Returns:
            request, links, sent (number in this run), unparsed (number of this run's connections that do not speak Kafka).
        """
        return {
            "request": self.when.request,
            "links": list(self.links),
            "sent": self.rules.sent(self.when.request, self.links),
            "unparsed": self.rules.unparsed(self.links),
        }

    def let_go(self, how: str) -> None:
        """``deliver`` it, ``drop`` it, or ``close`` its connection."""
        self.rules.release(self.name, how)

    def remove(self) -> None:
        """Remove the rule, and deliver held frames. Idempotent."""
        self.rules.disarm(self.name)


def hold_request(
    name: str, when: OnRequest, context: FaultContext, rng: Random, *, late: bool, hold_s: float = 0.0
) -> RequestHold:
    """Arm a rule for the frame that a trigger declares.

    Args:
        late: whether the frame outlives its client.
        hold_s: seconds that the fault will hold it; the toxic must not deliver it by itself before.

    Raises:
        InjectionError: no link fits.
    """
    pattern = when.link or (_PEERS if when.request in OF_BROKERS else _PIPELINE)
    links = [link.name for link in resolve_links(pattern, context, rng)[0]]
    rules = context.system.rules
    rule = Rule(
        api=when.request,
        at=when.at,
        links=links,
        action="late" if late else "hold",
        nth=when.nth,
        client_id=when.client_id or "",
        transactional_id=when.transactional_id or "",
        max_hold_ms=_MAX_HOLD_MS + round(2000 * hold_s),
    )
    return RequestHold(rules.arm(name, rule), when, links, rules)
