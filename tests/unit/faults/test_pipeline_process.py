"""Faults of the pipeline's process, with a process of the test in its place."""

import re
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from random import Random
from types import SimpleNamespace

import psutil
import pytest
from confluent_kafka import KafkaError, KafkaException

from chaos.common import clock
from chaos.common.errors import DeadlineError, InjectionError
from chaos.faults import pipeline_process
from chaos.faults.base import prove
from chaos.faults.pipeline_process import (
    CrashPipeline,
    CrashProcess,
    PausePipeline,
    Scale,
    TerminatePipeline,
    ZombiePipeline,
)
from tests.unit.faults.wire import FakeRules, context
from tests.unit.wording import keep, raised

NOW = {"after": "0s"}


class FakePipeline:
    """A process that does nothing, and what was done to it."""

    def __init__(self, *, obeys=True, says="KafkaError{code=_FENCED}", ended=""):
        self.obeys = obeys
        self.says = says
        self.ended = ended
        self.done = []
        self.process = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])

    def crash(self):
        self.done.append("crash")
        if self.obeys:
            self.process.kill()
            self.process.wait()
        return self._pids

    def restart(self):
        self.done.append("restart")

    def running(self, command):
        return {name: pid for name, pid in self._pids.items() if command in "import signal; signal.pause()"}

    def terminate(self):
        self.done.append("terminate")
        if self.obeys:
            self.process.terminate()
        return self._pids

    def has_ended(self):
        return self.process.poll() is not None

    def resisted(self):
        return self.ended

    def pause(self):
        self.done.append("pause")
        if self.obeys:
            self.process.send_signal(signal.SIGSTOP)
        return self._pids

    def resume(self):
        self.done.append("resume")
        self.process.send_signal(signal.SIGCONT)

    @property
    def instances(self):
        return self.done.count("scaled out") * 2 + 1

    def scale(self, to):
        self.done.append("scaled out" if to > 1 else "scaled in")
        return self._pids

    def wait_until_scaled(self):
        self.done.append("waited")

    def take_over(self):
        self.done.append("take_over")

    def fenced(self):
        self.done.append("asked")
        return {"pipeline": self.says} if self.says else {}

    def zombie_ended(self):
        return self.ended

    @property
    def _pids(self):
        return {"pipeline": self.process.pid}

    def end(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def pipeline(request, monkeypatch):
    """Ended with the test, whatever state it is in; what it does not do is not waited for."""
    fake = FakePipeline(**getattr(request, "param", {}))
    monkeypatch.setattr(pipeline_process, "_STOPS_WITHIN_S", 120 if fake.obeys else 0.3)
    monkeypatch.setattr(pipeline_process, "_ENDS_WITHIN_S", 120 if fake.obeys else 0.3)
    monkeypatch.setattr(pipeline_process, "_FENCED_WITHIN_S", 120 if fake.says or fake.ended else 0.3)
    yield fake
    fake.end()


def aimed(fault, pipeline):
    """An injection of this fault at this pipeline."""
    return fault.prepare(context(FakeRules(), pipeline=lambda: pipeline), Random(1))


def crash(pipeline):
    """A crash, restarted at once."""
    return aimed(CrashPipeline(kind="crash_pipeline", when=NOW, restart_after="0s"), pipeline)


def test_a_crash_is_proved_by_processes_that_are_gone(pipeline):
    """And healed by a start."""
    crashed = crash(pipeline)

    crashed.inject()
    proof = prove(crashed)
    crashed.heal()

    assert (proof.effective, proof.facts) == (True, {"pids": {"pipeline": pipeline.process.pid}})
    assert (pipeline.done, crashed.hold_s) == (["crash", "restart"], 0.0)


def test_a_process_that_nobody_has_looked_for_yet_was_crashed(pipeline, monkeypatch):
    """It is a zombie: how soon its pid is free again is its parent's affair."""

    def crash_and_leave():
        pipeline.process.kill()
        dead = psutil.Process(pipeline.process.pid)
        clock.wait_until(lambda: dead.status() == psutil.STATUS_ZOMBIE, within_s=120, reason="a zombie")
        return pipeline._pids

    monkeypatch.setattr(pipeline, "crash", crash_and_leave)
    crashed = crash(pipeline)

    crashed.inject()

    assert prove(crashed).effective is True


@pytest.mark.parametrize("pipeline", [{"obeys": False}], indirect=True)
def test_a_process_that_is_still_there_was_not_crashed(pipeline):
    """The proof names it."""
    crashed = crash(pipeline)

    crashed.inject()

    assert (prove(crashed).effective, prove(crashed).facts["alive"]) == (False, ["pipeline"])


def test_a_pipeline_that_was_dead_already_was_not_crashed(pipeline, monkeypatch):
    """Nothing was killed, so nothing is proved."""
    monkeypatch.setattr(pipeline, "crash", dict)
    crashed = crash(pipeline)

    crashed.inject()

    assert prove(crashed).effective is False


def crash_part(pipeline, process):
    """The crash of one process of the pipeline."""
    return aimed(CrashProcess(kind="crash_process", when=NOW, process=process), pipeline)


def test_a_process_of_the_pipeline_that_was_killed_is_gone(pipeline):
    """The pipeline as a whole is neither ended nor started again."""
    crashed = crash_part(pipeline, "signal.pause")

    crashed.inject()
    proof = prove(crashed)
    crashed.heal()

    assert (proof.effective, proof.facts) == (True, {"pids": {"pipeline": pipeline.process.pid}})
    assert (crashed.target, pipeline.done) == ("pipeline (signal.pause)", [])


def test_a_process_that_survives_was_not_crashed(pipeline, monkeypatch):
    monkeypatch.setattr(pipeline_process.processes, "kill", lambda _tree: None)
    crashed = crash_part(pipeline, "signal.pause")

    crashed.inject()

    assert (prove(crashed).effective, prove(crashed).facts["alive"]) == (False, ["pipeline"])


def test_a_process_that_has_ended_by_itself_was_not_crashed(pipeline):
    crashed = crash_part(pipeline, "signal.pause")
    pipeline.end()

    crashed.inject()

    assert not prove(crashed).effective


def test_a_process_that_is_not_there_is_named_with_those_that_are(pipeline):
    with pytest.raises(InjectionError, match=r"'TaskManager'.* pipeline$") as caught:
        crash_part(pipeline, "TaskManager")
    keep(str(caught.value))


def terminated(pipeline):
    """An end in order, started again at once."""
    return aimed(TerminatePipeline(kind="terminate_pipeline", when=NOW, restart_after="0s"), pipeline)


def test_an_end_in_order_is_proved_when_it_has_come(pipeline):
    """And healed by a start."""
    told = terminated(pipeline)

    told.inject()
    proof = prove(told)
    told.heal()

    assert (proof.effective, proof.facts) == (True, {"pids": {"pipeline": pipeline.process.pid}})
    assert pipeline.done == ["terminate", "restart"]


@pytest.mark.parametrize(
    ("pipeline", "problem"),
    [
        ({"obeys": False}, "the pipeline to end"),
        ({"ended": "it was killed"}, ": it was killed"),
    ],
    indirect=["pipeline"],
)
def test_a_pipeline_that_does_not_end_when_it_is_told_to_was_not_terminated(pipeline, problem):
    """One that has to be killed has been crashed, which is another fault."""
    told = terminated(pipeline)

    told.inject()
    proof = prove(told)

    assert proof.effective is False
    assert problem in proof.facts["problem"]


def test_a_pause_is_proved_by_processes_that_are_stopped(pipeline):
    """It runs on after the heal."""
    paused = aimed(PausePipeline.model_validate({"kind": "pause_pipeline", "when": NOW, "for": "1s"}), pipeline)

    paused.inject()
    proof = prove(paused)
    status = psutil.Process(pipeline.process.pid).status()
    paused.heal()

    assert (proof.effective, status, paused.hold_s) == (True, psutil.STATUS_STOPPED, 1.0)
    assert pipeline.done == ["pause", "resume"]


@pytest.mark.parametrize(
    ("lasts", "outlasts", "is_within"),
    [
        ("1s", {}, {"session": 600.0, "transaction": 2000.0}),
        ("11m", {"session": 600.0}, {"transaction": 2000.0}),
        ("34m", {"session": 600.0, "transaction": 2000.0}, {}),
    ],
)
def test_a_pause_says_which_timeouts_it_outlasts(pipeline, lasts, outlasts, is_within):
    """As it was declared; its heal says it of the time that it really lasted, once."""
    scene = context(FakeRules(), pipeline=lambda: pipeline, timeouts={"session": 600.0, "transaction": 2000.0})
    declared = {"kind": "pause_pipeline", "when": NOW, "for": lasts}
    paused = PausePipeline.model_validate(declared).prepare(scene, Random(1))

    paused.inject()
    facts = prove(paused).facts
    healed = paused.heal()

    assert (facts["outlasts"], facts["is_within"]) == (outlasts, is_within)
    assert healed["paused_s"] < 600
    assert (healed["outlasts"], healed["is_within"]) == ({}, {"session": 600.0, "transaction": 2000.0})
    assert paused.heal() == {}


def paused_past(pipeline, after_s):
    """A pause that must outlast a transaction timeout of so many seconds."""
    scene = context(FakeRules(), pipeline=lambda: pipeline, timeouts={"session_timeout": 600.0, "transaction_timeout": after_s})
    declared = {"kind": "pause_pipeline", "when": NOW, "for": "11m", "outlasts": ["transaction_timeout"]}
    paused = PausePipeline.model_validate(declared).prepare(scene, Random(1))
    paused.inject()
    assert prove(paused).effective
    return paused


def test_a_pause_that_is_ended_before_a_timeout_it_names_had_no_effect(pipeline):
    """The run was stopped, or another fault ended it; the timeout that it does not name is not asked."""
    healed = paused_past(pipeline, 300.0).heal()

    assert healed["effective"] is False
    assert re.fullmatch(r"the pause lasted \d+\.\d s, no longer than transaction_timeout \(300 s\)", healed["problem"])


def test_a_pause_that_was_longer_than_the_timeout_it_names_had_its_effect(pipeline):
    """Nothing is taken back."""
    assert "effective" not in paused_past(pipeline, 0.0).heal()


STATES = {"'sleeping'": "<state>", "'running'": "<state>"}


@pytest.mark.parametrize("pipeline", [{"obeys": False}], indirect=True)
def test_a_pipeline_that_was_never_stopped_was_not_paused(pipeline):
    """Its process runs on, so the check of the fault fails; there is nothing to measure then."""
    paused = aimed(PausePipeline.model_validate({"kind": "pause_pipeline", "when": NOW, "for": "9s"}), pipeline)

    paused.inject()

    with raised(DeadlineError, hidden=STATES):
        prove(paused)
    assert paused.heal() == {}


def zombie(pipeline):
    """A zombie that is woken up after a second."""
    declared = {"kind": "zombie_pipeline", "when": NOW, "for": "1s"}
    return aimed(ZombiePipeline.model_validate(declared), pipeline)


def test_a_zombie_is_fenced_after_it_woke_up(pipeline):
    """Stopped, replaced, woken, told: in this order."""
    injection = zombie(pipeline)

    injection.inject()
    assert prove(injection).effective
    assert injection.heal() == {"fenced": "pipeline", "said": "KafkaError{code=_FENCED}"}
    assert pipeline.done[:4] == ["pause", "take_over", "resume", "asked"]


@pytest.mark.parametrize("pipeline", [{"ended": "it ended with 1 after it woke up"}], indirect=True)
def test_a_zombie_that_said_why_before_it_ended_was_fenced(pipeline):
    """It ends because of that."""
    injection = zombie(pipeline)
    injection.inject()
    prove(injection)

    assert injection.heal()["said"] == "KafkaError{code=_FENCED}"


@pytest.mark.parametrize("pipeline", [{"says": "", "ended": "it ended with -9 after it woke up"}], indirect=True)
def test_a_zombie_that_died_of_something_else_had_no_effect(pipeline):
    """Nobody has refused it, so nothing is known of what would have happened to its writes."""
    injection = zombie(pipeline)
    injection.inject()
    assert prove(injection).effective

    outcome = injection.heal()
    assert outcome.pop("problem").endswith(": it ended with -9 after it woke up")
    assert outcome == {"effective": False}


@pytest.mark.parametrize("pipeline", [{"says": ""}], indirect=True)
def test_a_zombie_that_is_not_fenced_is_an_error_of_the_heal(pipeline):
    """It would write beside its successor for ever."""
    injection = zombie(pipeline)
    injection.inject()
    prove(injection)

    with raised(DeadlineError):
        injection.heal()


@pytest.mark.parametrize("pipeline", [{"obeys": False}], indirect=True)
def test_a_zombie_that_was_never_stopped_gets_no_successor(pipeline):
    """Two of them at work would be another experiment; its heal waits for no fencing."""
    injection = zombie(pipeline)
    injection.inject()

    proof = prove(injection)

    assert not proof.effective
    assert "pipeline" in keep(proof.facts["problem"], STATES)
    assert injection.heal() == {}
    assert "take_over" not in pipeline.done


@pytest.mark.parametrize("waited_for", [False, True])
def test_a_command_that_had_just_ended_need_not_be_stopped(pipeline, monkeypatch, waited_for):
    """Its parent is stopped and cannot ask for its exit code: a zombie, or gone; the pipeline itself must be stopped."""
    with subprocess.Popen([sys.executable, "-c", ""]) as command:
        if not waited_for:
            clock.wait_until(
                lambda: psutil.Process(command.pid).status() == psutil.STATUS_ZOMBIE, within_s=120, reason="a zombie"
            )
        else:
            command.wait()
        both = {"pipeline": pipeline.process.pid, "pipeline-1": command.pid}
        monkeypatch.setattr(FakePipeline, "_pids", both)
        paused = aimed(PausePipeline(kind="pause_pipeline", when=NOW, **{"for": "1s"}), pipeline)

        paused.inject()
        proof = prove(paused)
        paused.heal()

    assert (proof.effective, proof.facts) == (True, {"pids": {"pipeline": pipeline.process.pid}})


@dataclass
class FakeGroup:
    """A cluster in whose group this happens; the last of it stays."""

    sizes: list

    def members(self, group):
        assert group == "squares"
        size = self.sizes.pop(0) if len(self.sizes) > 1 else self.sizes[0]
        if size is None:
            raise KafkaException(KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS))
        return size


