"""The nemesis: every step is recorded, and every injection is healed once, whatever else fails."""

import signal
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import count
from threading import Event as Flag
from threading import Thread

import pytest

from chaos.common import clock
from chaos.common.errors import InjectionError
from chaos.common.events import FaultFailed, FaultProved, FaultSpared, PipelineSampled, ProgressSampled
from chaos.common.history import History, of_type
from chaos.engine import nemesis
from chaos.engine.nemesis import Nemesis
from chaos.engine.triggers import Watch
from chaos.faults.base import FaultContext, Proof
from chaos.faults.broker_processes import KillBroker
from chaos.faults.registry import FAULTS
from chaos.scenario.model import Scenario
from chaos.scenario.plan import plan


@dataclass
class FakeInjection:
    """An injection that records what is done to it."""

    target: str
    done: list
    hold_s: float = 0.0
    bites: bool = True
    fails: dict = field(default_factory=dict)

    def inject(self):
        self._do("inject")

    def complete(self):
        """Most faults have nothing to complete."""

    def proof(self):
        self._do("proof")
        return Proof(self.bites, {"seen": 1})

    def heal(self):
        self._do("heal")

    def _do(self, what):
        self.done.append((self.target, what))
        if what in self.fails:
            raise self.fails[what]


def every_fault(monkeypatch, name, function):
    """Put a function in the place of a method of all faults."""
    for fault in FAULTS.values():
        monkeypatch.setattr(fault, name, function)


@pytest.fixture
def played(tmp_path, monkeypatch):
    """Puts fakes in the place of a scenario's faults, in their order; returns nemesis, history and watch."""
    histories = ExitStack()

    def play(*injections, at_once=None, by_chance=False):
        fakes = iter(injections)
        every_fault(monkeypatch, "prepare", lambda *_: next(fakes))
        faults = [{"kind": "kill_broker", "target": "any", "when": {"after": "0s"}} for _ in injections]
        scenario = Scenario(name="fake", title="fake", pipeline={"kind": "none"}, faults=faults)
        history, stop = histories.enter_context(History(tmp_path / "history.jsonl")), Flag()
        watch = Watch(history, clock.monotonic_s(), 100, 120, stop)
        schedule = plan(scenario, 1)
        steps = tuple(replace(step, by_chance=by_chance) for step in schedule.steps)
        schedule = replace(schedule, steps=steps, at_once=at_once)
        return Nemesis(schedule, FaultContext(None, {}), history, stop), history, watch

    with histories:
        yield play


def test_a_step_is_triggered_injected_proved_and_healed_in_this_order(played):
    """The order of a fault's life is the order of its events."""
    done = []
    runner, history, watch = played(FakeInjection("broker-1", done))

    runner.run(watch, lambda: None)

    assert done == [("broker-1", "inject"), ("broker-1", "proof"), ("broker-1", "heal")]
    assert _said(history) == ["trigger", "inject", "prove", "heal"]
    assert history.latest(FaultProved) == FaultProved(fault="kill_broker-1", effective=True, proof={"seen": 1})


def test_one_fault_at_a_time_when_the_schedule_says_so(played):
    """Random faults must not take down more than the cluster bears: the second one waits for output after the first."""
    done = []
    runner, history, watch = played(FakeInjection("broker-1", done, hold_s=0.3), FakeInjection("broker-2", done), at_once=1)
    grows = count(1)

    def check():
        history.record(ProgressSampled(written=100, committed=(grown := next(grows)), total=100, end=grown))

    runner.run(watch, check)

    assert [what for _, what in done] == ["inject", "proof", "heal"] * 2
    said = [event.value.f for event in history.events() if event.value.type in ("ok", "info")]
    second = len(said) - 1 - said[::-1].index("inject")
    assert "progress" in said[said.index("heal") : second]


