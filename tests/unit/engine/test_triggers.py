"""Triggers: the declared moment, or an error that says it never came."""

from threading import Event as Flag

import pytest

from chaos import clock, triggers
from chaos.errors import DeadlineError, InconclusiveError
from chaos.history import History
from chaos.scenario.moments import After, Progress
from chaos.triggers import Watch


@pytest.fixture
def watch(tmp_path):
    """A run of 1000 records that just began."""
    with History(tmp_path / "history.jsonl") as history:
        yield Watch(history, clock.monotonic_s(), 1000, 0.05, Flag())


def test_progress_counts_what_a_reader_can_see(watch):
    """40 % of 1000 is 400 committed records, not 400 written ones."""
    watch.history.record("sampler", "info", "progress", written=1000, committed=399, total=1000)
    with pytest.raises(DeadlineError, match=r"the trigger: 40 % of the workload to be committed; last seen: 399 of 1000"):
        triggers.wait_for(Progress(progress="40%"), watch)

    watch.history.record("sampler", "info", "progress", written=1000, committed=400, total=1000)
    assert triggers.wait_for(Progress(progress="40%"), watch) == {"committed": 400, "of": 1000}


def test_after_counts_from_the_moment_when_output_flows(watch):
    """A start that took long does not eat the time of the scenario."""
    assert triggers.wait_for(After(after="0s"), watch)["elapsed_s"] >= 0


def test_a_run_that_ends_ends_the_wait(watch):
    """Nobody waits ten seconds for a moment that cannot come any more."""
    watch.stop.set()

    for when in (After(after="10s"), Progress(progress="40%")):
        with pytest.raises(InconclusiveError, match="ended before the trigger came"):
            triggers.wait_for(when, watch)
