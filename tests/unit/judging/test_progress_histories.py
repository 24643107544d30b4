"""Histories of progress, drawn by chance: sound ones without an alarm, and those with a standstill, which is always found."""

import os
from dataclasses import dataclass
from random import Random

import pytest

from chaos.common.events import FaultInjected, PhaseBegan, PhaseEnded, PhaseFailed, PipelineSampled, ProgressSampled
from chaos.common.history import Event
from chaos.judging import progress
from verifiers.base import Verdict

EXAMPLES = int(os.environ.get("PROGRESS_EXAMPLES", "200"))
SLO_S = 20.0
SOUND = ("drained", "positions behind", "positions never known", "ended as it must")


@dataclass
class Run:
    """A run under way; every step takes time and is recorded."""

    rng: Random
    total: int
    lags: bool
    now_s: float = 0.0
    committed: int = 0

    def __post_init__(self):
        self.events = []
        self.say(ProgressSampled(written=0, committed=0, total=self.total, end=0))

    def say(self, value, after_s=0.0):
        self.now_s += after_s
        self.events.append(Event(len(self.events), int(1000 * self.now_s), self.now_s, value))

    def sample(self, after_s=0.0):
        """The samples of a run: all that is loaded at once, and transaction markers at the end of the output."""
        end = self.committed + self.rng.randrange(3)
        self.say(ProgressSampled(written=self.total, committed=self.committed, total=self.total, end=end), after_s)

    def grow_to(self, goal):
        while self.committed < goal:
            self.committed = min(goal, self.committed + self.rng.randrange(1, self.total // 3))
            self.sample(self.rng.uniform(0.1, SLO_S / 4))
            if self.lags and self.rng.random() < 0.5:
                self.say(PipelineSampled(positions={}, lag=max(0, self.total - self.committed + self.rng.randrange(-5, 9))))

    def break_it(self, number):
        self.say(FaultInjected(fault=f"kill-{number}"), 0.1)
        if self.rng.random() < 0.5:  # rows that were on their way
            self.committed = min(self.total - 1, self.committed + 1)
            self.sample(0.1)

    def come_to_its_end(self, how):
        match how:
            case "drained":
                self.say(PhaseEnded(phase="drain"), self.rng.uniform(0, 200))
            case "positions behind":
                self.say(PipelineSampled(positions={}, lag=self.rng.randrange(1, 999)))
                self.say(PhaseFailed(phase="drain", error="DeadlineError: waited"), 180)
            case "positions never known":
                self.say(PhaseFailed(phase="drain", error="InconclusiveError: a format that nobody knows"), 1)
            case "ended as it must":
                self.say(PhaseFailed(phase="drain", error="REFUSED", cause="pipeline ended"), 9)
        self.say(PhaseBegan(phase="observe"), 0.1)


def run(seed):
    """A run that has begun, with some faults."""
    rng = Random(seed)
    begun = Run(rng, rng.randrange(30, 5000), lags=rng.random() < 0.8)
    begun.grow_to(begun.total // 4)
    for number in range(rng.randrange(4)):
        begun.break_it(number)
        begun.grow_to(min(begun.total - 1, begun.committed + rng.randrange(1, begun.total // 4)))
    return begun


def judged(one, how="", *, each):
    """By a scenario that expects an end where the run has one."""
    ends = "REFUSED" if how == "ended as it must" else None
    return progress.check(one.events, SLO_S, one.total, "sink", each=each, ends=ends)


@pytest.mark.parametrize("how", SOUND)
def test_a_sound_run_is_never_called_a_standstill(how):
    """However its positions are: what is wrong with them is no standstill of an output that is complete."""
    for seed in range(EXAMPLES):
        one = run(seed)
        if how != "ended as it must":
            one.grow_to(one.total)
        one.come_to_its_end(how)
        finding = judged(one, how, each=seed % 2 == 0)

        assert (finding.verdict is Verdict.INVALID, finding.count) == (False, 0), (seed, finding)
        if how == "drained":
            assert finding.verdict is Verdict.VALID, (seed, finding)
        if how == "positions behind":
            assert finding.verdict is Verdict.UNKNOWN, (seed, finding)
            assert "though the output is complete" in finding.note, (seed, finding)


@pytest.mark.parametrize("broken", ["no recovery", "slow recovery"])
def test_a_standstill_is_always_found(broken):
    """Whatever the positions say, and however many rows were on their way."""
    for seed in range(EXAMPLES):
        one = run(seed)
        one.break_it("last")
        if broken == "slow recovery":
            one.now_s += 1.5 * SLO_S
            one.grow_to(one.total)
            one.come_to_its_end("drained")
        else:
            one.say(PipelineSampled(positions={}, lag=one.rng.randrange(1, 999)))
            one.say(PhaseFailed(phase="heal", error="DeadlineError: waited"), 1.5 * SLO_S)
            one.say(PhaseBegan(phase="observe"))
        finding = judged(one, each=seed % 2 == 0)

        assert finding.verdict is Verdict.INVALID, (seed, finding)
        assert finding.counts[broken] >= 1, (seed, finding)
