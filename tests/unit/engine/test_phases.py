"""The phases of a run before it is judged."""

import time
from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from chaos.common import clock
from chaos.common.errors import DeadlineError, InconclusiveError, StandstillError
from chaos.common.events import FaultInjected, FaultStepBegan, PipelineSampled, ProcessReport, ProgressSampled
from chaos.contract.base import Topic, Topics
from chaos.engine import phases, triggers
from chaos.engine import run_plan as plans
from chaos.engine.pipelines import topics_of
from chaos.scenario.model import Scenario
from tests import deployed
from tests.unit.engine.played import TOPICS_OF_PIPELINE, FakeEnds, FakeManagedProcess, run_plan, run_processes
from tests.unit.wording import raised
from verifiers.base import Bounds


@pytest.mark.parametrize(("sent", "told"), [(None, "some"), (40, "40")])
def test_a_loader_that_ended_early(history, sent, told):
    """The pipeline had less to do than the scenario declares."""
    if sent is not None:
        history.record(ProcessReport(who="loader", event="loaded", content={"records": sent}))

    with pytest.raises(InconclusiveError, match=f"the loader ended with 1 after {told} of 100 records"):
        phases.require_all_loaded(history, FakeManagedProcess(), 100)


def test_a_loader_that_failed_after_its_last_record(history):
    """It has not waited for all of its answers, say."""
    history.record(ProcessReport(who="loader", event="loaded", content={"records": 100, "failed": True}))

    with pytest.raises(InconclusiveError, match="the loader ended with 1 after 100 of 100 records"):
        phases.require_all_loaded(history, FakeManagedProcess(), 100)


@pytest.mark.parametrize(("counted", "declared"), [(1, 0), (99, 0), (100, 0), (2, 1), (1, 2), (0, 1)], ids=str)
def test_a_workload_that_was_refused_is_not_loaded(history, counted, declared):
    """Ten records of many thousands are another workload than the one that is declared, and so is one record less."""
    content = {"records": 100} | ({"refused": counted, "why": "Broker: Message size too large"} if counted else {})
    history.record(ProcessReport(who="loader", event="loaded", content=content))
    why = " (Broker: Message size too large)" if counted else ""

    with raised(InconclusiveError, f"{counted} of 100 ", why, f"refused: {declared}"):
        phases.require_all_loaded(history, FakeManagedProcess(), 100, refused=declared)


def test_as_many_refused_records_as_are_declared(history):
    """A poison pill is a part of some workloads."""
    history.record(ProcessReport(who="loader", event="loaded", content={"records": 100, "refused": 3}))

    phases.require_all_loaded(history, FakeManagedProcess(), 100, refused=3)


@pytest.mark.parametrize(("content", "fails"), [(None, True), ({"records": 4, "failed": True}, True), ({"records": 4}, False)])
def test_a_loader_that_fails_is_told_at_once(history, tmp_path, content, fails):
    """Otherwise a run would wait for records that nobody sends."""
    if content is not None:
        history.record(ProcessReport(who="loader", event="loaded", content=content))
    check = run_processes(history, tmp_path, loader=FakeManagedProcess()).check_loaders

    if fails:
        with pytest.raises(InconclusiveError, match="the loader ended with 1 in the middle of the run"):
            check()
    else:
        check()


def test_a_loader_that_ends_while_it_is_looked_at(history, tmp_path):
    """Its last lines are not read yet, which is no failure. Containers report an end late."""
    lives = iter([True, False])
    process = SimpleNamespace(alive=lambda: next(lives, False))

    def listen():
        history.record(ProcessReport(who="loader", event="loaded", content={"records": 4}))

    loader = SimpleNamespace(process=process, listen=listen, how_it_ended=lambda when: f"the loader ended with 0 {when}")
    processes = run_processes(history, tmp_path, loader=loader)

    processes.check_loaders()
    assert history.last_report("loader", "loaded") is None

    processes.check_loaders()
    assert history.last_report("loader", "loaded").content == {"records": 4}


