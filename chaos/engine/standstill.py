"""Why a run waits for a pipeline: what brokers and positions say of it, in a sentence with what to mend.

A pipeline that is declared wrongly looks like one that is slow: it reads another topic, writes elsewhere, commits its positions
to another group, or keeps its checkpoint at another place. The run ends UNKNOWN in each case, and this is the line that tells
them apart.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import KafkaException

from chaos.cluster.kafka import Kafka
from chaos.common.errors import DeadlineError
from chaos.common.events import FaultInjected, FaultStepBegan, PipelineSampled, ProgressSampled
from chaos.common.history import History
from chaos.engine.ends import Ends, Positions, lag, told
from chaos.engine.processes import RunProcesses
from chaos.engine.run_plan import RunPlan


class StandstillError(DeadlineError):
    """Nothing moves: it is not waited for a second time."""


@contextmanager
def reported_once() -> Iterator[None]:
    """A deadline that passes in this block is that of a standstill."""
    try:
        yield
    except DeadlineError as error:
        raise StandstillError(str(error)) from error


def moved(history: History) -> int:
    """A number that changes whenever the loader, the pipeline or its output moves."""
    sample, pipeline = history.latest(ProgressSampled), history.latest(PipelineSampled)
    return (sample.written + sample.end if sample else 0) + (sum(pipeline.positions.values()) if pipeline else 0)


def was_struck(history: History) -> bool:
    """Whether a fault was put in force, or was about to be."""
    values = (event.value for event in history.events())
    return any(isinstance(one, FaultInjected) or (isinstance(one, FaultStepBegan) and one.step == "inject") for one in values)


def why(plan: RunPlan, kafka: Kafka, processes: RunProcesses, positions: Positions | None) -> str:
    """What is behind, what brokers and positions say of it, and the pipeline's own error, as far as that is known now."""
    try:
        behind = told(lag(kafka, plan.topics.filled, plan.output, positions))
    except (KafkaException, OSError) as error:
        behind = f"how far it is behind is not known: {error}"
    return "; ".join(filter(None, (behind, now(plan, kafka, positions), processes.error_of_pipeline())))


def now(plan: RunPlan, kafka: Ends, positions: Positions | None) -> str:
    """Why output does not flow, or does not end, as far as that can be seen now."""
    try:
        seen = _seen(plan, kafka, positions)
    except KafkaException as error:
        return f"how far the pipeline is cannot be told: {error}"
    if plan.pipeline is None:
        return f"{seen.written} records are in {seen.source}"
    if plan.table is not None:
        return why_in_table(seen.source, plan.table.place, seen.written, seen.read or 0)
    return of_topic(seen)


def is_elsewhere(plan: RunPlan, kafka: Ends, positions: Positions | None) -> bool:
    """Whether the pipeline writes to another topic, or its positions are in another place, as far as that can be seen now."""
    if plan.pipeline is None or plan.table is not None:
        return False
    try:
        return _seen(plan, kafka, positions).is_elsewhere
    except KafkaException:
        return False


@dataclass(frozen=True, slots=True)
class Seen:
    """How far a run is, in records.

    Attributes:
        source, sink: as they are called in this run; of several topics that are filled, all names.
        written: in the source, or in all that is filled.
        output: in the sink, also of open transactions.
        read: up to which the positions are; None where there are none to be asked for.
        group: that holds the positions; "" for the checkpoint.
    """

    source: str
    sink: str
    written: int
    output: int
    read: int | None
    group: str

    @property
    def is_elsewhere(self) -> bool:
        """Whether output and positions cannot be of one pipeline: one of them has moved, and the other never has."""
        return self.read is not None and bool(self.output) != bool(self.read)


def _seen(plan: RunPlan, kafka: Ends, positions: Positions | None) -> Seen:
    counts = {
        one: sum(ends.hw - ends.low for ends in kafka.offsets(*one).values()) for one in (*plan.topics.filled, plan.output)
    }
    sent, names = sum(counts[one] for one in plan.topics.filled), " and ".join(one.name for one in plan.topics.filled)
    read = None if positions is None else sum(positions().values())
    return Seen(names, plan.topics.sink, sent, counts[plan.output], read, plan.group)


def of_topic(seen: Seen) -> str:
    """What is wrong, as far as the numbers tell; only the numbers where they fit a pipeline that is slow."""
    place = f"group {seen.group}" if seen.group else "its checkpoint"
    if not seen.written:
        return f"the loader has written nothing to {seen.source}; see logs/loader.log"
    if not seen.output and seen.read:
        there = f"{seen.read} records of {seen.source} were read, by {place}, and nothing was written to {seen.sink}"
        return f"{there}; does the pipeline write elsewhere? Its sink is {{sink}}; see logs/pipeline.log"
    if not seen.output:
        unread = f"nothing of {seen.source} was read, by {place}, and " if seen.read == 0 else ""
        nothing = f"{unread}nothing was written to {seen.sink}"
        return f"{nothing}; does the pipeline read {{source}} and write {{sink}} at {{bootstrap}}? See logs/pipeline.log"
    if seen.read == 0:
        known = f"{seen.output} records are in {seen.sink}, and {place} says that nothing of {seen.source} was read"
        return f"{known}; {_ELSEWHERE_IN_GROUP if seen.group else _ELSEWHERE_IN_CHECKPOINT}"
    positions = "" if seen.read is None else f", {seen.read} were read, by {place}"
    return f"{seen.written} records are in {seen.source}{positions}, and {seen.output} are in {seen.sink}"


def why_in_table(source: str, table: str, written: int, read: int) -> str:
    """What is wrong with a pipeline that writes a table, which is read when it has ended.

    Args:
        written, read: records of the source, and how many of them its checkpoint is past.
    """
    if not written:
        return f"the loader has written nothing to {source}; see logs/loader.log"
    if not read:
        unread = f"its checkpoint says that nothing of {source} was read; does the pipeline read {{source}} at {{bootstrap}}"
        return f"{unread}, and keep its checkpoint in {{checkpoint}}? Its table is {table}; see logs/pipeline.log"
    return f"{written} records are in {source}, and {read} were read, by its checkpoint; its table is {table}"


_ELSEWHERE_IN_GROUP = (
    "does the pipeline commit its positions to another group, or not at all? Declare its group, or positions: none"
)
_ELSEWHERE_IN_CHECKPOINT = (
    "is that of another query? Give the one that reads {source} a place in {checkpoint}, or declare positions: none"
)
