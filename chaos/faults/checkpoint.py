"""Faults of the checkpoint of a query: damaged while the pipeline is down, or left behind by what the sink has committed."""

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
from chaos.common.errors import DeadlineError, InjectionError
from chaos.faults.base import (
    FaultBase,
    FaultContext,
    Injection,
    PipelineUnderTest,
    Proof,
)
from chaos.grammar.units import Seconds, spoken_seconds
from chaos.runtime.capabilities import Capability
from pipelines.spark_square.pipeline import planned

_OFFSETS, _COMMITS = "offsets", "commits"


_BATCH_WITHIN_S = 20.0
_FIRST_BATCH_WITHIN_S = 60.0  # a driver that was just started loads its classes first
_COMMITTED_WITHIN_S = 4.0  # less than Spark lets pass without a heartbeat
_LATER_S = 0.25
_TRIES = 8
State = Mapping[str, int | None]
Damage = Literal["commit_deleted", "offsets_torn", "lost", "older_copy"]


class CheckpointFault(FaultBase):
    """A fault of the checkpoint; the pipeline dies with it and is started again."""

    needs = frozenset({Capability.PIPELINE, Capability.CHECKPOINT})
    restart_after_s: Seconds = Field(alias="restart_after", default=1.0)

    @property
    def restarted(self) -> str:
        """When it comes back, in words."""
        return f"restarted after {spoken_seconds(self.restart_after_s)}"


class CrashBeforeCommit(CheckpointFault):
    """The driver dies when the sink has committed all of a batch and its checkpoint does not say so.

    Exact on any machine: the driver is frozen in the middle of a batch, the tasks commit without it, and it is killed.
    """

    needs = frozenset({Capability.PIPELINE, Capability.CHECKPOINT, Capability.COMMITTING_TASKS})
    provokes = "a batch whose rows are committed and which its checkpoint does not know: it is written again"
    proved_by = "all that was planned is committed in the sink, the checkpoint does not say so, the driver is gone"
    kind: Literal["crash_before_commit"]

    def describe(self) -> str:
        return f"crash_before_commit, {self.restarted}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        app = context.spark_app()
        return CrashedBeforeCommit("the driver", self.restart_after_s, _checkpoint(context), context, context.pipeline(), app)


class DamageCheckpoint(CheckpointFault):
    """The pipeline dies, and its checkpoint is damaged before it is started again.

    ==============  ==================================================================================================
    commit_deleted  the last batch that was done is not known to be done: Spark plans it again with the same range
    offsets_torn    the newest plan is cut in its middle: Spark refuses to start, until the batch is removed (`repair`)
    lost            there is none: Spark begins at the start of the source
    older_copy      copied at the trigger, put back ``restore_after`` that: Spark plans old batches again
    ==============  ==================================================================================================
    """

    provokes = (
        "batches that are planned again, or a query that does not start (Structured Streaming, fault tolerance semantics)"
    )
    proved_by = "files were there and are gone, shorter or older"
    kind: Literal["damage_checkpoint"]
    what_: Damage = Field(alias="what")
    repair: Literal["none", "batch_removed"] = "none"
    restore_after_s: Seconds = Field(alias="restore_after", default=0.0)

    def describe(self) -> str:
        repaired = ", the torn batch removed" if self.repair == "batch_removed" else ""
        restored = f", put back {spoken_seconds(self.restore_after_s)} later" if self.restore_after_s else ""
        return f"damage_checkpoint {self.what_}{restored}{repaired}, {self.restarted}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        checkpoint, pipeline = _checkpoint(context), context.pipeline()
        if self.what_ == "older_copy":
            return OlderCheckpoint("the checkpoint", self.restore_after_s + self.restart_after_s, self, checkpoint, pipeline)
        return DamagedCheckpoint("the checkpoint", self.restart_after_s, self, checkpoint, pipeline)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.what_ == "older_copy" and not self.restore_after_s:
            raise ValueError("a copy that is put back at once is not older: write restore_after: 4s")
        if self.what_ != "older_copy" and self.restore_after_s:
            raise ValueError(f"restore_after belongs to what: older_copy; {self.what_} has no copy")
        if self.what_ != "offsets_torn" and self.repair != "none":
            raise ValueError(f"repair belongs to what: offsets_torn; Spark starts by itself after {self.what_}")
        return self