def test_a_fault_of_a_run_that_stands_still_is_not_injected(played, monkeypatch):
    """It would have no effect, and the report must tell that the run stands still."""
    monkeypatch.setattr(nemesis, "_RESUMES_WITHIN_S", 0.2)
    done = []
    runner, history, watch = played(FakeInjection("broker-1", done), at_once=1)

    runner.run(watch, lambda: None)

    assert done == []
    assert "waited 0.2 s for the output to grow again" in _failed(history, "resume")


def test_a_fault_whose_turn_comes_too_late_is_spared(played):
    """All of the workload had passed, so there is nothing left to break, and the run is not at fault."""
    done = []
    runner, history, watch = played(FakeInjection("broker-1", done), at_once=1, by_chance=True)
    history.record(ProgressSampled(written=100, committed=watch.total, total=100, end=watch.total))

    runner.run(watch, lambda: None)

    assert done == []
    assert history.latest(FaultSpared) == FaultSpared(fault="kill_broker-1")


def test_a_fault_is_not_spared_because_of_markers_in_the_output(played, monkeypatch):
    """They take offsets, and the pipeline still has records to read."""
    monkeypatch.setattr(nemesis, "_POSITION_WITHIN_S", 0.2)
    done = []
    runner, history, watch = played(FakeInjection("broker-1", done), at_once=1, by_chance=True)
    history.record(ProgressSampled(written=100, committed=watch.total, total=100, end=watch.total))
    history.record(PipelineSampled(positions={0: 97}, lag=3))

    runner.run(watch, lambda: None)

    assert [what for _, what in done] == ["inject", "proof", "heal"]
    assert history.latest(FaultSpared) is None


def test_a_position_that_is_known_a_moment_later_is_waited_for(played, monkeypatch):
    """It is sampled once a second: a fault that came in between would break nothing, and the run would be at fault."""
    monkeypatch.setattr(nemesis, "_POSITION_WITHIN_S", 60.0)
    done = []
    runner, history, watch = played(FakeInjection("broker-1", done), at_once=1, by_chance=True)
    history.record(ProgressSampled(written=100, committed=watch.total, total=100, end=watch.total))
    history.record(PipelineSampled(positions={0: 97}, lag=3))

    runner.run(watch, lambda: history.record(PipelineSampled(positions={0: 100}, lag=0)))

    assert done == []
    assert history.latest(FaultSpared) == FaultSpared(fault="kill_broker-1")


def test_a_fault_that_was_declared_is_never_spared(played):
    """It is wanted, also beside random faults; that it came too late is for the report to say."""
    done = []
    runner, history, watch = played(FakeInjection("broker-1", done), at_once=1)
    history.record(ProgressSampled(written=100, committed=watch.total, total=100, end=watch.total))

    runner.run(watch, lambda: None)

    assert [what for _, what in done] == ["inject", "proof", "heal"]
    assert history.latest(FaultSpared) is None


def test_a_fault_that_did_not_bite_is_written_down_as_such(played):
    """The report says UNKNOWN for it."""
    runner, history, watch = played(FakeInjection("broker-1", [], bites=False))

    runner.run(watch, lambda: None)

    assert history.latest(FaultProved).effective is False


def test_an_injection_that_fails_half_way_is_healed(played):
    """Two of four links may be cut when the third refuses."""
    done = []
    runner, history, watch = played(FakeInjection("links", done, fails={"inject": InjectionError("the third link refused")}))

    runner.run(watch, lambda: None)

    assert done == [("links", "inject"), ("links", "heal")]
    assert "the third link refused" in _failed(history, "inject")


def test_a_proof_that_fails_does_not_keep_the_heal_away(played):
    """Not even when it fails in an unforeseen way."""
    done = []
    runner, history, watch = played(FakeInjection("broker-1", done, fails={"proof": ZeroDivisionError("nobody foresaw")}))

    runner.run(watch, lambda: None)

    assert done[-1] == ("broker-1", "heal")
    assert "ZeroDivisionError" in _failed(history, "prove")


