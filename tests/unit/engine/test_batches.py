"""Triggers on a batch of a Spark job: what its checkpoint and its sink must show, and when the moment was missed."""

from dataclasses import dataclass, field, replace
from threading import Event as Flag
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from chaos.common import clock
from chaos.common.errors import DeadlineError, InconclusiveError
from chaos.common.events import FaultInjected, ProgressSampled
from chaos.common.history import History, load
from chaos.contract.base import Topic, Topics
from chaos.contract.checkpoint import COMMITS, OFFSETS
from chaos.engine import triggers
from chaos.engine.batches import BatchSight, Job, job_of
from chaos.engine.nemesis import Nemesis
from chaos.engine.triggers import Watch
from chaos.faults.base import FaultContext
from chaos.grammar.triggers import AtBatch
from chaos.judging.verdict import decide
from chaos.scenario.model import Scenario
from chaos.scenario.plan import plan
from tests.unit.engine.played import FakeEnds, FakeManagedProcess, run_plan, run_processes
from tests.unit.wording import keep, raised
from verifiers.base import Bounds, Verdict


@dataclass
class FakeJob:
    """A checkpoint on disk, and the ends of two topics with two partitions.

    Attributes:
        sink: high watermarks; opened: where transactions are open, the last stable offset.
        on_asking: done when the sink is asked, after its answer is known: what happens between two looks.
    """

    folder: object
    source: list = field(default_factory=lambda: [0, 0])
    sink: list = field(default_factory=lambda: [0, 0])
    opened: dict = field(default_factory=dict)
    loaded: bool = False
    silent: bool = False
    asked: int = 0
    on_asking: object = lambda: None

    def plan(self, batch, *ends):
        self.source = [max(pair) for pair in zip(self.source, ends, strict=True)]
        offsets = f'{{"in":{{"0":{ends[0]},"1":{ends[1]}}}}}'
        self._write(OFFSETS, batch, f'v1\n{{"batchWatermarkMs":0}}\n{offsets}')

    def commit(self, batch):
        self._write(COMMITS, batch, "v1\n{}")

    def do(self, batch, *ends):
        """A whole batch; its rows are copies, so the sink ends where the source does."""
        self.plan(batch, *ends)
        self.sink = list(ends)
        self.commit(batch)

    def watched(self):
        return Job(self.folder, "in", {"in": lambda: self._ends(self.source)}, self._sink_ends, lambda: self.loaded)

    def sight(self, batch, seen):
        return BatchSight(AtBatch(batch=batch, seen=seen), self.watched())

    def _write(self, log, batch, text):
        (self.folder / log).mkdir(parents=True, exist_ok=True)
        (self.folder / log / str(batch)).write_text(text, encoding="utf-8")

    def _sink_ends(self):
        self.asked += 1
        answer = self._ends(self.sink)
        self.on_asking()
        return {number: Bounds(0, self.opened.get(number, one.lso), one.hw) for number, one in answer.items()}

    def _ends(self, ends):
        if self.silent:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return {number: Bounds(0, end, end) for number, end in enumerate(ends)}


@pytest.fixture
def job(tmp_path):
    """A job that has done two batches."""
    fake = FakeJob(tmp_path / "checkpoint")
    fake.do(0, 10, 10)
    fake.do(1, 20, 20)
    return fake


@pytest.fixture
def watch(job, tmp_path):
    """A run of 60 records that just began."""
    with History(tmp_path / "history.jsonl") as history:
        yield Watch(history, clock.monotonic_s(), 60, 0.05, Flag(), job.watched())


def test_a_batch_is_planned_when_the_checkpoint_has_its_plan(job):
    """Nothing of it is written; the range is that between the two plans, and the sink is not asked for it."""
    sight = job.sight(2, "planned")
    assert not sight.came()

    job.plan(2, 30, 25)

    assert sight.came()
    assert sight.facts == {"batch": 2, "seen": "planned", "begin": {0: 20, 1: 20}, "end": {0: 30, 1: 25}}
    assert job.asked == 0


