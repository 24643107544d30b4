"""Checkpoints are damaged as declared, and no more: a checkpoint of files, a pipeline that writes down what is done to it."""

import shutil
from dataclasses import dataclass, field
from random import Random

import pytest
import requests
from pydantic import TypeAdapter

from chaos.common.errors import InjectionError
from chaos.contract.checkpoint import newest
from chaos.faults import checkpoint as module
from chaos.faults.base import FaultContext, prove
from chaos.faults.registry import Fault
from tests.unit.wording import keep


@dataclass
class FakePipeline:
    """A pipeline that writes down what is done to it."""

    done: list = field(default_factory=list)

    def crash(self):
        self.done.append("crash")
        return {"pipeline": 7}

    def restart(self):
        self.done.append("restart")

    def pause(self):
        self.done.append("pause")
        return {"pipeline": 7}

    def resume(self):
        self.done.append("resume")


@dataclass
class FakeApp:
    """Spark says of each batch whether all its tasks have started, or does not answer; the last answer stays."""

    started: list = field(default_factory=lambda: [True])

    def all_tasks_started(self):
        started = self.started.pop(0) if len(self.started) > 1 else self.started[0]
        if isinstance(started, Exception):
            raise started
        return started


@pytest.fixture
def checkpoint(tmp_path):
    """Batches 8 to 10 are planned, 8 and 9 are done; each file has its checksum."""
    folder = tmp_path / "checkpoint"
    for log in ("offsets", "commits", "sources"):
        (folder / log).mkdir(parents=True)
    for batch in (8, 9, 10):
        write(folder, "offsets", batch, f'v1\n{{}}\n{{"source":{{"0":{batch}0,"1":{batch}1}}}}')
    for batch in (8, 9):
        write(folder, "commits", batch, "v1\n{}")
    return folder


@pytest.fixture
def pipeline():
    """Not started, not ended: it only writes down."""
    return FakePipeline()


@pytest.fixture
def app():
    """An application whose tasks have started."""
    return FakeApp()


@pytest.fixture
def aimed(checkpoint, pipeline, app):
    """Aims a fault at the checkpoint and the pipeline."""

    def aim(kind="damage_checkpoint", positions=dict, **declared):
        fault = TypeAdapter(Fault).validate_python({"kind": kind, "when": {"after": "0s"}} | declared)
        known = {"source": "source", "sink": "sink", "checkpoint": checkpoint, "positions": positions, "spark_app": lambda: app}
        return fault.prepare(FaultContext(None, {}, pipeline=lambda: pipeline, **known), Random(1))

    return aim


def write(folder, log, batch, text):
    """A log file of Spark's, and its checksum."""
    (folder / log / str(batch)).write_text(text, encoding="utf-8")
    (folder / log / f".{batch}.crc").write_bytes(b"crc")


def test_the_newest_batches_are_those_with_the_highest_number(checkpoint):
    """10 comes after 9, and neither checksums nor temporary files are batches."""
    (checkpoint / "offsets" / ".11.tmp").touch()
    (checkpoint / "commits" / "11.tmp").touch()

    assert newest(checkpoint) == {"offsets": 10, "commits": 9}
    assert newest(checkpoint / "nothing") == {"offsets": None, "commits": None}


def test_the_checkpoint_of_a_query_may_be_below_the_one_that_is_known(checkpoint, pipeline):
    """A job may give each of its queries a folder of its own."""
    known = {"source": "source", "checkpoint": checkpoint.parent, "positions": dict, "pipeline": lambda: pipeline}
    fault = TypeAdapter(Fault).validate_python({"kind": "damage_checkpoint", "what": "commit_deleted", "when": {"after": "0s"}})
    injection = fault.prepare(FaultContext(None, {}, **known), Random(1))

    injection.inject()

    assert prove(injection).effective
    assert newest(checkpoint) == {"offsets": 9, "commits": 8}


def test_a_deleted_commit_makes_its_batch_the_last_that_is_planned(checkpoint, pipeline, aimed):
    """Spark replays batch 9 only if no later plan is there."""
    injection = aimed(what="commit_deleted")
    injection.inject()
    proof = prove(injection)

    assert newest(checkpoint) == {"offsets": 9, "commits": 8}
    assert not (checkpoint / "commits" / ".9.crc").exists()
    assert proof.effective
    assert proof.facts["files"] == ["commits/9", "offsets/10"]
    assert (proof.facts["before"], proof.facts["after"]) == ({"offsets": 10, "commits": 9}, {"offsets": 9, "commits": 8})
    assert pipeline.done == ["crash"]