def test_a_loader_that_handed_in_all(history):
    """There is nothing to object to."""
    history.record(ProcessReport(who="loader", event="loaded", content={"records": 100}))

    phases.require_all_loaded(history, FakeManagedProcess(), 100)


def test_a_broker_that_does_not_answer_is_asked_again_in_the_drain(history, tmp_path):
    """One answer that is missing does not end the drain; the processes are stopped when it is over."""
    ends = FakeEnds({"source": {0: Bounds(0, 100, 100)}}, [KafkaException(KafkaError(KafkaError._TIMED_OUT))])
    loader = FakeManagedProcess()
    history.record(ProcessReport(who="loader", event="loaded", content={"records": 100}))

    phases.drain(run_plan(tmp_path), ends, history, run_processes(history, tmp_path, loader=loader), None)

    assert ends.failures == []
    assert loader.done == ["listen", "stop"]


@pytest.mark.parametrize(
    ("sent", "told"), [(100, "the pipeline ended"), (40, "the loader ended with 1 after 40 of 100 records")]
)
def test_a_loader_that_failed_is_told_though_the_pipeline_has_ended(history, tmp_path, sent, told):
    """A scenario may expect that its pipeline ends, but not that less was loaded than it declares."""
    pipeline, loader = FakeManagedProcess(), FakeManagedProcess()

    def has_ended():
        raise InconclusiveError("the pipeline ended")

    pipeline.must_live = has_ended
    history.record(ProcessReport(who="loader", event="loaded", content={"records": sent}))
    processes = run_processes(history, tmp_path, loader=loader, pipeline=pipeline)

    with pytest.raises(InconclusiveError, match=told):
        phases.drain(run_plan(tmp_path), FakeEnds({}), history, processes, None)


@pytest.mark.parametrize(
    ("sink", "position", "told"),
    [
        (0, 0, "nothing of source"),
        (0, 90, "90 records of source"),
        (100, 0, "sink has 100 records"),
    ],
)
def test_a_pipeline_that_is_declared_wrongly_is_told_from_a_slow_one(history, tmp_path, monkeypatch, sink, position, told):
    """It never reads, writes elsewhere, or commits no positions to the group that is declared: UNKNOWN, with what to mend."""
    monkeypatch.setattr(plans, "_DRAINS_WITHIN_S", 0.2)
    plan = replace(
        run_plan(tmp_path), topics=Topics((Topic("source", 1),), "sink"), pipeline=deployed.command(("copy",), "copy")
    )
    ends = FakeEnds({"source": {0: Bounds(0, 100, 100)}, "sink": {0: Bounds(0, sink, sink)}})
    history.record(ProcessReport(who="loader", event="loaded", content={"records": 100}))
    processes = run_processes(history, tmp_path, loader=FakeManagedProcess(), pipeline=FakeManagedProcess())

    with raised(DeadlineError, told, "group copy"):
        phases.drain(plan, ends, history, processes, lambda: {0: position})


def test_a_drain_is_waited_for_as_long_as_it_makes_progress(history, tmp_path, monkeypatch):
    """Ten records at each look: all of them take longer than the deadline, and none of them alone."""
    slept, read = [], count(0, 10)
    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(time, "monotonic", lambda: sum(slept))
    plan = replace(
        run_plan(tmp_path), topics=Topics((Topic("source", 1),), "sink"), pipeline=deployed.command(("copy",), "copy")
    )
    monkeypatch.setattr(plans, "_DRAINS_WITHIN_S", plans._DRAINS_WITHIN_S + 0.07 - plan.drains_within_s)
    ends = FakeEnds({"source": {0: Bounds(0, 100, 100)}, "sink": {0: Bounds(0, 100, 100)}})
    history.record(ProcessReport(who="loader", event="loaded", content={"records": 100}))
    processes = run_processes(history, tmp_path, loader=FakeManagedProcess(), pipeline=FakeManagedProcess())

    phases.drain(plan, ends, history, processes, lambda: {0: next(read)})

    assert sum(slept) > plan.drains_within_s