def test_rows_of_a_batch_are_seen_when_the_sink_has_grown_since_the_batch_before(job):
    """The plan alone is not enough."""
    sight = job.sight(2, "rows")
    assert not sight.came()
    job.plan(2, 30, 30)
    assert not sight.came()

    job.sink = [20, 23]

    assert sight.came()
    assert sight.facts["grown"] == {1: 3}
    assert (sight.facts["begin"], sight.facts["end"]) == ({0: 20, 1: 20}, {0: 30, 1: 30})


def test_rows_that_were_there_when_the_plan_was_first_seen_do_not_count(job):
    """They could be of the batch before: only what comes later is known to be of this one."""
    job.plan(2, 30, 30)
    job.sink = [25, 20]
    sight = job.sight(2, "rows")
    assert not sight.came()

    job.sink = [26, 20]

    assert sight.came()
    assert sight.facts["grown"] == {0: 1}


def test_rows_of_the_batch_before_that_come_while_the_sink_is_asked_do_not_count(job):
    """The sink's end is kept only if the checkpoint was the same before and after it was read."""
    job.plan(2, 30, 30)
    sight = job.sight(3, "rows")

    def batch_2_ends():
        job.on_asking = lambda: None
        job.do(2, 30, 30)
        job.plan(3, 40, 40)

    job.on_asking = batch_2_ends
    assert not sight.came()
    assert not sight.came()

    job.sink = [31, 30]
    assert sight.came()


def test_what_the_sink_gains_between_two_batches_does_not_count(job):
    """It is of the batch before, such as rows of a task that Spark has given up."""
    sight = job.sight(2, "rows")
    assert not sight.came()
    job.sink = [24, 20]
    assert not sight.came()
    job.plan(2, 30, 30)
    assert not sight.came()

    job.sink = [25, 20]
    assert sight.came()
    assert sight.facts["grown"] == {0: 1}


def test_rows_of_the_batch_before_are_not_taken_for_those_of_a_batch_that_was_just_planned(job):
    """They were seen, and the batch of the trigger is planned, but of that nothing has been seen yet."""
    sight = job.sight(3, "rows")
    job.plan(2, 30, 30)
    assert not sight.came()
    job.sink = [25, 20]
    assert not sight.came()

    def batch_2_ends():
        job.do(2, 30, 30)
        job.plan(3, 40, 40)

    job.on_asking = batch_2_ends
    assert not sight.came()


def test_rows_of_another_batch_do_not_count(job):
    """That of the trigger is a later one."""
    sight = job.sight(3, "rows")
    job.plan(2, 30, 30)
    assert not sight.came()
    job.sink = [22, 20]
    assert not sight.came()
    job.do(2, 30, 30)
    assert not sight.came()

    job.plan(3, 40, 40)
    assert not sight.came()


def test_the_markers_of_the_batch_before_are_no_rows(job):
    """They end transactions of its tasks, and a broker may write them after the next plan."""
    job.opened = {0: 12, 1: 12}
    sight = job.sight(2, "rows")
    assert not sight.came()
    job.plan(2, 30, 30)
    assert not sight.came()

    job.sink, job.opened = [21, 21], {}
    assert not sight.came()
    job.sink, job.opened = [21, 24], {1: 21}
    assert sight.came()
    assert sight.facts["grown"] == {1: 3}


def test_the_first_batch_has_rows_as_soon_as_the_sink_has_any(tmp_path):
    """The sink of a run is new."""
    job = FakeJob(tmp_path / "checkpoint")
    job.plan(0, 10, 10)
    assert not job.sight(0, "rows").came()

    job.sink = [4, 0]
    sight = job.sight(0, "rows")

    assert sight.came()
    assert (sight.facts["begin"], sight.facts["end"]) == ({}, {0: 10, 1: 10})


def test_a_batch_is_done_when_the_checkpoint_says_so(job):
    """Rows are not enough."""
    sight = job.sight(2, "done")
    job.plan(2, 30, 30)
    job.sink = [30, 30]
    assert not sight.came()

    job.commit(2)

    assert sight.came()
    assert sight.facts == {"batch": 2, "seen": "done", "begin": {0: 20, 1: 20}, "end": {0: 30, 1: 30}}


