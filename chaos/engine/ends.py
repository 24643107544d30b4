"""The progress of a run, by brokers and positions: the work left, the ends of logs, and the rest of an output.

A pipeline is done when it has read all its input, no transaction is open, and its output has stopped growing. Positions alone
do not prove that: a program may store them before it has written the rows, and some do.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from confluent_kafka import IsolationLevel, KafkaException

from chaos.cluster.kafka import Kafka
from chaos.cluster.system import System
from chaos.common import clock
from chaos.common.errors import DeadlineError
from chaos.common.events import FaultHealed, FaultInjected, FaultStepBegan, ProgressSampled
from chaos.common.history import Event, History
from chaos.contract.base import Topic, numbered_through
from chaos.engine import triggers
from chaos.engine.pipelines import endpoints
from chaos.engine.processes import RunProcesses
from chaos.engine.run_plan import RunPlan
from verifiers.base import Bounds

Positions = Callable[[], Mapping[int, int]]
Offsets = Mapping[str, Mapping[int, Bounds]]
"""Topic -> partition -> the ends to which it is read."""

_SETTLES_WITHIN_S = 30.0
# A program that writes on a timer may be stopped in the middle of a transaction. It holds the positions back until its
# transaction.timeout.ms is over, 60 s by default in most clients, and the coordinator looks for such transactions every 10 s.
_ANSWERS_WITHIN_S = 100.0
_MARKERS_AT_MOST = 100  # of transactions without records, one after the other
_LONGER_THAN_USUAL = 1.5
_GROWN = "records of an output that has just grown"
_RESTS_S, _RESTS_COMPLETE_AT_MOST_S = 0.5, 2.0  # for an output with all its records, unless some are there twice
_RESTS_INCOMPLETE_S = 1.5  # at least, for one that lacks records, or may lack some
_RESTS_AT_MOST_S = 60.0
_RESTS_UNTOLD_S = 5.0  # for an output with as many records as were sent, if no positions show that all was read
_GIVEN_UP_UNTOLD_S = 60.0  # for one with fewer: as long as a pipeline may stand still after a fault
_OF_DEADLINE = 0.8  # a rest must be over before it is taken for a standstill


class Ends(Protocol):
    """The source of ends of topics, and of a group's topics and positions: `chaos.cluster.kafka.Kafka`."""

    def offsets(self, topic: str, partitions: int) -> Mapping[int, Bounds]: ...

    def settled_offsets(self, topic: str, partitions: int) -> Mapping[int, Bounds]: ...

    def has_records(self, topic: str, partition: int, offset: int) -> bool: ...

    def reads(self, group: str) -> Mapping[str, tuple[int, Mapping[int, int]]]: ...


@dataclass(slots=True)
class OfGroup:
    """The positions of a pipeline in a consumer group: in the filled topics, and in its other topics.

    Attributes:
        in_sources: requests those in the filled topics, numbered through.
        sources: names of the filled topics.
    """

    in_sources: Positions
    kafka: Ends
    group: str
    sources: frozenset[str]
    _seen: dict[str, int] = field(default_factory=dict)

    def __call__(self) -> Mapping[int, int]:
        return self.in_sources()

    def beside(self) -> Mapping[Topic, Mapping[int, int]]:
        """Return the position by partition of every other topic that the group reads, or was seen to read before.

        Raises:
            KafkaException: no broker answers now.
        """
        found = {name: read for name, read in self.kafka.reads(self.group).items() if name not in self.sources}
        self._seen |= {name: partitions for name, (partitions, _) in found.items()}
        return {Topic(name, count): found.get(name, (count, {}))[1] for name, count in self._seen.items()}


def positions_of(plan: RunPlan, system: System, of: Sequence[Topic] | None = None) -> Positions | None:
    """Return a function that requests the pipeline's position in each source partition; None if it has no positions.

    Args:
        of: topics, numbered through; all filled ones by default.
    """
    pipeline = plan.pipeline
    if pipeline is None or not plan.scenario.pipeline.has_positions:
        return None

    def in_topic(one: Topic) -> Mapping[int, int]:
        return pipeline.positions(endpoints(system, plan.client), plan.topics.of_one(one), plan.folder)

    def in_sources() -> Mapping[int, int]:
        return numbered_through(plan.topics.filled if of is None else of, in_topic)

    if of is not None or not plan.group:
        return in_sources
    return OfGroup(in_sources, system.kafka, plan.group, frozenset(one.name for one in plan.topics.filled))