def test_a_drain_without_a_loader_is_over_at_once_and_proves_nothing(history, tmp_path):
    """The loader is never started when the pipeline does not come up in time."""
    ends = FakeEnds({"source": {0: Bounds(0, 0, 0)}})

    with pytest.raises(InconclusiveError, match="the loader was never started"):
        phases.drain(run_plan(tmp_path), ends, history, run_processes(history, tmp_path), None)


@pytest.mark.parametrize("committed", [5, 100])
def test_output_has_recovered_when_it_grew_or_all_of_it_was_there(history, tmp_path, committed):
    """While a loader is alone and runs, its records are the output."""
    loading = SimpleNamespace(
        alive=lambda: history.record(ProgressSampled(written=100, committed=10, total=100, end=10)) is not None
    )
    history.record(FaultInjected(fault="kill"))
    history.record(ProgressSampled(written=100, committed=committed, total=100, end=committed))

    processes = run_processes(history, tmp_path, loader=FakeManagedProcess(loading))
    phases.recover(run_plan(tmp_path), history, processes, lambda: False)

    assert triggers.committed(history) == max(committed, 10)


def test_a_loader_that_is_alone_and_has_ended_adds_nothing_more(history, tmp_path):
    """Some of its records may have been lost: that is for the judge to say."""
    processes = run_processes(history, tmp_path, loader=FakeManagedProcess())
    phases.recover(run_plan(tmp_path), history, processes, lambda: False)


def test_a_pipeline_that_does_not_recover(history, tmp_path, monkeypatch):
    """It runs, and nothing comes out of it."""
    monkeypatch.setattr(plans, "_RECOVERS_WITHIN_S", 0.1)
    monkeypatch.setattr(plans, "_BEYOND_SLO_S", 0.1)
    history.record(FaultStepBegan(fault="kill", step="inject"))
    pipeline = FakeManagedProcess()
    processes = run_processes(history, tmp_path, pipeline=pipeline, loader=FakeManagedProcess())
    began_s = clock.monotonic_s()

    with raised(StandstillError, "behind in a-0: 7"):
        phases.recover(run_plan(tmp_path, recovery_slo="0.5s"), history, processes, lambda: False, lambda: "behind in a-0: 7")

    assert clock.monotonic_s() - began_s > 0.5, "it was given up before the recovery was too slow"

    assert set(pipeline.done) == {"check"}


class FakeMaker:
    """Notes the topics that are made, or refuses them with this code."""

    def __init__(self, code=None):
        self.made, self.code = [], code

    def create(self, names, partitions, config):
        if self.code is not None:
            raise KafkaException(KafkaError(self.code, "no such setting"))
        self.made.append((names, partitions, config))


def with_topics(folder):
    """A plan of a run with three topics, two of which are alike."""
    copier = {"kind": "command", "run": ["a", "{more}"], "group": "g", "reads": ["in"], "sink": {"topic": "out"}}
    topics = {"in": {"partitions": 2}, "out": {"config": {"a": "b"}}, "more": {"partitions": 2}, "unused": {}}
    scenario = Scenario(name="fake", title="fake", pipeline=copier, topics=topics)
    return replace(run_plan(folder), scenario=scenario, topics=topics_of(scenario, "", "7"))


def test_topics_that_are_alike_are_made_together(tmp_path):
    """Each with its partitions and settings; one that the scenario does not name is not made."""
    maker = FakeMaker()
    phases._make_topics(with_topics(tmp_path), maker)

    assert maker.made == [(["in-7", "more-7"], 2, {}), (["out-7"], 3, {"a": "b"})]


def test_a_declaration_that_brokers_refuse_is_told_with_its_topics(tmp_path):
    """Only a broker knows the settings of its version; any other error stays as it is."""
    with pytest.raises(InconclusiveError, match=r"^topics, in, more: the brokers refuse .*no such setting; mend it"):
        phases._make_topics(with_topics(tmp_path), FakeMaker(KafkaError.INVALID_CONFIG))
    with pytest.raises(KafkaException):
        phases._make_topics(with_topics(tmp_path), FakeMaker(KafkaError._TIMED_OUT))


