"""Triggers: the declared moment, or an error that says it never came."""

from dataclasses import replace
from threading import Event as Flag

import pytest

from chaos.common import clock, events
from chaos.common.errors import DeadlineError, InconclusiveError
from chaos.common.events import PipelineSampled, ProgressSampled
from chaos.common.history import History
from chaos.engine import triggers
from chaos.engine.triggers import Watch
from chaos.grammar.triggers import After, AfterFault, Progress
from tests.unit.wording import keep, raised


@pytest.fixture
def watch(tmp_path):
    """A run of 1000 records that just began."""
    with History(tmp_path / "history.jsonl") as history:
        yield Watch(history, clock.monotonic_s(), 1000, 0.05, Flag())


def test_progress_counts_what_a_reader_can_see(watch):
    """40 % of 1000 is 400 committed records, not 400 written ones."""
    watch.history.record(ProgressSampled(written=1000, committed=399, total=1000, end=399))
    with raised(DeadlineError, "40 %", "399 of 1000"):
        triggers.wait_for(Progress(progress="40%"), watch)

    watch.history.record(ProgressSampled(written=1000, committed=400, total=1000, end=400))
    assert triggers.wait_for(Progress(progress="40%"), watch) == {"committed": 400, "of": 1000}


def test_after_counts_from_the_moment_when_output_flows(watch):
    """A slow start does not take time away from the scenario."""
    assert triggers.wait_for(After(after="0s"), watch)["elapsed_s"] >= 0


def test_a_run_that_ends_ends_the_wait(watch):
    """A moment that cannot come any more is not waited for."""
    watch.stop.set()

    for when in (After(after="10s"), Progress(progress="40%")):
        with pytest.raises(InconclusiveError, match="ended before the trigger came"):
            triggers.wait_for(when, watch)


def nemesis(watch, type_, f, fault="cut"):
    """Records one event of the nemesis."""
    watch.history.record(events.read("nemesis", type_, f, {"fault": fault, "effective": True}))


@pytest.mark.parametrize(("once", "f"), [("proved", "prove"), ("injected", "inject")])
def test_a_moment_after_a_fault_comes_when_that_one_was_proved(watch, once, f):
    """Neither its beginning nor another fault is enough."""
    when = AfterFault(fault="cut", once=once)
    nemesis(watch, "invoke", f)
    nemesis(watch, "ok", f, fault="other")
    nemesis(watch, "ok", "trigger")
    with pytest.raises(DeadlineError, match=f"the trigger: cut to be {once}"):
        triggers.wait_for(when, watch)

    nemesis(watch, "ok", f)
    assert triggers.wait_for(when, watch) == {"after": "cut"}


def test_some_time_can_pass_after_the_other_fault(watch):
    """The time is counted from its proof."""
    nemesis(watch, "ok", "prove")
    began_s = clock.monotonic_s()

    triggers.wait_for(AfterFault(fault="cut", after="50ms"), watch)

    assert clock.monotonic_s() - began_s >= 0.05


@pytest.mark.parametrize("f", ["trigger", "inject", "prove"])
def test_a_moment_after_a_fault_that_failed_is_not_waited_for(watch, f):
    """It will never be proved, so waiting for the deadline would be useless."""
    nemesis(watch, "fail", f)

    with pytest.raises(InconclusiveError, match="cut failed before the trigger came: cut to be proved"):
        triggers.wait_for(AfterFault(fault="cut"), watch)


def test_a_moment_that_came_before_its_fault_failed_has_come(watch):
    """A heal that fails later does not change that."""
    nemesis(watch, "ok", "prove")
    nemesis(watch, "fail", "heal")

    assert triggers.wait_for(AfterFault(fault="cut"), watch) == {"after": "cut"}


@pytest.mark.parametrize(("committed", "quiet_s", "over"), [(1000, 0.0, True), (999, 0.0, False), (1000, 60.0, False)])
def test_all_is_through_when_everything_is_committed_and_nothing_has_moved_for_a_while(
    watch, monkeypatch, committed, quiet_s, over
):
    """More requests may follow the last commit."""
    monkeypatch.setattr(triggers, "_QUIET_S", quiet_s)
    watch.history.record(ProgressSampled(written=1000, committed=committed, total=1000, end=committed))

    told = triggers.all_through(watch)
    assert bool(told) is over
    if over:
        keep(told)


@pytest.mark.parametrize(
    ("written", "lag", "is_through"), [(1000, None, True), (1000, 0, True), (1000, 1, False), (999, 0, False)]
)
def test_the_output_alone_does_not_tell_that_all_is_through(watch, written, lag, is_through):
    """Markers, aborted rows and duplicates are in it too."""
    watch.history.record(ProgressSampled(written=written, committed=1000, total=1000, end=1000))
    if lag is not None:
        watch.history.record(PipelineSampled(positions={}, lag=lag))

    assert triggers.through(watch) is is_through


@pytest.mark.parametrize(("written", "committed", "is_through"), [(1000, 400, True), (999, 400, False), (1000, 399, False)])
def test_a_model_may_demand_fewer_rows_than_the_source_has(watch, written, committed, is_through):
    """All of the source is through when all of it was written, and the output has the rows that come of it."""
    watch.history.record(ProgressSampled(written=written, committed=committed, total=400, end=committed))

    assert triggers.through(replace(watch, records=400, workload=1000)) is is_through


def test_nothing_is_through_before_the_first_sample(watch):
    """A run that has just begun is not over."""
    assert triggers.all_through(watch) == ""