@dataclass(slots=True)
class DamagedCheckpoint(Injection):
    """A checkpoint that was damaged after its pipeline had died; the pipeline is started on it at the heal."""

    fault: DamageCheckpoint
    checkpoint: Path
    pipeline: PipelineUnderTest
    pids: Mapping[str, int] = field(default_factory=dict)
    before: State = field(default_factory=dict)
    damage: Mapping[str, Any] = field(default_factory=dict)

    def inject(self) -> None:
        """The pipeline first: a query that runs would mend, or never read, what is damaged."""
        self.pids = self.pipeline.crash()
        self.before = newest(self.checkpoint)
        self.damage = _DAMAGES[self.fault.what_](self.checkpoint)

    def proof(self) -> Proof:
        """Files were there and are gone, or are shorter."""
        return Proof(bool(self.pids) and bool(self.damage), _facts(self.pids, self.before, self.checkpoint, self.damage))

    def heal(self) -> Mapping[str, Any]:
        """Repair what Spark refuses, if that was declared, and start the pipeline."""
        repaired = self._repaired()
        self.pipeline.restart()
        return {"removed": repaired} if repaired else {}

    def _repaired(self) -> list[str]:
        """What was removed; a pipeline that runs already, at a second heal, keeps its checkpoint."""
        torn, self.damage = self.damage, {}
        if self.fault.repair == "none" or not torn:
            return []
        return _removed(self.checkpoint, [(_OFFSETS, torn["batch"]), (_COMMITS, torn["batch"])])


@dataclass(slots=True)
class OlderCheckpoint(Injection):
    """A checkpoint that was copied, and is put back over what the pipeline has written since."""

    fault: DamageCheckpoint
    checkpoint: Path
    pipeline: PipelineUnderTest
    copied: State = field(default_factory=dict)
    pids: Mapping[str, int] = field(default_factory=dict)
    before: State = field(default_factory=dict)
    healed: bool = False

    def inject(self) -> None:
        """Copy it while the pipeline runs: its files are complete once they have their names.

        Raises:
            DeadlineError: no batch was ever finished, so that the copy would be of nothing.
        """
        clock.wait_until(
            lambda: newest(self.checkpoint)[_COMMITS] is not None, within_s=_FIRST_BATCH_WITHIN_S, reason="a batch to copy"
        )
        shutil.rmtree(self._copy, ignore_errors=True)
        shutil.copytree(self.checkpoint, self._copy, ignore=shutil.ignore_patterns(".*"))
        self.copied = newest(self._copy)

    def complete(self) -> None:
        """Kill the pipeline once it has finished more batches, and put the copy back."""
        clock.pause(self.fault.restore_after_s)
        clock.wait_until(
            self._has_moved_on, within_s=_BATCH_WITHIN_S, reason="a batch after the copy", seen=lambda: self.copied
        )
        if self.healed:
            raise InjectionError("the run ended before the copy was put back")
        self.pids = self.pipeline.crash()
        self.before = newest(self.checkpoint)
        shutil.rmtree(self.checkpoint)
        shutil.copytree(self._copy, self.checkpoint)

    def proof(self) -> Proof:
        """The pipeline was killed, and its checkpoint says what it said when it was copied."""
        effective = bool(self.pids) and newest(self.checkpoint) == self.copied
        return Proof(effective, _facts(self.pids, self.before, self.checkpoint, {"what": "older_copy"}))

    def heal(self) -> None:
        """Start the pipeline, if it was ended."""
        self.healed = True
        self.pipeline.restart()

    @property
    def _copy(self) -> Path:
        return self.checkpoint.with_name(f"{self.checkpoint.name}-copy")

    def _has_moved_on(self) -> bool:
        return (newest(self.checkpoint)[_COMMITS] or 0) > (self.copied[_COMMITS] or 0) or self.healed