def lag(kafka: Ends, sources: Sequence[Topic], output: Topic, positions: Positions | None) -> dict[str, int]:
    """Return the work left, in words, with its number of records: open transactions, and records not read yet.

    A position behind the last record of a log is at its end, whatever markers follow: readers do not get those.

    Args:
        sources: the topics in the order in which positions are numbered through.
    """
    source_ends = numbered_through(sources, lambda one: kafka.offsets(*one))
    output_ends = kafka.offsets(*output)
    left = {f"open in {output.name}-{number}": ends.hw - ends.lso for number, ends in output_ends.items()}
    if positions:
        reached = positions()
        places = numbered_through(sources, lambda one: {number: (one.name, number) for number in range(one.partitions)})
        for number, ends in source_ends.items():
            left |= _behind(kafka, places[number], ends, reached.get(number, 0))
    left = {what: count for what, count in left.items() if count > 0}
    return left or lag_beside(kafka, positions)


def lag_beside(kafka: Ends, positions: Positions | None) -> dict[str, int]:
    """Return the records not read yet in topics that the pipeline fills itself and reads again."""
    if not isinstance(positions, OfGroup):
        return {}
    left: dict[str, int] = {}
    for topic, reached in positions.beside().items():
        for number, ends in kafka.offsets(*topic).items():
            left |= _behind(kafka, (topic.name, number), ends, reached.get(number, 0))
    return left


def _behind(kafka: Ends, place: tuple[str, int], ends: Bounds, position: int) -> dict[str, int]:
    at = max(ends.low, position)
    behind = ends.lso - at
    if behind <= 0 or (behind <= _MARKERS_AT_MOST and not kafka.has_records(*place, at)):
        return {}
    topic, partition = place
    return {f"behind in {topic}-{partition}": behind}


def told(left: Mapping[str, int]) -> str:
    """Word the work left: ``behind in orders-2: 500, open in copies-0: 3``; of many partitions, the first ones."""
    most = 8
    some = [f"{what}: {count}" for what, count in left.items()]
    return ", ".join([*some[:most], *([f"and {len(some) - most} more"] if len(some) > most else [])])


def to_do(left: Mapping[str, int] | None) -> int | None:
    """Return a number that falls as long as a pipeline goes on: the records left or, once all is read, minus the output.

    None while nothing is known.
    """
    if left is None:
        return None
    return -left[_GROWN] if _GROWN in left else sum(left.values())


def is_through(plan: RunPlan, kafka: Kafka, processes: RunProcesses, positions: Positions | None) -> bool:
    """Whether all is loaded, and the pipeline past all of it: rows that it has not written by then are lost."""
    if positions is None or not processes.nothing_is_loaded:
        return False
    try:
        return not lag(kafka, plan.topics.filled, plan.output, positions)
    except (KafkaException, OSError):  # unknown: a broker does not answer now, or a fault has taken the checkpoint
        return False


def written(plan: RunPlan, kafka: Kafka, positions: Positions | None) -> Callable[[IsolationLevel], int]:
    """Return a function that measures the output: a topic by its end, a table by the source records that are processed.

    A table's end is expensive to read. Its rows stay when the pipeline goes back, so this number never falls.
    """
    if plan.table is None or positions is None:
        return partial(kafka.end, *plan.output)
    most = 0

    def through(_isolation: IsolationLevel) -> int:
        nonlocal most
        with suppress(OSError):  # a fault removes the checkpoint
            most = max(most, sum(positions().values()))
        return most

    return through


def readable(end: Callable[[IsolationLevel], int]) -> int:
    """Return the read_committed end of an output (`written`); 0 when a broker does not answer now."""
    try:
        return end(IsolationLevel.READ_COMMITTED)
    except KafkaException:
        return 0


def settled(kafka: Ends, topics: Iterable[Topic], positions: Positions | None) -> tuple[Offsets, Mapping[int, int]]:
    """Return the ends of the topics and the pipeline's positions at one moment: nothing was committed during the requests.

    Without positions if the pipeline has read records that it has not written to its output.
    """
    asked = None if _beside(kafka, positions) else positions
    ends: Mapping[str, Mapping[int, Bounds]] = {}
    before: Mapping[int, int] = {}

    def rest() -> bool:
        nonlocal ends, before
        before = asked() if asked else {}
        ends = {topic.name: kafka.settled_offsets(*topic) for topic in topics}
        return asked is None or asked() == before

    clock.wait_until(rest, within_s=_SETTLES_WITHIN_S, reason="the pipeline's position to rest")
    return ends, before


def can_be_read(kafka: Ends, positions: Positions | None) -> bool:
    """Whether the pipeline's positions can be read: a transaction that nothing ends holds those of its group back for ever."""
    try:
        _beside(kafka, positions)
    except DeadlineError:
        return False
    return True


def _beside(kafka: Ends, positions: Positions | None) -> Mapping[str, int]:
    """Return the work left between the pipeline's topics, as soon as its group has positions that are certain.

    Raises:
        DeadlineError: it has none for longer than a coordinator lets a transaction live.
    """
    found = clock.wait_until(
        lambda: (lag_beside(kafka, positions),),
        within_s=_ANSWERS_WITHIN_S,
        reason="the positions of the group, which a transaction that the pipeline left open may hold back",
        ignore=(KafkaException,),
    )
    return found[0]


