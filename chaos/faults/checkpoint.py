"""Faults of the checkpoint of a query: damaged while the pipeline is down, or older than the sink's commits."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Literal, Self

from confluent_kafka import KafkaException
from pydantic import Field, model_validator

from chaos.cluster.spark import SparkApp
from chaos.common import clock
from chaos.common.errors import InjectionError
from chaos.contract.checkpoint import COMMITS, OFFSETS, State, batches, newest, of_query, planned
from chaos.faults.base import FaultContext, Injection, PipelineUnderTest, Proof, RestartedFault, unmet
from chaos.faults.spark_executors import NO_ANSWER
from chaos.grammar.base import WrongValueError
from chaos.grammar.units import Seconds, spoken_seconds
from chaos.runtime.capabilities import Capability

_BATCH_WITHIN_S = 180.0  # seconds on a quiet machine; a driver that was just started loads its classes first
_COMMITTED_WITHIN_S = 4.0  # less than Spark lets pass without a heartbeat
_LATER_S = 0.25
_TRIES = 8
_STATE, _METADATA = "state", "metadata"
Damage = Literal["commit_deleted", "metadata_deleted", "offsets_torn", "lost", "state_lost", "older_copy"]


class CheckpointFault(RestartedFault):
    """A fault of the checkpoint; the pipeline dies with it and is started again."""

    needs = frozenset({Capability.PIPELINE, Capability.CHECKPOINT})


class DamageCheckpoint(CheckpointFault):
    """The pipeline dies, and its checkpoint is damaged before it is started again.

    ================  ====================================================================================================
    commit_deleted    the newest commit is deleted: Spark plans its batch again, with the same range
    metadata_deleted  that, and the file with the query's id is deleted: Spark plans the batch again under another id
    offsets_torn      the newest plan is cut in its middle: Spark refuses to start, until the batch is removed (`repair`)
    lost              all of it is deleted: Spark begins at the start of the source
    state_lost        the files of its state stores are deleted, but not its plans and commits: the state cannot be loaded
    older_copy        copied at the trigger, put back ``restore_after`` later: Spark plans old batches again
    ================  ====================================================================================================
    """

    provokes = "batches that are planned again, or a query that does not start (Structured Streaming, fault tolerance)"
    proved_by = "files of the checkpoint were there, and now are gone, shorter or older"
    kind: Literal["damage_checkpoint"]
    damage: Damage = Field(alias="what")
    """the damage, see above."""
    repair: Literal["none", "batch_removed"] = "none"
    """``batch_removed`` removes the torn batch before the pipeline starts; for ``offsets_torn`` only."""
    restore_after_s: Seconds = Field(alias="restore_after", default=0.0)
    """the age of the copy when it is put back; for ``older_copy``, and needed there."""

    def describe(self) -> str:
        repaired = ", the torn batch removed" if self.repair == "batch_removed" else ""
        restored = f", put back {spoken_seconds(self.restore_after_s)} later" if self.restore_after_s else ""
        return f"damage_checkpoint {self.damage}{restored}{repaired}, {self.restarted}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        checkpoint, pipeline = _checkpoint(context), context.pipeline()
        if self.damage == "older_copy":
            return OlderCheckpoint("the checkpoint", self.restart_after_s, self, checkpoint, pipeline)
        return DamagedCheckpoint("the checkpoint", self.restart_after_s, self, checkpoint, pipeline)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.damage == "older_copy" and not self.restore_after_s:
            raise WrongValueError("copy-not-older", "a copy that is put back at once is not older: write restore_after: 4s")
        if self.damage != "older_copy" and self.restore_after_s:
            raise WrongValueError(
                "restore-without-copy", f"restore_after belongs to what: older_copy; {self.damage} has no copy"
            )
        if self.damage != "offsets_torn" and self.repair != "none":
            raise WrongValueError(
                "repair-without-tear", f"repair belongs to what: offsets_torn; after {self.damage} there is no torn batch"
            )
        return self


@dataclass(slots=True)
class DamagedCheckpoint(Injection):
    fault: DamageCheckpoint
    checkpoint: Path
    pipeline: PipelineUnderTest
    pids: Mapping[str, int] = field(default_factory=dict)
    before: State = field(default_factory=dict)
    damage: Mapping[str, Any] = field(default_factory=dict)

    def inject(self) -> None:
        """Kill the pipeline, then do the damage: a running query would repair it, or never read it."""
        self.pids = self.pipeline.crash()
        self.before = newest(self.checkpoint)
        self.damage = _DAMAGES[self.fault.damage](self.checkpoint)

    def proof(self) -> Proof:
        return Proof(bool(self.pids) and bool(self.damage), _facts(self.pids, self.before, self.checkpoint, self.damage))

    def heal(self) -> Mapping[str, Any]:
        """Remove the batch that Spark refuses, if that was declared, and start the pipeline; a second heal repairs nothing."""
        torn, self.damage = self.damage, {}
        removed: list[str] = []
        if torn and self.fault.repair == "batch_removed":
            removed = _remove(self.checkpoint, [(OFFSETS, torn["batch"]), (COMMITS, torn["batch"])])
        self.pipeline.restart()
        return {"removed": removed} if removed else {}


@dataclass(slots=True)
class OlderCheckpoint(Injection):
    fault: DamageCheckpoint
    checkpoint: Path
    pipeline: PipelineUnderTest
    since_s: float = 0.0
    copied: State = field(default_factory=dict)
    pids: Mapping[str, int] = field(default_factory=dict)
    before: State = field(default_factory=dict)
    healed: bool = False

    def inject(self) -> None:
        """Do nothing yet: there may be no batch to copy, and while this runs no other fault can be injected or healed."""
        self.since_s = clock.monotonic_s()

    def complete(self) -> None:
        """Copy it, kill the pipeline once it has finished more batches, and put the copy back.

        It is copied while the pipeline runs, after its first batch: files are complete once they have their names.
        """
        self._wait_for(lambda: newest(self.checkpoint)[COMMITS] is not None, "a batch to copy")
        shutil.rmtree(self._copy, ignore_errors=True)
        shutil.copytree(self.checkpoint, self._copy, ignore=shutil.ignore_patterns(".*"))
        self.copied = newest(self._copy)
        clock.pause(self.fault.restore_after_s)
        self._wait_for(self._has_moved_on, "a batch after the copy")
        self.pids = self.pipeline.crash()
        self.hold_s += clock.monotonic_s() - self.since_s  # it is down for as long as declared, however long this took
        self.before = newest(self.checkpoint)
        shutil.rmtree(self.checkpoint)
        shutil.copytree(self._copy, self.checkpoint)

    def proof(self) -> Proof:
        effective = bool(self.pids) and newest(self.checkpoint) == self.copied
        return Proof(effective, _facts(self.pids, self.before, self.checkpoint, {"what": "older_copy"}))

    def heal(self) -> None:
        self.healed = True
        self.pipeline.restart()

    @property
    def _copy(self) -> Path:
        return self.checkpoint.with_name(f"{self.checkpoint.name}-copy")

    def _has_moved_on(self) -> bool:
        return (newest(self.checkpoint)[COMMITS] or 0) > (self.copied[COMMITS] or 0)

    def _wait_for(self, condition: Callable[[], bool], reason: str) -> None:
        clock.wait_until(
            lambda: self.healed or condition(),
            within_s=_BATCH_WITHIN_S,
            reason=reason,
            seen=lambda: {"copied": self.copied, "now": newest(self.checkpoint)},
        )
        if self.healed:
            raise InjectionError("the run ended before the copy was put back")


class CrashBeforeCommit(CheckpointFault):
    """The driver is killed when the sink has committed all of a batch, but the checkpoint has not.

    Exact on any machine: the driver is frozen in the middle of a batch, the tasks commit without it, and it is killed.
    """

    needs = frozenset({Capability.PIPELINE, Capability.CHECKPOINT, Capability.COMMITTING_TASKS})
    provokes = "a batch that is committed in the sink but not in the checkpoint: Spark writes it again"
    proved_by = "the driver was killed; its whole planned batch is committed in the sink, but not in the checkpoint"
    kind: Literal["crash_before_commit"]

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        app = context.spark_app()
        return CrashedBeforeCommit("the driver", self.restart_after_s, _checkpoint(context), context, context.pipeline(), app)


@dataclass(slots=True)
class CrashedBeforeCommit(Injection):
    """A driver that was frozen in the middle of a batch, and killed once its tasks had committed without it.

    ::

        offsets/N written ── all tasks started ──▶ frozen ── last task commits ──▶ killed      commits/N is never written

    A task that has just started still fetches its code from the driver: if the driver is frozen too early, the task hangs.

    Attributes:
        into_s: seconds from the start of all tasks to the freeze of the driver.
        too_late: number of freezes after the batch was done.
    """

    checkpoint: Path
    context: FaultContext
    pipeline: PipelineUnderTest
    app: SparkApp
    frozen: bool = False
    healed: bool = False
    into_s: float = 0.0
    too_late: int = 0
    since_s: float = 0.0
    pids: Mapping[str, int] = field(default_factory=dict)
    tries: int = 0

    def inject(self) -> None:
        """Do nothing yet: the next batch takes time, and while this runs no other fault can be injected or healed."""
        self.since_s = clock.monotonic_s()

    def complete(self) -> None:
        """Freeze it when all tasks of a batch have started, and kill it once they have committed without it.

        If they do not, let it run on, and freeze it later in a batch.
        """
        for tries in range(1, _TRIES + 1):
            self._freeze()
            if self._tasks_commit():
                self._must_go_on()
                self.pids, self.tries = self.pipeline.crash(), tries
                self.hold_s += clock.monotonic_s() - self.since_s  # it is down for as long as declared, however long this took
                return
            self._resume()
            self.into_s += _LATER_S
        raise InjectionError(f"the tasks did not end without their driver, {_TRIES} times")

    def proof(self) -> Proof:
        """Show that the driver was killed in the middle of a batch; `complete` has seen that the sink had committed it all."""
        state = newest(self.checkpoint)
        facts = {"pids": self.pids, "batch": state[OFFSETS], "done": state[COMMITS], "sink_committed": self._ends()}
        return Proof(bool(self.pids) and _in_batch(self.checkpoint), facts | {"tries": self.tries})

    def heal(self) -> None:
        """Start it again, or let it run on if it was not killed."""
        self.healed = True
        self._resume()
        self.pipeline.restart()

    def _freeze(self) -> None:
        clock.wait_until(
            lambda: self.healed or self._freezes(),
            within_s=_BATCH_WITHIN_S,
            reason="a batch whose tasks have all started",
            every_s=0.002,
            ignore=NO_ANSWER,
            seen=lambda: {**newest(self.checkpoint), "frozen_too_late": self.too_late},
        )
        self._must_go_on()

    def _must_go_on(self) -> None:
        """Raise if another thread has healed this, and resume the driver, which may have been frozen just then."""
        if self.healed:
            self._resume()
            raise InjectionError("the run ended before the driver was killed")

    def _freezes(self) -> bool:
        """Whether the driver is frozen now, in the middle of a batch."""
        if not _in_batch(self.checkpoint) or not self.app.all_tasks_started():
            return False
        clock.pause(self.into_s)
        self.frozen = True
        self.pipeline.pause()
        self.frozen = True  # again: `heal`, in another thread, may have resumed it before it stood still
        if _in_batch(self.checkpoint):
            return True
        self.too_late += 1
        self._resume()
        return False

    def _resume(self) -> None:
        if self.frozen:
            self.pipeline.resume()
            self.frozen = False

    def _tasks_commit(self) -> bool:
        return not unmet(
            lambda: self._ends() == self.context.positions(),
            _COMMITTED_WITHIN_S,
            "the tasks to commit",
            ignore=(KafkaException,),
        )

    def _ends(self) -> Mapping[int, int]:
        """End offsets of the newest planned batch, by partition."""
        return planned(self.checkpoint, newest(self.checkpoint)[OFFSETS], self.context.source)


def _in_batch(checkpoint: Path) -> bool:
    state = newest(checkpoint)
    return state[OFFSETS] is not None and state[OFFSETS] != state[COMMITS]


def _delete_commit(checkpoint: Path) -> Mapping[str, Any]:
    """Delete the newest commit, and the plans after it: Spark does not run a batch again while there is a later plan."""
    batch = newest(checkpoint)[COMMITS]
    if batch is None:
        return {}
    later = [(OFFSETS, one) for one in batches(checkpoint, OFFSETS) if one > batch]
    return {"what": "commit_deleted", "batch": batch, "files": _remove(checkpoint, [(COMMITS, batch), *later])}


def _delete_metadata(checkpoint: Path) -> Mapping[str, Any]:
    """Delete the newest commit, too: without a batch that is done again, another id would show nowhere."""
    if not (checkpoint / _METADATA).is_file() or not (deleted := _delete_commit(checkpoint)):
        return {}
    for name in (_METADATA, f".{_METADATA}.crc"):
        (checkpoint / name).unlink(missing_ok=True)
    return {**deleted, "what": "metadata_deleted", "files": [_METADATA, *deleted["files"]]}


def _tear_offsets(checkpoint: Path) -> Mapping[str, Any]:
    batch = newest(checkpoint)[OFFSETS]
    if batch is None:
        return {}
    log = checkpoint / OFFSETS / str(batch)
    whole = log.read_bytes()
    log.write_bytes(whole[: len(whole) // 2])
    return {"what": "offsets_torn", "batch": batch, "bytes_before": len(whole), "bytes": len(whole) // 2}


def _lose(checkpoint: Path) -> Mapping[str, Any]:
    files = sum(path.is_file() for path in checkpoint.rglob("*"))
    shutil.rmtree(checkpoint)
    return {"what": "lost", "files": files} if files else {}


def _lose_state(checkpoint: Path) -> Mapping[str, Any]:
    files = sum(path.is_file() for path in (checkpoint / _STATE).rglob("*"))
    if files:
        shutil.rmtree(checkpoint / _STATE)
    return {"what": "state_lost", "files": files} if files else {}


def _remove(checkpoint: Path, entries: list[tuple[str, int]]) -> list[str]:
    """Remove batches of logs, with their checksums; return the removed ones."""
    for log, batch in entries:
        (checkpoint / log / f".{batch}.crc").unlink(missing_ok=True)
    there = [checkpoint / log / str(batch) for log, batch in entries if (checkpoint / log / str(batch)).exists()]
    for path in there:
        path.unlink()
    return [f"{path.parent.name}/{path.name}" for path in there]


def _facts(pids: Mapping[str, int], before: State, checkpoint: Path, damage: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"pids": pids, "before": before, "after": newest(checkpoint), **damage}


def _checkpoint(context: FaultContext) -> Path:
    """Return the folder of its query, which may be below the given one."""
    if context.checkpoint is None or not context.checkpoint.is_dir():
        raise InjectionError("this pipeline has no checkpoint")
    return of_query(context.checkpoint, context.source)


_DAMAGES: Mapping[Damage, Callable[[Path], Mapping[str, Any]]] = {
    "commit_deleted": _delete_commit,
    "metadata_deleted": _delete_metadata,
    "offsets_torn": _tear_offsets,
    "lost": _lose,
    "state_lost": _lose_state,
}
