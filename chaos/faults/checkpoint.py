"""Faults of the checkpoint of a query: damaged while the pipeline is down, or left behind by what the sink has committed."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from confluent_kafka import KafkaException

from chaos.cluster.spark import SparkApp
from chaos.common import clock
from chaos.common.errors import DeadlineError, InjectionError
from chaos.faults.base import Injection, PipelineUnderTest, Prepare, Proof, Scene
from chaos.faults.declared.storage import CrashBeforeCommit, Damage, DamageCheckpoint
from pipelines.spark_square.pipeline import planned

_OFFSETS, _COMMITS = "offsets", "commits"
_BATCH_WITHIN_S = 20.0
_FIRST_BATCH_WITHIN_S = 60.0  # a driver that was just started loads its classes first
_COMMITTED_WITHIN_S = 4.0  # less than Spark lets pass without a heartbeat
_LATER_S = 0.25
_TRIES = 8

State = Mapping[str, int | None]


def prepare_damage(fault: DamageCheckpoint, scene: Scene, _rng: Random) -> Injection:
    """Aim a `DamageCheckpoint`."""
    checkpoint, pipeline = _checkpoint(scene), scene.pipeline()
    if fault.what_ == "older_copy":
        return OlderCheckpoint("the checkpoint", fault.restore_after_s + fault.restart_after_s, fault, checkpoint, pipeline)
    return DamagedCheckpoint("the checkpoint", fault.restart_after_s, fault, checkpoint, pipeline)


def prepare_crash(fault: CrashBeforeCommit, scene: Scene, _rng: Random) -> Injection:
    """Aim a `CrashBeforeCommit`."""
    app = scene.spark_app()
    return CrashedBeforeCommit("the driver", fault.restart_after_s, _checkpoint(scene), scene, scene.pipeline(), app)


@dataclass(slots=True)
class DamagedCheckpoint:
    """A checkpoint that was damaged after its pipeline had died; the pipeline is started on it at the heal."""

    target: str
    hold_s: float
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
class OlderCheckpoint:
    """A checkpoint that was copied, and is put back over what the pipeline has written since."""

    target: str
    hold_s: float
    fault: DamageCheckpoint
    checkpoint: Path
    pipeline: PipelineUnderTest
    copied: State = field(default_factory=dict)
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

    def proof(self) -> Proof:
        """The pipeline has finished more batches when it dies; its checkpoint says what it said before."""
        clock.pause(self.fault.restore_after_s)
        try:
            clock.wait_until(self._has_moved_on, within_s=_BATCH_WITHIN_S, reason="a batch after the copy")
        except DeadlineError as error:
            return Proof(bit=False, facts={"copied": self.copied, "problem": str(error)})
        if self.healed:
            return Proof(bit=False, facts={"problem": "the run ended before the copy was put back"})
        pids = self.pipeline.crash()
        before = newest(self.checkpoint)
        shutil.rmtree(self.checkpoint)
        shutil.copytree(self._copy, self.checkpoint)
        after = newest(self.checkpoint)
        return Proof(bool(pids) and after == self.copied, _facts(pids, before, self.checkpoint, {"what": "older_copy"}))

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
class CrashedBeforeCommit:
    """A driver that was frozen in the middle of a batch, and killed once its tasks had committed without it.

    ::

        offsets/N written ── all tasks started ──▶ frozen ── last task commits ──▶ killed      commits/N is never written

    A task that has just started still fetches its code from the driver: frozen too early, it does not end.
    """

    target: str
    hold_s: float
    checkpoint: Path
    scene: Scene
    pipeline: PipelineUnderTest
    app: SparkApp
    frozen: bool = False
    healed: bool = False
    into_s: float = 0.0

    def inject(self) -> None:
        """Freeze it when it has started all tasks of a batch; the more often that was too early, the later."""
        clock.wait_until(self._freezes, within_s=_BATCH_WITHIN_S, reason="a batch whose tasks have all started", every_s=0.002)

    def proof(self) -> Proof:
        """All that is planned is committed in the sink, the checkpoint does not say so, and the driver is gone."""
        for tries in range(1, _TRIES + 1):
            if self._tasks_commit():
                return self._killed(tries)
            self._resume()
            self.into_s += _LATER_S
            if self.healed:
                return Proof(bit=False, facts={"problem": "the run ended before the driver was killed"})
            self.inject()
        return Proof(bit=False, facts={"problem": f"{_TRIES} times the tasks did not end without their driver"})

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
                lambda: self._ends() == self.scene.positions(),
                within_s=_COMMITTED_WITHIN_S,
                reason="the tasks to commit",
                ignore=(KafkaException,),
            )
        except DeadlineError:
            return False
        return True

    def _killed(self, tries: int) -> Proof:
        pids = self.pipeline.crash()
        state = newest(self.checkpoint)
        facts = {"pids": pids, "batch": state[_OFFSETS], "done": state[_COMMITS], "sink_committed": self._ends()}
        return Proof(bool(pids) and _in_batch(self.checkpoint), facts | {"tries": tries})

    def _ends(self) -> Mapping[int, int]:
        batch = newest(self.checkpoint)[_OFFSETS]
        return planned(self.checkpoint / _OFFSETS / str(batch), self.scene.topics["datasource"])


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


def _checkpoint(scene: Scene) -> Path:
    if scene.checkpoint is None or not scene.checkpoint.is_dir():
        raise InjectionError("this pipeline has no checkpoint")
    return scene.checkpoint


_DAMAGES: Mapping[Damage, Callable[[Path], Mapping[str, Any]]] = {
    "commit_deleted": _delete_commit,
    "offsets_torn": _tear_offsets,
    "lost": _lose,
}
CATALOGUE: Mapping[type, Prepare] = {
    CrashBeforeCommit: prepare_crash,
    DamageCheckpoint: prepare_damage,
}