@dataclass(slots=True)
class CrashedBeforeCommit(Injection):
    """A driver that was frozen in the middle of a batch, and killed once its tasks had committed without it.

    ::

        offsets/N written ── all tasks started ──▶ frozen ── last task commits ──▶ killed      commits/N is never written

    A task that has just started still fetches its code from the driver: frozen too early, it does not end.
    """

    checkpoint: Path
    context: FaultContext
    pipeline: PipelineUnderTest
    app: SparkApp
    frozen: bool = False
    healed: bool = False
    into_s: float = 0.0
    pids: Mapping[str, int] = field(default_factory=dict)
    tries: int = 0

    def inject(self) -> None:
        """Freeze it when it has started all tasks of a batch; the more often that was too early, the later."""
        clock.wait_until(self._freezes, within_s=_BATCH_WITHIN_S, reason="a batch whose tasks have all started", every_s=0.002)

    def complete(self) -> None:
        """Kill it once its tasks have committed without it; where they do not, freeze it later in the next batch."""
        for tries in range(1, _TRIES + 1):
            if self._tasks_commit():
                self.pids, self.tries = self.pipeline.crash(), tries
                return
            self._resume()
            self.into_s += _LATER_S
            if self.healed:
                raise InjectionError("the run ended before the driver was killed")
            self.inject()
        raise InjectionError(f"{_TRIES} times the tasks did not end without their driver")

    def proof(self) -> Proof:
        """The driver was killed; all that it planned is committed in the sink, and the checkpoint does not say so."""
        state = newest(self.checkpoint)
        facts = {"pids": self.pids, "batch": state[_OFFSETS], "done": state[_COMMITS], "sink_committed": self._ends()}
        return Proof(bool(self.pids) and _in_batch(self.checkpoint), facts | {"tries": self.tries})

    def heal(self) -> None:
        """Start it again, or let it run on if it was never killed."""
        self.healed = True
        self._resume()
        self.pipeline.restart()

    def _freezes(self) -> bool:
        if not _in_batch(self.checkpoint) or not self.app.all_tasks_started():
            return False
        clock.pause(self.into_s)
        self.frozen = True
        self.pipeline.pause()
        if _in_batch(self.checkpoint):
            return True
        self._resume()
        return False

    def _resume(self) -> None:
        if self.frozen:
            self.pipeline.resume()
            self.frozen = False

    def _tasks_commit(self) -> bool:
        try:
            clock.wait_until(
                lambda: self._ends() == self.context.positions(),
                within_s=_COMMITTED_WITHIN_S,
                reason="the tasks to commit",
                ignore=(KafkaException,),
            )
        except DeadlineError:
            return False
        return True

    def _ends(self) -> Mapping[int, int]:
        batch = newest(self.checkpoint)[_OFFSETS]
        return planned(self.checkpoint / _OFFSETS / str(batch), self.context.topics["datasource"])


def newest(checkpoint: Path) -> State:
    """Number of the newest batch that is planned (offsets), and of the newest that is done (commits); None for none."""
    return {log: max(_batches(checkpoint / log), default=None) for log in (_OFFSETS, _COMMITS)}


def _in_batch(checkpoint: Path) -> bool:
    state = newest(checkpoint)
    return state[_OFFSETS] is not None and state[_OFFSETS] != state[_COMMITS]


def _batches(log: Path) -> list[int]:
    """Spark writes checksums and temporary files beside its logs."""
    return [int(path.name) for path in log.glob("[0-9]*") if path.name.isdigit()]


def _delete_commit(checkpoint: Path) -> Mapping[str, Any]:
    """The newest one, and the plans after it: while there is a later plan Spark asks for no earlier batch."""
    batch = newest(checkpoint)[_COMMITS]
    if batch is None:
        return {}
    later = [(_OFFSETS, one) for one in _batches(checkpoint / _OFFSETS) if one > batch]
    return {"what": "commit_deleted", "batch": batch, "files": _removed(checkpoint, [(_COMMITS, batch), *later])}


def _tear_offsets(checkpoint: Path) -> Mapping[str, Any]:
    batch = newest(checkpoint)[_OFFSETS]
    if batch is None:
        return {}
    log = checkpoint / _OFFSETS / str(batch)
    whole = log.read_bytes()
    log.write_bytes(whole[: len(whole) // 2])
    return {"what": "offsets_torn", "batch": batch, "bytes_before": len(whole), "bytes": len(whole) // 2}


def _lose(checkpoint: Path) -> Mapping[str, Any]:
    files = sum(path.is_file() for path in checkpoint.rglob("*"))
    shutil.rmtree(checkpoint)
    return {"what": "lost", "files": files} if files else {}


def _removed(checkpoint: Path, entries: list[tuple[str, int]]) -> list[str]:
    """Those that were there, with their checksums."""
    for log, batch in entries:
        (checkpoint / log / f".{batch}.crc").unlink(missing_ok=True)
    there = [checkpoint / log / str(batch) for log, batch in entries if (checkpoint / log / str(batch)).exists()]
    for path in there:
        path.unlink()
    return [f"{path.parent.name}/{path.name}" for path in there]


def _facts(pids: Mapping[str, int], before: State, checkpoint: Path, damage: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"pids": pids, "before": before, "after": newest(checkpoint), **damage}


def _checkpoint(context: FaultContext) -> Path:
    if context.checkpoint is None or not context.checkpoint.is_dir():
        raise InjectionError("this pipeline has no checkpoint")
    return context.checkpoint


_DAMAGES: Mapping[Damage, Callable[[Path], Mapping[str, Any]]] = {
    "commit_deleted": _delete_commit,
    "offsets_torn": _tear_offsets,
    "lost": _lose,
}
