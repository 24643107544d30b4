"""The reason why a run waits for a pipeline, from brokers and positions, in a sentence with a mend.

A wrongly declared pipeline looks like a slow one: it reads another topic, writes elsewhere, commits its positions to another
group, or keeps its checkpoint at another place. The run ends UNKNOWN in each case; this line distinguishes them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import KafkaException

from chaos.cluster.kafka import Kafka
from chaos.common.errors import DeadlineError, StandstillError
from chaos.common.events import FaultInjected, FaultStepBegan, PipelineSampled, ProgressSampled
from chaos.common.history import History
from chaos.engine.ends import Ends, Positions, lag, told
from chaos.engine.processes import RunProcesses
from chaos.engine.run_plan import RunPlan


@contextmanager
def reported_once() -> Iterator[None]:
    """Turn a DeadlineError of this block into a StandstillError."""
    try:
        yield
    except DeadlineError as error:
        raise StandstillError(str(error)) from error


def moved(history: History) -> int:
    """Return a number that changes whenever the loader, the pipeline or its output moves."""
    sample, pipeline = history.latest(ProgressSampled), history.latest(PipelineSampled)
    return (sample.written + sample.end if sample else 0) + (sum(pipeline.positions.values()) if pipeline else 0)


def was_struck(history: History) -> bool:
    """Whether a fault was put in force, or was about to be."""
    values = (event.value for event in history.events())
    return any(isinstance(one, FaultInjected) or (isinstance(one, FaultStepBegan) and one.step == "inject") for one in values)


def why(plan: RunPlan, kafka: Kafka, processes: RunProcesses, positions: Positions | None) -> str:
    """Word the work left, the evidence of brokers and positions, and the pipeline's own error, as far as known now."""
    try:
        behind = told(lag(kafka, plan.topics.filled, plan.output, positions))
    except (KafkaException, OSError) as error:
        behind = f"its lag is unknown: {error}"
    return "; ".join(filter(None, (behind, now(plan, kafka, positions), processes.error_of_pipeline())))


def now(plan: RunPlan, kafka: Ends, positions: Positions | None) -> str:
    """Word the reason why output does not flow, or does not end, as far as it can be seen now."""
    try:
        seen = _seen(plan, kafka, positions)
    except KafkaException as error:
        return f"the pipeline's progress is unknown: {error}"
    if plan.pipeline is None:
        return f"{seen.source} has {seen.written} records"
    if plan.table is not None:
        return why_in_table(seen.source, plan.table.place, seen.written, seen.read or 0)
    return of_topic(seen)


def is_elsewhere(plan: RunPlan, kafka: Ends, positions: Positions | None) -> bool:
    """Whether the pipeline writes to another topic, or its positions are elsewhere, as far as that can be seen now."""
    if plan.pipeline is None or plan.table is not None:
        return False
    try:
        return _seen(plan, kafka, positions).is_elsewhere
    except KafkaException:
        return False


@dataclass(frozen=True, slots=True)
class Seen:
    """The progress of a run, in records.

    Attributes:
        source, sink: names in this run; if several topics are filled, all their names.
        written: records in the source, or in all filled topics.
        output: records in the sink, with those of open transactions.
        read: records before the positions; None if there are no positions.
        group: the group that holds the positions; "" for the checkpoint.
    """

    source: str
    sink: str
    written: int
    output: int
    read: int | None
    group: str

    @property
    def is_elsewhere(self) -> bool:
        """Whether output and positions cannot belong to one pipeline: one of them has moved, and the other never has."""
        return self.read is not None and bool(self.output) != bool(self.read)


def _seen(plan: RunPlan, kafka: Ends, positions: Positions | None) -> Seen:
    counts = {
        one: sum(ends.hw - ends.low for ends in kafka.offsets(*one).values()) for one in (*plan.topics.filled, plan.output)
    }
    sent, names = sum(counts[one] for one in plan.topics.filled), " and ".join(one.name for one in plan.topics.filled)
    read = None if positions is None else sum(positions().values())
    return Seen(names, plan.topics.sink, sent, counts[plan.output], read, plan.group)


def of_topic(seen: Seen) -> str:
    """Word the mistake that the numbers show; only the numbers if they fit a slow pipeline."""
    place = f"group {seen.group}" if seen.group else "its checkpoint"
    if not seen.written:
        return f"the loader has written nothing to {seen.source}; see logs/loader.log"
    if not seen.output and seen.read:
        there = f"the pipeline has read {seen.read} records of {seen.source} (by {place}), but written nothing to {seen.sink}"
        return f"{there}; does it write elsewhere? Its sink is {{sink}}; see logs/pipeline.log"
    if not seen.output:
        unread = f"read nothing of {seen.source} (by {place}) and " if seen.read == 0 else ""
        nothing = f"the pipeline has {unread}written nothing to {seen.sink}"
        return f"{nothing}; does it read {{source}} and write {{sink}} at {{bootstrap}}? See logs/pipeline.log"
    if seen.read == 0:
        known = f"{seen.sink} has {seen.output} records, but the pipeline has read nothing of {seen.source} (by {place})"
        return f"{known}; {_ELSEWHERE_IN_GROUP if seen.group else _ELSEWHERE_IN_CHECKPOINT}"
    positions = "" if seen.read is None else f" ({seen.read} read by {place})"
    return f"{seen.source} has {seen.written} records{positions}, {seen.sink} has {seen.output}"


def why_in_table(source: str, table: str, written: int, read: int) -> str:
    """Word the mistake of a pipeline that writes a table, which is read only after its end.

    Args:
        written, read: numbers of records in the source, and before the checkpoint's positions.
    """
    if not written:
        return f"the loader has written nothing to {source}; see logs/loader.log"
    if not read:
        unread = f"the pipeline has read nothing of {source} (by its checkpoint); does it read {{source}} at {{bootstrap}}"
        return f"{unread}, and keep its checkpoint in {{checkpoint}}? Its table is {table}; see logs/pipeline.log"
    return f"{source} has {written} records ({read} read by its checkpoint); the table is {table}"


_ELSEWHERE_IN_GROUP = (
    "does the pipeline commit its positions to another group, or not at all? Declare its group, or positions: none"
)
_ELSEWHERE_IN_CHECKPOINT = (
    "does the checkpoint belong to another query? Give the one that reads {source} a place in {checkpoint}, or declare "
    "positions: none"
)