def test_heal_all_heals_what_is_in_force_and_only_once(played):
    """Ctrl-C in the middle of a hold ends the hold and heals the fault; a second heal does nothing."""
    done = []
    runner, history, watch = played(FakeInjection("broker-1", done, hold_s=600))

    def interrupt():
        if history.latest(FaultProved):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner.run(watch, interrupt)
    runner.heal_all()
    runner.heal_all()

    assert done.count(("broker-1", "heal")) == 1


@pytest.mark.timeout(120)
def test_many_that_wait_do_not_keep_the_run_from_being_checked(played):
    """A soak has a hundred faults, and a pipeline that died must be noticed within seconds."""
    runner, history, watch = played(*(FakeInjection("broker-1", [], hold_s=600) for _ in range(60)), at_once=1)
    history.record(ProgressSampled(written=100, committed=1, total=100, end=1))
    checks = iter(range(5))

    with pytest.raises(StopIteration):
        runner.run(watch, lambda: next(checks) and None)
    runner.heal_all()


def test_ctrl_c_while_the_steps_are_started(played, monkeypatch):
    """It is delivered after all threads were started: the heal could not join one that was never started, and would fail."""

    class Interrupted(Thread):
        def start(self):
            signal.raise_signal(signal.SIGINT)
            super().start()

    monkeypatch.setattr(nemesis, "Thread", Interrupted)
    done = []
    runner, _, watch = played(FakeInjection("broker-1", done, hold_s=600), FakeInjection("broker-2", done, hold_s=600))

    with pytest.raises(KeyboardInterrupt):
        runner.run(watch, lambda: None)
    runner.heal_all()

    assert [what for _, what in done].count("heal") == [what for _, what in done].count("inject")


def test_nothing_is_injected_once_the_run_has_ended(played):
    """A trigger that comes late must not break a system that was just healed."""
    done = []
    runner, history, watch = played(FakeInjection("broker-1", done))

    runner.heal_all()
    runner.run(watch, lambda: None)

    assert done == []
    assert "the run ended before" in _failed(history, "trigger") + _failed(history, "inject")


def test_a_heal_that_fails_does_not_keep_the_next_one_away(played):
    """Every injection gets its heal, last in first out."""
    done = []
    broken = FakeInjection("broker-1", done, hold_s=600, fails={"heal": InjectionError("will not start")})
    runner, history, watch = played(broken, FakeInjection("broker-2", done, hold_s=600))

    def interrupt():
        if len(done) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner.run(watch, interrupt)
    runner.heal_all()

    assert {target for target, what in done if what == "heal"} == {"broker-1", "broker-2"}
    assert "will not start" in _failed(history, "heal")


def test_a_fault_that_lasts_until_another_is_healed_when_that_was_proved(tmp_path, monkeypatch):
    """A delay that opens a window ends with it, and does not wait for the end of its own time."""
    done = []
    fakes = iter([FakeInjection("links", done, hold_s=600), FakeInjection("broker-1", done)])
    every_fault(monkeypatch, "prepare", lambda *_: next(fakes))
    now = {"after": "0s"}
    faults = [
        {"kind": "cut_link", "link": "*->broker-1", "when": now, "for": "10m", "until": "dies"},
        {"kind": "kill_broker", "name": "dies", "target": "any", "when": {"after": "200ms"}},
    ]
    scenario = Scenario(name="fake", title="fake", pipeline={"kind": "none"}, faults=faults)
    with History(tmp_path / "history.jsonl") as history:
        watch = Watch(history, clock.monotonic_s(), 100, 120, Flag())
        Nemesis(plan(scenario, 1), FaultContext(None, {}), history, watch.stop).run(watch, lambda: None)

    assert done[:2] == [("links", "inject"), ("links", "proof")]
    assert ("links", "heal") in done


def _said(history):
    return [event.value.f for event in history.events() if event.value.type == "ok"]