@pytest.mark.parametrize("seen", ["planned", "rows"])
def test_a_batch_that_is_done_before_it_is_seen_was_missed(job, seen):
    """The fault would strike another batch; a moment that was missed does not come later."""
    sight = job.sight(2, seen)
    assert not sight.came()
    job.do(2, 30, 30)

    assert not sight.came()
    assert sight.missed == "batch 2 was done"
    job.sink = [31, 30]
    assert not sight.came()


def test_a_batch_that_is_done_while_the_sink_is_asked_was_missed(job):
    """Its rows are seen, but it is done already."""
    sight = job.sight(2, "rows")
    assert not sight.came()
    job.plan(2, 30, 30)
    job.sink = [25, 20]
    job.on_asking = lambda: job.commit(2)

    assert not sight.came()
    assert sight.missed == "batch 2 was done"


def test_a_broker_that_does_not_answer_is_asked_again(job):
    """Faults overlap: its silence is not the end of the trigger."""
    sight = job.sight(2, "rows")
    assert not sight.came()
    job.plan(2, 30, 30)
    job.sink, job.silent = [25, 20], True
    assert not sight.came()

    job.silent = False

    assert sight.came()


def test_the_last_batch_is_known_once_the_loader_has_ended(job):
    """Before that, the batch that has all of the source may be followed by others."""
    job.plan(2, 30, 30)
    sight = job.sight("last", "planned")
    assert not sight.came()

    job.loaded = True

    assert sight.came()
    assert sight.facts["batch"] == 2


def test_a_batch_without_the_end_of_one_partition_is_not_the_last(job):
    """All of the source must be planned."""
    job.plan(2, 30, 29)
    job.source, job.loaded = [30, 30], True
    sight = job.sight("last", "done")
    job.commit(2)
    assert not sight.came()

    job.do(3, 30, 30)

    assert sight.came()
    assert sight.facts["batch"] == 3


def test_batches_without_records_after_the_last_one(job):
    """A query with state plans such; the last one is that which planned the rest of the source."""
    job.do(2, 30, 30)
    job.do(3, 30, 30)
    job.loaded = True
    sight = job.sight("last", "done")

    assert sight.came()
    assert sight.facts["batch"] == 2


def test_rows_of_the_last_batch_may_come_before_the_loader_has_ended(job):
    """They are counted for every batch, because any may be the last."""
    sight = job.sight("last", "rows")
    assert not sight.came()
    job.plan(2, 30, 30)
    assert not sight.came()
    job.sink = [30, 30]
    assert not sight.came()

    job.loaded = True

    assert sight.came()
    assert sight.facts["grown"] == {0: 10, 1: 10}


def test_the_last_batch_is_missed_if_it_is_done_before_the_loader_has_ended(job):
    """Nobody could know that it was the last one."""
    sight = job.sight("last", "rows")
    job.do(2, 30, 30)
    assert not sight.came()
    job.loaded = True

    assert not sight.came()
    assert sight.missed == "batch 2 was done"


def test_a_job_that_keeps_its_checkpoint_in_a_folder_below(tmp_path):
    """Jobs of several queries give each its own."""
    job = FakeJob(tmp_path / "checkpoint" / "query")
    job.plan(0, 10, 10)
    watched = Job(tmp_path / "checkpoint", "in", {"in": dict}, dict, lambda: False)

    assert BatchSight(AtBatch(batch=0, seen="planned"), watched).came()


def test_the_wait_ends_with_what_was_seen(job, watch):
    """It is what the history tells of the trigger."""
    job.plan(2, 30, 30)

    assert triggers.wait_for(AtBatch(batch=2, seen="planned"), watch)["end"] == {0: 30, 1: 30}


def test_a_moment_that_was_missed_is_told_and_not_waited_for(job, watch):
    """The run is UNKNOWN with this reason."""
    job.do(2, 30, 30)

    with raised(InconclusiveError, "batch 2 was done", "rows of batch 2"):
        triggers.wait_for(AtBatch(batch=2), watch)


def test_a_batch_that_is_waited_for_in_vain(watch):
    """How far the job was is said."""
    with raised(DeadlineError, "batch 7", "planned: batch 1, done: batch 1"):
        triggers.wait_for(AtBatch(batch=7, seen="done"), watch)