@pytest.mark.parametrize("phase", ["inject", "recover"])
def test_rows_that_were_lost_are_not_waited_for(history, tmp_path, phase):
    """Only 60 of a hundred rows will ever come. The judge reports that; it is no standstill."""
    history.record(ProgressSampled(written=100, committed=60, total=100, end=60))
    history.record(ProcessReport(who="loader", event="loaded", content={"records": 100}))
    asked = iter([False, False, True])
    pipeline = FakeManagedProcess()
    processes = run_processes(history, tmp_path, pipeline=pipeline, loader=FakeManagedProcess())
    nemesis = SimpleNamespace(run=lambda _watch, _check: pipeline.done.append("nemesis"))

    if phase == "inject":
        watch = SimpleNamespace(history=history, total=100, deadline_s=60.0)
        phases.inject(run_plan(tmp_path), watch, processes, nemesis, lambda: next(asked))
        assert pipeline.done[-1] == "nemesis"
    else:
        history.record(FaultInjected(fault="kill"))
        phases.recover(run_plan(tmp_path), history, processes, lambda: next(asked))

    assert next(asked, None) is None


def test_where_nothing_was_broken_no_recovery_is_waited_for(history, tmp_path):
    """A workload that did not pass by itself is waited for once, and not again after a heal of nothing."""
    history.record(ProgressSampled(written=100, committed=60, total=100, end=60))
    pipeline = FakeManagedProcess()

    phases.recover(
        run_plan(tmp_path), history, run_processes(history, tmp_path, pipeline=pipeline), lambda: pytest.fail("asked")
    )

    assert pipeline.done == []


@pytest.fixture
def quick(monkeypatch):
    """Time that passes with every look, and with nothing else."""
    slept = []
    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(time, "monotonic", lambda: sum(slept))
    return slept


def passing(folder, **declared):
    """A plan without faults, of a pipeline."""
    return replace(run_plan(folder, **declared), topics=TOPICS_OF_PIPELINE, pipeline=SimpleNamespace())


def test_a_workload_that_never_passes_is_given_up_once_it_stands_still(history, tmp_path, quick):
    """And what is behind is told; how long that takes is declared, and not how large the workload is."""
    plan = passing(tmp_path, gives_up_after="60s")
    history.record(ProgressSampled(written=100, committed=60, total=100, end=60))
    pipeline = FakeManagedProcess()
    processes = run_processes(history, tmp_path, pipeline=pipeline, loader=None)
    watch = SimpleNamespace(history=history, total=100, deadline_s=3600.0)

    with pytest.raises(StandstillError, match="to pass through an unbroken pipeline; last seen: behind in orders-2: 500"):
        phases.inject(plan, watch, processes, None, lambda: False, lambda: "behind in orders-2: 500")

    assert 60 <= sum(quick) < 61


@pytest.mark.parametrize("moves", ["output", "positions", "loader"])
def test_a_workload_that_passes_slowly_is_waited_for(history, tmp_path, quick, moves):
    """As long as anything moves, far beyond the deadline of a standstill."""
    plan = passing(tmp_path, gives_up_after="60s")
    looks = count()
    processes = run_processes(history, tmp_path, pipeline=FakeManagedProcess())
    nemesis = SimpleNamespace(run=lambda _watch, _check: None)

    def is_through():
        look = next(looks)
        if look % 1000 == 0:  # every fifty seconds
            said = {"written": 1, "committed": 0, "total": 99, "end": 0}
            if moves == "positions":
                history.record(PipelineSampled(positions={0: look}, lag=5))
            elif moves == "output":
                history.record(ProgressSampled(**said | {"end": look}))
            else:
                history.record(ProgressSampled(**said | {"written": look}))
        return look > 6000

    watch = SimpleNamespace(history=history, total=100, deadline_s=1.0)
    phases.inject(plan, watch, processes, nemesis, is_through)

    assert sum(quick) > 299