def test_an_id_is_deleted_with_the_newest_commit(checkpoint, aimed):
    """Spark gives the query another id, and does batch 9 again under it. Without an id, nothing is deleted."""
    nothing = aimed(what="metadata_deleted")
    nothing.inject()
    assert (prove(nothing).effective, newest(checkpoint)) == (False, {"offsets": 10, "commits": 9})

    for name in ("metadata", ".metadata.crc"):
        (checkpoint / name).touch()
    injection = aimed(what="metadata_deleted")
    injection.inject()
    proof = prove(injection)

    assert newest(checkpoint) == {"offsets": 9, "commits": 8}
    assert not list(checkpoint.glob("*metadata*"))
    assert proof.effective
    assert (proof.facts["what"], proof.facts["files"]) == ("metadata_deleted", ["metadata", "commits/9", "offsets/10"])


def test_a_state_that_is_lost_leaves_what_is_planned_and_done(checkpoint, aimed):
    """A query without a state loses nothing, so the fault has no effect."""
    nothing = aimed(what="state_lost")
    nothing.inject()
    for name in ("1.delta", ".1.delta.crc", "2.delta"):
        (checkpoint / "state" / "0" / "0").mkdir(parents=True, exist_ok=True)
        (checkpoint / "state" / "0" / "0" / name).touch()
    injection = aimed(what="state_lost")
    injection.inject()

    assert not prove(nothing).effective
    assert prove(injection).facts["files"] == 3
    assert newest(checkpoint) == {"offsets": 10, "commits": 9}
    assert not (checkpoint / "state").exists()


