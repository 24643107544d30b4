"""Faults of the pipeline itself: its process dies and comes back, as under any supervisor."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

import psutil

from chaos.faults.base import Crashable, Injection, Proof, Scene
from chaos.scenario.faults import CrashPipeline


def prepare_crash(fault: CrashPipeline, scene: Scene, _rng: Random) -> Injection:
    """Aim a `CrashPipeline`."""
    return CrashedPipeline("the pipeline", fault.restart_after_s, scene.pipeline())


@dataclass(slots=True)
class CrashedPipeline:
    """A pipeline that was killed with all its processes, and is started again at the heal."""

    target: str
    hold_s: float
    pipeline: Crashable
    pids: Mapping[str, int] = field(default_factory=dict)

    def inject(self) -> None:
        """Kill it: no last words, no commit, no leave of its group."""
        self.pids = self.pipeline.crash()

    def proof(self) -> Proof:
        """None of its processes is there any more."""
        alive = [name for name, pid in self.pids.items() if psutil.pid_exists(pid)]
        return Proof(bool(self.pids) and not alive, {"pids": self.pids, "alive": alive} if alive else {"pids": self.pids})

    def heal(self) -> None:
        """Start it again."""
        self.pipeline.restart()