def drained(history, plan, ends, positions):
    """Drain a run whose loader has ended."""
    history.record(ProcessReport(who="loader", event="loaded", content={"records": 100}))
    processes = run_processes(history, plan.folder, loader=FakeManagedProcess(), pipeline=FakeManagedProcess())
    phases.drain(plan, ends, history, processes, positions)
    return processes.pipeline


class Growing(FakeEnds):
    """The output of a program that stores its positions before it writes: at every hundredth look it has ten rows more."""

    looks = 0

    def end(self, topic, _partitions, _level):
        self.looks += 1
        if self.looks % 100 == 0 and self.ends[topic][0].hw < 100:
            more = self.ends[topic][0].hw + 10
            self.ends[topic] = {0: Bounds(0, more, more)}
        return self.ends[topic][0].lso


def test_a_pipeline_is_not_stopped_before_its_output_has_stopped_growing(history, tmp_path, quick):
    """Its positions were at the end long before: what it had not written then, our own stop would have lost."""
    for second in range(4):  # it always took five seconds for ten rows
        quick.append(5)
        history.record(ProgressSampled(written=100, committed=10 * second, total=100, end=10 * second))
    ends = Growing({"source": {0: Bounds(0, 100, 100)}, "sink": {0: Bounds(0, 30, 30)}})

    drained(history, passing(tmp_path), ends, lambda: {0: 100})

    assert ends.ends["sink"][0].hw == 100


def test_a_complete_output_costs_no_time(history, tmp_path, quick):
    """All rows are there, and have been for a second: it is looked at once."""
    history.record(ProgressSampled(written=100, committed=100, total=100, end=100))
    quick.append(1)
    ends = FakeEnds({"source": {0: Bounds(0, 100, 100)}, "sink": {0: Bounds(0, 100, 100)}})

    drained(history, passing(tmp_path), ends, lambda: {0: 100})

    assert sum(quick) == 1


def test_rows_that_never_come_are_waited_for_briefly(history, tmp_path, quick):
    """They are lost, as the judge will say; a usual pipeline writes more than once a second."""
    history.record(ProgressSampled(written=100, committed=60, total=100, end=60))
    ends = FakeEnds({"source": {0: Bounds(0, 100, 100)}, "sink": {0: Bounds(0, 60, 60)}})

    drained(history, passing(tmp_path), ends, lambda: {0: 100})

    assert sum(quick) < 2


def test_a_drain_gives_up_when_the_scenario_says_so_and_tells_what_is_behind(history, tmp_path, quick):
    """With the pipeline's own error."""
    ends = FakeEnds({"source": {0: Bounds(0, 100, 100)}, "sink": {0: Bounds(0, 60, 60)}})
    plan = replace(passing(tmp_path, gives_up_after="70s"), pipeline=deployed.command(("copy",), "copy"))

    with pytest.raises(
        DeadlineError, match=r"last seen: behind in source-0: 40; source has 100 records .*; the last errors in logs"
    ):
        drained(history, plan, ends, lambda: {0: 60})

    assert 70 <= sum(quick) < 71


def test_a_plan_that_nobody_can_read_ends_the_wait_for_output(tmp_path):
    """At once, with the file and its line: its output may flow, but its positions will never be known."""
    place = tmp_path / "checkpoint"
    for log, text in (("offsets", "v9\n{}\n"), ("commits", "v1\n{}")):
        (place / log).mkdir(parents=True)
        (place / log / "0").write_text(text, encoding="utf-8")
    job = deployed.job("a.py", ())
    plan = replace(passing(tmp_path), pipeline=job)

    with pytest.raises(InconclusiveError, match=r"offsets/0, line 1: 'v9' has an unknown format"):
        phases._understood(plan, lambda: job.positions(None, plan.topics, tmp_path))