def _failed(history, f):
    return " ".join(value.error for _, value in of_type(history.events(), FaultFailed) if value.step == f)


def test_an_approach_neither_waits_for_a_trigger_nor_keeps_it_waiting(played, monkeypatch):
    """It takes seconds, in which a request that is counted would pass. If it fails, the fault is injected all the same."""
    ends, asked = Flag(), []

    def approach(fault, _context):
        asked.append(fault.kind)
        ends.wait(300)
        raise LookupError("no driver yet")

    monkeypatch.setattr(KillBroker, "approach", approach)
    runner, history, watch = played(FakeInjection("broker-1", []))

    runner.approach()
    runner.run(watch, lambda: None)

    assert [f for f in _said(history) if f != "approach"] == ["trigger", "inject", "prove", "heal"]
    ends.set()
    runner.heal_all()
    assert asked == ["kill_broker"]
    assert "no driver yet" in _failed(history, "approach")


def test_faults_without_an_approach_start_no_thread(played):
    """A driver that may not exist is not asked anything."""
    runner, history, _ = played(FakeInjection("broker-1", []))

    runner.approach()
    runner.heal_all()

    assert _said(history) == []


def one_by_one(played, *injections):
    """A nemesis without a schedule, the history, the watch, and a step for each injection."""
    runner, history, watch = played(*injections)
    steps = runner._schedule.steps
    runner._schedule = replace(runner._schedule, steps=())
    return runner, history, watch, steps


def test_a_fault_that_is_begun_stays_in_force_until_it_is_ended(played):
    """The last one in may be the last one out, too: each is ended by its name."""
    done = []
    runner, history, watch, steps = one_by_one(played, FakeInjection("broker-1", done), FakeInjection("broker-2", done))

    for step in steps:
        runner.begin(step, watch, lambda: None)
    begun = list(done)
    for step in steps:
        runner.end(step.name, lambda: None)

    assert begun == [("broker-1", "inject"), ("broker-1", "proof"), ("broker-2", "inject"), ("broker-2", "proof")]
    assert done[4:] == [("broker-1", "heal"), ("broker-2", "heal")]
    assert _said(history) == ["trigger", "inject", "prove"] * 2 + ["heal"] * 2


def test_a_fault_that_is_ended_early_lasts_as_long_as_it_declares(played):
    """Unless it is ended at once."""
    runner, history, watch, steps = one_by_one(
        played, FakeInjection("broker-1", [], hold_s=0.5), FakeInjection("broker-2", [], hold_s=300)
    )
    for step in steps:
        runner.begin(step, watch, lambda: None)
        runner.end(step.name, lambda: None, at_once=step is steps[1])

    at_s = {(event.value.fault, event.value.f): event.elapsed_s for event in history.events() if event.value.type == "ok"}
    assert at_s["kill_broker-1", "heal"] - at_s["kill_broker-1", "inject"] >= 0.45
    assert at_s["kill_broker-2", "heal"] - at_s["kill_broker-2", "inject"] < 200


def test_a_fault_that_was_not_ended_is_healed_with_all_others(played):
    """And its end, which may still come, has nothing to do then."""
    done = []
    runner, _, watch, (step,) = one_by_one(played, FakeInjection("broker-1", done, hold_s=300))
    runner.begin(step, watch, lambda: None)

    runner.heal_all()
    runner.end(step.name, lambda: None)

    assert done == [("broker-1", "inject"), ("broker-1", "proof"), ("broker-1", "heal")]


def test_a_fault_that_cannot_be_begun_is_written_down(played):
    """As one of a schedule: the run goes on, and is UNKNOWN."""
    fails = {"inject": InjectionError("refused")}
    runner, history, watch, (step,) = one_by_one(played, FakeInjection("broker-1", [], fails=fails))
    runner.begin(step, watch, lambda: None)
    runner.end(step.name, lambda: None)

    assert history.latest(FaultFailed).error == "InjectionError: refused"
