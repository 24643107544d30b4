"""Faults of the pipeline itself: its process dies and comes back, freezes, or wakes up as a zombie beside its successor."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import psutil

from chaos.common import clock, process_trees
from chaos.faults.base import Injection, PipelineUnderTest, Prepare, Proof, Scene
from chaos.faults.declared.client import CrashPipeline, PausePipeline, ZombiePipeline

_STOPS_WITHIN_S = 5.0
_FENCED_WITHIN_S = 30.0


def prepare_crash(fault: CrashPipeline, scene: Scene, _rng: Random) -> Injection:
    """Aim a `CrashPipeline`."""
    return CrashedPipeline("the pipeline", fault.restart_after_s, scene.pipeline())


def prepare_pause(fault: PausePipeline, scene: Scene, _rng: Random) -> Injection:
    """Aim a `PausePipeline`."""
    return PausedPipeline("the pipeline", fault.for_s, scene.pipeline())


def prepare_zombie(fault: ZombiePipeline, scene: Scene, _rng: Random) -> Injection:
    """Aim a `ZombiePipeline`."""
    return Zombie("the pipeline", fault.for_s, scene.pipeline())


@dataclass(slots=True)
class CrashedPipeline:
    """A pipeline that was killed with all its processes, and is started again at the heal."""

    target: str
    hold_s: float
    pipeline: PipelineUnderTest
    pids: Mapping[str, int] = field(default_factory=dict)

    def inject(self) -> None:
        """Kill it: no last words, no commit, no leave of its group."""
        self.pids = self.pipeline.crash()

    def proof(self) -> Proof:
        """None of its processes is there any more."""
        alive = [name for name, pid in self.pids.items() if psutil.pid_exists(pid)]
        return Proof(bool(self.pids) and not alive, {"pids": self.pids} | ({"alive": alive} if alive else {}))

    def heal(self) -> None:
        """Start it again."""
        self.pipeline.restart()


@dataclass(slots=True)
class PausedPipeline:
    """A pipeline whose processes stand still; its connections stay open, its sessions run out."""

    target: str
    hold_s: float
    pipeline: PipelineUnderTest
    pids: Mapping[str, int] = field(default_factory=dict)

    def inject(self) -> None:
        """Freeze it."""
        self.pids = self.pipeline.pause()

    def proof(self) -> Proof:
        """All of its processes are stopped."""
        return _stopped(self.pids)

    def heal(self) -> None:
        """Let it run on."""
        self.pipeline.resume()


@dataclass(slots=True)
class Zombie:
    """A frozen pipeline whose work a second instance does; it wakes up at the heal and must be fenced."""

    target: str
    hold_s: float
    pipeline: PipelineUnderTest
    pids: Mapping[str, int] = field(default_factory=dict)
    taken_over: bool = False

    def inject(self) -> None:
        """Freeze it; the frame that the trigger holds is let go then, so the second instance starts in `proof`."""
        self.pids = self.pipeline.pause()

    def proof(self) -> Proof:
        """The first is stopped, the second runs."""
        stopped = _stopped(self.pids)
        self.pipeline.take_over()
        self.taken_over = True
        return stopped

    def heal(self) -> Mapping[str, Any]:
        """Wake it up, and wait until it knows that it is a zombie.

        Raises:
            DeadlineError: nobody told it.
        """
        self.pipeline.resume()
        if not self.taken_over:
            return {}
        clock.wait_until(self.pipeline.fenced, within_s=_FENCED_WITHIN_S, reason="the zombie to be fenced", every_s=0.1)
        return {"fenced": list(self.pids)}


def _stopped(pids: Mapping[str, int]) -> Proof:
    """What had just ended when its parent was stopped stays a zombie for so long: it is none that could go on."""

    def states() -> Mapping[str, str]:
        return {name: state for name, pid in pids.items() if (state := process_trees.state(pid)) not in process_trees.ENDED}

    def all_stopped() -> bool:
        return not pids or set(states().values()) == {psutil.STATUS_STOPPED}

    clock.wait_until(all_stopped, within_s=_STOPS_WITHIN_S, reason="the pipeline to stand still", seen=states)
    return Proof(bool(pids), {"pids": {name: pids[name] for name in states()}})


CATALOGUE: Mapping[type, Prepare] = {
    CrashPipeline: prepare_crash,
    PausePipeline: prepare_pause,
    ZombiePipeline: prepare_zombie,
}