def scaling(pipeline, to, *sizes):
    """Scale a pipeline whose group has so many members, one answer after the other."""
    system = SimpleNamespace(kafka=FakeGroup(list(sizes)))
    of_run = replace(context(FakeRules(), pipeline=lambda: pipeline), group="squares", system=system)
    return Scale(kind="scale", when=NOW, to=to).prepare(of_run, Random(1))


def test_a_pipeline_is_scaled_when_its_group_has_the_new_members(pipeline):
    """Each instance has one worker; while they join, and while the coordinator does not answer, it is asked again."""
    injection = scaling(pipeline, 3, 0, 1, 0, 2, None, 3)

    injection.inject()
    proof = prove(injection)

    assert pipeline.done == ["scaled out", "waited"]
    assert (proof.effective, proof.facts["members_before"], proof.facts["members"]) == (True, 1, 3)
    assert injection.heal() is None


def test_a_pipeline_whose_new_instances_join_no_group_was_not_scaled(pipeline, monkeypatch):
    """They wait for something, or belong to another group."""
    monkeypatch.setattr(pipeline_process, "_JOINS_WITHIN_S", 0.3)
    injection = scaling(pipeline, 3, 1, 2)

    injection.inject()
    proof = prove(injection)

    assert not proof.effective
    problem = keep(proof.facts["problem"])
    assert "3 members" in problem
    assert "2 members" in problem


def test_a_pipeline_is_scaled_in(pipeline):
    """One that had died before is not there any more either."""
    pipeline.scale(3)
    injection = scaling(pipeline, 1, 4, 0, 1)

    injection.inject()

    assert prove(injection).effective
    assert pipeline.done == ["scaled out", "scaled in", "waited"]


def test_a_pipeline_that_is_of_this_size_already(pipeline):
    """Nothing would happen."""
    with pytest.raises(InjectionError, match=r" runs 1 instance,") as caught:
        scaling(pipeline, 1, 1)
    keep(str(caught.value))