@pytest.mark.parametrize("under_way", [False, True])
def test_a_batch_beyond_the_workload_is_not_waited_for(job, watch, monkeypatch, under_way):
    """Unless a batch is under way: it may have written all of its rows long ago."""
    monkeypatch.setattr(triggers, "_QUIET_S", 0.0)
    watch.history.record(ProgressSampled(written=60, committed=60, total=60, end=60))
    if under_way:
        job.plan(2, 30, 30)

    with raised(DeadlineError, "done: batch 1") if under_way else raised(InconclusiveError):
        triggers.wait_for(AtBatch(batch=7, seen="done"), watch)


@pytest.fixture
def played(watch):
    """Carries out one fault with this trigger; the run's judgement."""

    def play(when):
        fault = {"kind": "crash_pipeline", "name": "strikes", "when": when}
        pipeline = {
            "kind": "spark_submit",
            "reads": ["datasource"],
            "sink": {"topic": "datasink"},
            "application": "job.py",
            "arguments": ["{checkpoint}"],
        }
        scenario = Scenario(name="fake", title="fake", pipeline=pipeline, faults=[fault])
        schedule = plan(scenario, 1)
        Nemesis(schedule, FaultContext(None, {}), watch.history, watch.stop).run(watch, lambda: None)
        return decide(scenario, schedule, watch.history.events(), [])

    return play


def test_a_run_whose_trigger_was_missed_is_unknown_and_says_why(job, watch, played):
    """Nothing was injected."""
    job.do(2, 30, 30)

    judgement = played({"batch": 2, "seen": "rows"})

    assert judgement.verdict is Verdict.UNKNOWN
    assert "InconclusiveError: batch 2 " in keep(judgement.fault_problems["strikes"])
    assert watch.history.latest(FaultInjected) is None


def test_the_history_has_the_batch_and_its_range(job, watch, played):
    """Duplicates can be compared with it."""
    job.do(2, 30, 25)

    played({"batch": 2, "seen": "done"})

    triggered = list(load(watch.history.path))[1].value
    assert triggered.details == {"batch": 2, "seen": "done", "begin": {"0": 20, "1": 20}, "end": {"0": 30, "1": 25}}


def test_a_plan_in_the_second_format_of_the_offset_log_is_a_plan(job):
    """Spark 4.2 names each source in it (``spark.sql.streaming.offsetLog.formatVersion``)."""
    job._write(OFFSETS, 2, 'v2\n{"batchWatermarkMs":0}\n0:{"in":{"0":90,"1":60}}')
    sight = job.sight(2, "planned")

    assert sight.came()
    assert (sight.facts["begin"], sight.facts["end"]) == ({0: 20, 1: 20}, {0: 90, 1: 60})


@pytest.mark.parametrize(("alive", "loaded"), [(True, False), (False, True)])
def test_a_trigger_on_a_batch_looks_at_the_topics_of_the_run_and_at_its_loader(history, tmp_path, alive, loaded):
    """Source and sink must not be confused; the loader counts as ended when its process has."""
    ends = FakeEnds({"source": {0: Bounds(0, 5, 5)}, "sink": {0: Bounds(0, 3, 3)}})
    submitted = {
        "kind": "spark_submit",
        "reads": ["datasource"],
        "sink": {"topic": "datasink"},
        "application": "job.py",
        "arguments": ["{checkpoint}"],
    }
    scenario = Scenario(name="fake", title="fake", pipeline=submitted)
    loader = FakeManagedProcess(SimpleNamespace(alive=lambda: alive))
    run = replace(run_plan(tmp_path), scenario=scenario, topics=Topics((Topic("source", 3),), "sink"))

    job = job_of(run, ends, run_processes(history, tmp_path, loader=loader))

    assert (job.checkpoint, job.source) == (tmp_path / "checkpoint", "source")
    assert (job.ends["source"]()[0].hw, job.sink_ends()[0].hw, job.all_loaded()) == (5, 3, loaded)


def test_only_a_job_of_spark_has_batches(history, tmp_path):
    """The loader alone has none."""
    assert job_of(run_plan(tmp_path), None, run_processes(history, tmp_path)) is None
