"""The moment of a batch of a Spark job, found by its checkpoint and by the ends of its sink.

::

    commits/1 ──── offsets/2 ──── rows of batch 2 in the sink ──── commits/2
                   planned        rows                             done

The order of events tells which batch new rows belong to: Spark plans a batch when the one before is done, so the sink's growth
after that belongs to this batch. The sink's ends are read between the two, or as soon as the plan is seen. Rows that were
written meanwhile count as old, so the moment comes with later rows of the batch, or is missed, but never comes too early.

Transaction markers take offsets as well, and those of the batch before may come after the plan of this one. So the first ends
of a partition count only if no transaction is open in it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException

from chaos.cluster.kafka import Kafka
from chaos.contract.base import CHECKPOINT
from chaos.contract.checkpoint import COMMITS, OFFSETS, State, batches, newest, of_query, planned
from chaos.engine.processes import RunProcesses
from chaos.engine.run_plan import RunPlan
from chaos.grammar.triggers import LAST, AtBatch
from chaos.runtime.capabilities import Capability
from chaos.scenario.sinks import TableSink
from verifiers.base import Bounds

_NOT_NOW = (KafkaException, OSError)  # a leader that does not answer; a fault that removes the checkpoint


@dataclass(frozen=True, slots=True)
class Job:
    """A Spark job, seen from outside.

    Attributes:
        checkpoint: that of its query, or a folder above it.
        source: the topic; batches are those of the query that reads it.
        ends: filled topic -> partition -> its ends now; raises KafkaException while a leader does not answer.
        sink_ends: partition -> ends of the sink, which was empty when the run began; errors as of `ends`.
        all_loaded: whether nothing more is written to the filled topics.
    """

    checkpoint: Path
    source: str
    ends: Mapping[str, Callable[[], Mapping[int, Bounds]]]
    sink_ends: Callable[[], Mapping[int, Bounds]]
    all_loaded: Callable[[], bool]


def job_of(plan: RunPlan, kafka: Kafka, processes: RunProcesses) -> Job | None:
    """Make the job that triggers on batches look at; None when the pipeline is not a Spark job."""
    if Capability.CHECKPOINT not in plan.scenario.pipeline.capabilities:
        return None
    table = plan.table
    sink_ends = partial(kafka.offsets, *plan.topics.output) if table is None else partial(_versions_as_bounds, table)
    return Job(
        plan.folder / CHECKPOINT,
        plan.topics.source,
        {one.name: partial(kafka.offsets, *one) for one in plan.topics.filled},
        sink_ends,
        lambda: processes.nothing_is_loaded,
    )


def _versions_as_bounds(table: TableSink) -> Mapping[int, Bounds]:
    """Return the number of times that rows were added to a table, as if these were offsets of a log."""
    count = table.versions()
    return {0: Bounds(0, count, count)}


@dataclass(slots=True)
class BatchSight:
    """The watch for the moment of one trigger.

    Attributes:
        facts: the observation when it came: ``batch``, ``seen``, ``begin`` and ``end`` (source partition -> offset), and for
            rows ``grown`` (sink partition -> offsets since the plan). Empty before.
        missed: the reason why it cannot come any more; empty as long as it can.
        rests: whether the job had nothing under way at the last look.
    """

    when: AtBatch
    job: Job
    facts: Mapping[str, Any] = field(default_factory=dict)
    missed: str = ""
    rests: bool = False
    _state: State = field(default_factory=dict)
    _batch: int | None = None  # the batch of _before and _grown
    _before: dict[int, int] = field(default_factory=dict)
    _grown: Mapping[int, int] = field(default_factory=dict)

    def came(self) -> bool:
        """Look, unless the moment has come."""
        if not self.facts:
            try:
                self._look()
            except _NOT_NOW:
                self.rests = False
        return bool(self.facts)

    def told(self) -> str:
        """Progress of the job at the last look, in words."""
        numbers = {"planned": self._state.get(OFFSETS), "done": self._state.get(COMMITS)}
        return ", ".join(f"{what}: {'no batch' if number is None else f'batch {number}'}" for what, number in numbers.items())

    def _look(self) -> None:
        checkpoint = of_query(self.job.checkpoint, self.job.source)
        before = newest(checkpoint)
        ends = self._ends_of_sink(before)
        batch = self._last(checkpoint) if self.when.batch == LAST else self.when.batch
        self._state = newest(checkpoint)  # after the requests: a batch that is not done now was not done then
        plan, done = _number(self._state[OFFSETS]), _number(self._state[COMMITS])
        self.rests = plan == done
        if ends and before == self._state:  # else their batch is unknown
            self._compare(ends, plan, done)
        if batch is None or max(plan, done) < batch:
            return
        if self.when.seen == "done":
            came = done >= batch
        elif done >= batch:
            self.missed = f"batch {batch} was done"
            return
        else:
            came = self.when.seen == "planned" or (self._batch == batch and bool(self._grown))
        if came:
            self.facts = self._facts(checkpoint, batch)

    def _ends_of_sink(self, state: State) -> Mapping[int, Bounds]:
        """Return the ends of the sink; empty if they do not matter, to spare the brokers. The last batch is unknown before."""
        near = self.when.batch == LAST or _number(state[OFFSETS]) >= self.when.batch - 1
        return self.job.sink_ends() if self.when.seen == "rows" and near else {}

    def _compare(self, ends: Mapping[int, Bounds], plan: int, done: int) -> None:
        """Keep the sink's ends before a batch, and its growth since.

        The last ends before the plan count or, without any, the first ones after it.
        """
        batch = max(plan, done) + 1 if self.rests else plan
        if batch != self._batch:
            self._batch, self._before = batch, dict.fromkeys(ends, 0) if batch == 0 else {}
        closed = {number: one.hw for number, one in ends.items() if one.lso == one.hw}
        self._before = self._before | closed if self.rests else closed | self._before
        grown = {number: one.hw - self._before[number] for number, one in ends.items() if number in self._before}
        self._grown = {number: offsets for number, offsets in grown.items() if offsets > 0}

    def _last(self, checkpoint: Path) -> int | None:
        """Return the batch that plans the last of all records; None as long as it is unknown."""
        if not self.job.all_loaded():
            return None
        ends = {topic: {number: one.hw for number, one in ask().items()} for topic, ask in self.job.ends.items()}
        last = None
        for batch in sorted(batches(checkpoint, OFFSETS), reverse=True):
            plans = {topic: planned(checkpoint, batch, topic) for topic in ends}
            if any(plans[topic].get(number, 0) < end for topic, own in ends.items() for number, end in own.items()):
                break
            last = batch  # an earlier one may have planned all already: a query with state plans batches without records
        return last

    def _facts(self, checkpoint: Path, batch: int) -> Mapping[str, Any]:
        begin, end = (planned(checkpoint, number, self.job.source) for number in (batch - 1, batch))
        grown = {"grown": self._grown} if self.when.seen == "rows" else {}
        return {"batch": batch, "seen": self.when.seen, "begin": begin, "end": end, **grown}


def _number(batch: int | None) -> int:
    return -1 if batch is None else batch