def test_torn_offsets_are_half_of_what_they_were(checkpoint, aimed):
    """The newest plan is torn, the others are whole."""
    whole = (checkpoint / "offsets" / "10").read_text()
    injection = aimed(what="offsets_torn")
    injection.inject()

    assert (checkpoint / "offsets" / "10").read_text() == whole[: len(whole) // 2]
    assert prove(injection).facts["bytes"] == len(whole) // 2
    assert (checkpoint / "offsets" / "9").read_text().endswith("}}")


def test_a_torn_batch_is_removed_only_if_that_was_declared(checkpoint, pipeline, aimed):
    """Without repair it is what Spark finds; with it, Spark plans the batch anew."""
    left = aimed(what="offsets_torn")
    left.inject()
    left.heal()
    assert newest(checkpoint)["offsets"] == 10

    repaired = aimed(what="offsets_torn", repair="batch_removed")
    repaired.inject()
    assert repaired.heal() == {"removed": ["offsets/10"]}
    assert newest(checkpoint) == {"offsets": 9, "commits": 9}
    assert pipeline.done == ["crash", "restart"] * 2


def test_a_second_heal_removes_nothing_that_the_pipeline_has_planned_since(checkpoint, aimed):
    """After the first heal the same number may stand for a batch that is whole."""
    injection = aimed(what="offsets_torn", repair="batch_removed")
    injection.inject()
    injection.heal()
    write(checkpoint, "offsets", 10, "v1")
    injection.heal()

    assert newest(checkpoint)["offsets"] == 10


def test_a_lost_checkpoint_is_gone(checkpoint, aimed):
    """All of it, with the id of the query."""
    injection = aimed(what="lost")
    injection.inject()

    assert not checkpoint.exists()
    assert prove(injection).facts["files"] == 10
    assert prove(injection).effective


def test_a_checkpoint_without_a_finished_batch_is_not_damaged(checkpoint, aimed):
    """A missing batch cannot be deleted, so the run proves nothing."""
    for batch in (8, 9):
        (checkpoint / "commits" / str(batch)).unlink()
    injection = aimed(what="commit_deleted")
    injection.inject()

    assert not prove(injection).effective


@pytest.fixture
def goes_on(checkpoint, monkeypatch):
    """A pipeline that finishes batch 10 and plans the next one while a fault pauses."""

    def pause(_seconds):
        write(checkpoint, "commits", 10, "v1\n{}")
        write(checkpoint, "offsets", 11, "v1\n{}")

    monkeypatch.setattr(module.clock, "pause", pause)


@pytest.mark.usefixtures("goes_on")
def test_an_older_copy_replaces_what_was_written_since(checkpoint, pipeline, aimed):
    """The copy is made at once, the pipeline dies when it has gone on, and finds what it had written then."""
    injection = aimed(what="older_copy", restore_after="1ms")
    injection.inject()
    proof = prove(injection)

    assert newest(checkpoint) == {"offsets": 10, "commits": 9}
    assert proof.effective
    assert (proof.facts["before"], proof.facts["after"]) == ({"offsets": 11, "commits": 10}, {"offsets": 10, "commits": 9})
    injection.heal()
    assert pipeline.done == ["crash", "restart"]


def test_an_older_copy_of_a_pipeline_that_stood_still_is_no_older(pipeline, aimed, monkeypatch):
    """Nothing was written since: to put it back would prove nothing, and what was seen is told."""
    monkeypatch.setattr(module, "_BATCH_WITHIN_S", 0.01)
    injection = aimed(what="older_copy", restore_after="1ms")
    injection.inject()
    proof = prove(injection)

    assert not proof.effective
    assert "a batch after the copy; last seen: {'copied': {'offsets': 10, 'commits': 9}" in proof.facts["problem"]
    assert pipeline.done == []


def test_an_older_copy_is_of_something(checkpoint, pipeline, aimed, monkeypatch):
    """A checkpoint without a finished batch is waited for: its copy would be a checkpoint that is lost, another fault."""
    monkeypatch.setattr(module, "_BATCH_WITHIN_S", 0.01)
    shutil.rmtree(checkpoint / "commits")
    injection = aimed(what="older_copy", restore_after="1ms")
    injection.inject()
    proof = prove(injection)

    assert not proof.effective
    assert "a batch to copy" in proof.facts["problem"]
    assert pipeline.done == []


def test_a_copy_is_not_put_back_once_the_run_has_ended(pipeline, aimed, monkeypatch):
    """The heal comes from another thread, while a batch is waited for: the pipeline that it started is not killed."""
    injection = aimed(what="older_copy", restore_after="1ms")
    monkeypatch.setattr(module.clock, "pause", lambda _seconds: injection.heal())
    injection.inject()
    proof = prove(injection)

    assert "the run ended" in keep(proof.facts["problem"])
    assert pipeline.done == ["restart"]


def test_a_driver_dies_between_the_sinks_commit_and_its_own(pipeline, aimed):
    """Frozen in the middle of batch 10, killed when the group has reached its end."""
    injection = aimed("crash_before_commit", positions=lambda: {0: 100, 1: 101})
    injection.inject()
    assert pipeline.done == []
    proof = prove(injection)

    assert pipeline.done == ["pause", "crash"]
    assert proof.effective
    assert (proof.facts["batch"], proof.facts["done"], proof.facts["sink_committed"]) == (10, 9, {0: 100, 1: 101})


@pytest.mark.parametrize(
    ("kind", "declared"), [("crash_before_commit", {}), ("damage_checkpoint", {"what": "older_copy", "restore_after": "1ms"})]
)
@pytest.mark.usefixtures("goes_on")
def test_the_pipeline_is_gone_for_as_long_as_is_declared(kind, declared, pipeline, aimed, monkeypatch):
    """The time counts from its death, not from the trigger: it took 30 s until there was a batch."""
    now_s = [100.0]
    monkeypatch.setattr(module.clock, "monotonic_s", lambda: now_s[0])
    injection = aimed(kind, positions=lambda: {0: 100, 1: 101}, restart_after="5s", **declared)
    if kind == "crash_before_commit":  # whose batch must not end while it pauses
        monkeypatch.setattr(module.clock, "pause", lambda _seconds: None)
    injection.inject()
    now_s[0] += 30
    prove(injection)

    assert pipeline.done[-1] == "crash"
    assert injection.hold_s == 35.0


def test_a_driver_whose_tasks_do_not_end_is_let_run_on(pipeline, aimed, monkeypatch):
    """It was frozen before it had started all of them: another try, then no proof, and the heal leaves nothing frozen."""
    monkeypatch.setattr(module, "_COMMITTED_WITHIN_S", 0.01)
    monkeypatch.setattr(module, "_TRIES", 2)
    injection = aimed("crash_before_commit", positions=lambda: {0: 100, 1: 90})
    injection.inject()
    proof = prove(injection)
    injection.heal()
    injection.heal()

    assert not proof.effective
    assert "crash" not in pipeline.done
    assert pipeline.done.count("pause") == pipeline.done.count("resume") == 2


@pytest.mark.parametrize("ends", [{0: 100, 1: 90}, {0: 100, 1: 101}])
def test_a_driver_is_not_killed_once_the_run_has_ended(ends, pipeline, aimed, monkeypatch):
    """The heal comes from another thread, while the tasks are waited for: the driver that it let run on must stay so."""
    monkeypatch.setattr(module, "_COMMITTED_WITHIN_S", 0.01)
    injections = []

    def positions():
        injections[0].heal()
        return ends

    injections.append(aimed("crash_before_commit", positions=positions))
    injections[0].inject()
    proof = prove(injections[0])

    assert "the run ended" in keep(proof.facts["problem"])
    assert pipeline.done[:3] == ["pause", "resume", "restart"]
    assert set(pipeline.done[3:]) <= {"restart"}


def test_a_driver_that_is_healed_while_it_is_frozen_runs_on(pipeline, aimed, monkeypatch):
    """The heal comes from another thread, just before all of its processes stand still."""
    injection = aimed("crash_before_commit", positions=lambda: {0: 100, 1: 101})
    pause = pipeline.pause

    def healed_meanwhile():
        injection.heal()
        return pause()

    monkeypatch.setattr(pipeline, "pause", healed_meanwhile)
    injection.inject()

    assert not prove(injection).effective
    assert pipeline.done == ["resume", "restart", "pause", "resume"]


def test_a_driver_is_not_frozen_once_the_run_has_ended(pipeline, aimed):
    """The heal comes before there was a batch."""
    injection = aimed("crash_before_commit")
    injection.inject()
    injection.heal()

    assert not prove(injection).effective
    assert pipeline.done == ["restart"]


def test_a_driver_between_two_batches_is_not_frozen(checkpoint, pipeline, aimed, monkeypatch):
    """All that is planned is done: the sink cannot be ahead of the checkpoint."""
    monkeypatch.setattr(module, "_BATCH_WITHIN_S", 0.01)
    write(checkpoint, "commits", 10, "v1\n{}")
    injection = aimed("crash_before_commit")
    injection.inject()
    proof = prove(injection)

    assert not proof.effective
    assert "{'offsets': 10, 'commits': 10" in proof.facts["problem"]
    assert pipeline.done == []


def test_a_driver_whose_batch_ended_meanwhile_runs_on(checkpoint, pipeline, aimed, monkeypatch):
    """It was frozen too late: its checkpoint says already what the sink has."""
    monkeypatch.setattr(module, "_BATCH_WITHIN_S", 0.01)
    pause = pipeline.pause

    def too_late():
        write(checkpoint, "commits", 10, "v1\n{}")
        return pause()

    monkeypatch.setattr(pipeline, "pause", too_late)
    injection = aimed("crash_before_commit", positions=lambda: {0: 100, 1: 101})
    injection.inject()
    proof = prove(injection)

    assert "'frozen_too_late': 1" in proof.facts["problem"]
    assert pipeline.done == ["pause", "resume"]


def test_a_driver_is_not_frozen_while_a_task_waits(pipeline, app, aimed):
    """Without its driver a task that has not started never will; and a page that does not answer yet is asked again."""
    app.started[:] = [False, requests.ConnectionError("refused"), False, True]
    injection = aimed("crash_before_commit", positions=lambda: {0: 100, 1: 101})
    injection.inject()

    assert prove(injection).effective
    assert app.started == [True]
    assert pipeline.done == ["pause", "crash"]


def test_a_pipeline_without_a_checkpoint_cannot_lose_it():
    """The message says what is missing."""
    fault = TypeAdapter(Fault).validate_python({"kind": "damage_checkpoint", "what": "lost", "when": {"after": "0s"}})

    with pytest.raises(InjectionError, match="has no checkpoint"):
        fault.prepare(FaultContext(None, {}), Random(1))