# an output that has stopped growing ------------------------------------------------------------------------------------


@dataclass(slots=True)
class Rest:
    """The rest of an output: it has not grown for so long that nothing more can be expected.

    Attributes:
        complete_s: seconds that it must have stood still if it has all its records.
        incomplete_s: seconds if it lacks records, or may lack some.
        says_missing: whether to name the missing records, because nothing else shows that the pipeline is not done.
        by_the_clock: whether the pipeline writes on a timer, so that its output never stands still: then the time counts from
            the moment when all was read.
    """

    complete_s: float
    incomplete_s: float
    says_missing: bool = False
    by_the_clock: bool = False
    _seen: int = -1
    _since_s: float = 0.0

    def within(self, deadline_s: float) -> "Rest":
        """Return this rest, shortened so that it fits into a deadline."""
        longest_s = _OF_DEADLINE * deadline_s
        return replace(self, complete_s=min(self.complete_s, longest_s), incomplete_s=min(self.incomplete_s, longest_s))

    def missing(self, there: int, lacks: int | None, stood_s: float = 0.0) -> dict[str, int]:
        """Return the records that the output lacks, or that it still grows; empty once it has rested long enough.

        Args:
            there: its end.
            lacks: number of records that it lacks; None if unknown.
            stood_s: seconds that it had stood still at the first look.
        """
        now_s = clock.monotonic_s()
        if there != self._seen:
            if self._seen < 0 or not self.by_the_clock:
                self._since_s = now_s - (stood_s if self._seen < 0 and not self.by_the_clock else 0.0)
            self._seen = there
        complete = lacks is not None and lacks <= 0
        if now_s - self._since_s >= (self.complete_s if complete else self.incomplete_s):
            return {}
        if lacks and lacks > 0 and self.says_missing:
            return {"records missing in the output": lacks}
        return {_GROWN: there}


def left_in(plan: RunPlan, kafka: Kafka, history: History, positions: Positions | None, rest: Rest | None) -> Mapping[str, int]:
    """Return the work left until a run can be observed: unread records, missing output, or output that still grows."""
    undone = lag(kafka, plan.topics.filled, plan.output, positions)
    if rest is None or (undone and not rest.says_missing):
        return undone
    there, sample = kafka.end(*plan.output, IsolationLevel.READ_COMMITTED), history.latest(ProgressSampled)
    stood_s = history.age_s(ProgressSampled) if sample is not None and sample.end == there else 0.0
    rows = there if sample is None or plan.expectation.counts_records else min(there, sample.committed)
    lacks = None if plan.expectation.counts_records else plan.demanded - triggers.refused(history) - rows
    return {**undone, **rest.missing(there, lacks, stood_s)}


def rest_in(plan: RunPlan, history: History, positions: Positions | None) -> Rest | None:
    """Return the condition for a rested output; None if nothing is written, and for a table, which only Spark reads."""
    if plan.pipeline is None or (positions is not None and plan.table is not None):
        return None
    usual = rest_of(history, plan.drains_within_s)
    usual.by_the_clock = plan.scenario.pipeline.timers
    if positions is not None:
        return usual
    given_up_s = max(plan.scenario.gives_up_after_s or _GIVEN_UP_UNTOLD_S, usual.incomplete_s)
    return Rest(max(_RESTS_UNTOLD_S, usual.incomplete_s), given_up_s, says_missing=True).within(plan.drains_within_s)


def rest_of(history: History, within_s: float) -> Rest:
    """Return the rest for a pipeline whose positions are at the end, since it may store them before it writes rows.

    Such a program keeps its pace, so the rest is a little longer than its usual time from one growth to the next.

    Args:
        within_s: the deadline of the drain.
    """
    usual_s = min(_RESTS_AT_MOST_S, _LONGER_THAN_USUAL * usual_gap_s(history.events()))
    complete_s = min(_RESTS_COMPLETE_AT_MOST_S, max(_RESTS_S, usual_s))
    return Rest(complete_s, max(_RESTS_INCOMPLETE_S, usual_s)).within(within_s)


def usual_gap_s(events: Iterable[Event]) -> float:
    """Return the longest time between two growths of the output while no fault was in force and none came; 0 if none grew."""
    return max(_gaps_s(events), default=0.0)


def _gaps_s(events: Iterable[Event]) -> Iterator[float]:
    in_force: set[str] = set()
    before_s, most, is_spoilt = None, 0, False
    for event in events:
        match event.value:
            case FaultHealed(fault=fault):
                in_force.discard(fault)
            case FaultInjected(fault=fault) | FaultStepBegan(fault=fault, step="inject"):
                in_force.add(fault)
                is_spoilt = True
            case ProgressSampled(end=end) if end > most:
                if before_s is not None and not is_spoilt:
                    yield event.elapsed_s - before_s
                before_s, most, is_spoilt = event.elapsed_s, end, bool(in_force)
            case _:
                pass
