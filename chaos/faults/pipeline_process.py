"""Faults of the pipeline itself: its process dies and comes back, freezes, or wakes up as a zombie beside its successor."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

import psutil
from pydantic import Field

from chaos.common import clock, process_trees
from chaos.faults.base import (
    FaultBase,
    FaultContext,
    Injection,
    PipelineUnderTest,
    Proof,
)
from chaos.grammar.units import Seconds, SomeSeconds, spoken_seconds
from chaos.runtime.capabilities import Capability

_STOPS_WITHIN_S = 5.0
_FENCED_WITHIN_S = 30.0


class CrashPipeline(FaultBase):
    """The pipeline's process dies by SIGKILL (the driver, where it runs on Spark), and is started again."""

    needs = frozenset({Capability.PIPELINE})
    provokes = "a restart from what was committed: replayed batches, transactions left open"
    proved_by = "none of its processes is alive"
    kind: Literal["crash_pipeline"]
    restart_after_s: Seconds = Field(alias="restart_after", default=1.0)

    def describe(self) -> str:
        return f"crash_pipeline, restarted after {spoken_seconds(self.restart_after_s)}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        return CrashedPipeline("the pipeline", self.restart_after_s, context.pipeline())


class PausePipeline(FaultBase):
    """The pipeline's processes are frozen by SIGSTOP, past its session and transaction timeouts or not, and wake up again."""

    needs = frozenset({Capability.PIPELINE})
    provokes = "a member that misses its session or transaction timeout and wakes up (KIP-447)"
    proved_by = "all of its processes are stopped"
    kind: Literal["pause_pipeline"]
    for_s: SomeSeconds = Field(alias="for")

    def describe(self) -> str:
        return f"pause_pipeline for {spoken_seconds(self.for_s)}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        return PausedPipeline("the pipeline", self.for_s, context.pipeline())


class ZombiePipeline(FaultBase):
    """The pipeline is frozen, a second instance with the same names takes over, and the first wakes up as a zombie."""

    needs = frozenset({Capability.PIPELINE})
    provokes = "an instance that works on although another one has taken over (KIP-447, transactional.id fencing)"
    proved_by = "the first instance is stopped, the second one runs"
    kind: Literal["zombie_pipeline"]
    for_s: SomeSeconds = Field(alias="for")

    def describe(self) -> str:
        return f"zombie_pipeline, woken up after {spoken_seconds(self.for_s)}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        return Zombie("the pipeline", self.for_s, context.pipeline())


@dataclass(slots=True)
class CrashedPipeline(Injection):
    """A pipeline that was killed with all its processes, and is started again at the heal."""

    pipeline: PipelineUnderTest
    pids: Mapping[str, int] = field(default_factory=dict)

    def inject(self) -> None:
        """Kill it: nothing is committed, and its group is not left."""
        self.pids = self.pipeline.crash()

    def proof(self) -> Proof:
        """None of its processes is there any more."""
        alive = [name for name, pid in self.pids.items() if psutil.pid_exists(pid)]
        return Proof(bool(self.pids) and not alive, {"pids": self.pids} | ({"alive": alive} if alive else {}))

    def heal(self) -> None:
        """Start it again."""
        self.pipeline.restart()


@dataclass(slots=True)
class PausedPipeline(Injection):
    """A pipeline whose processes stand still; its connections stay open, its sessions run out."""

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
class Zombie(Injection):
    """A frozen pipeline whose work a second instance does; it wakes up at the heal and must be fenced."""

    pipeline: PipelineUnderTest
    pids: Mapping[str, int] = field(default_factory=dict)
    taken_over: bool = False

    def inject(self) -> None:
        """Freeze it."""
        self.pids = self.pipeline.pause()

    def complete(self) -> None:
        """Start the second instance, once the first stands still."""
        _stopped(self.pids)
        self.pipeline.take_over()
        self.taken_over = True

    def proof(self) -> Proof:
        """The first is stopped, the second runs."""
        return _stopped(self.pids)

    def heal(self) -> Mapping[str, Any]:
        """Wake it up, and wait until it knows that it is a zombie.

        Raises:
            DeadlineError: it was not fenced.
        """
        self.pipeline.resume()
        if not self.taken_over:
            return {}
        clock.wait_until(self.pipeline.fenced, within_s=_FENCED_WITHIN_S, reason="the zombie to be fenced", every_s=0.1)
        return {"fenced": list(self.pids)}


def _stopped(pids: Mapping[str, int]) -> Proof:
    """Wait until all stand still; a child that had just ended stays a zombie while its parent is stopped, and is left out."""

    def states() -> Mapping[str, str]:
        return {name: state for name, pid in pids.items() if (state := process_trees.state(pid)) not in process_trees.ENDED}

    def all_stopped() -> bool:
        return not pids or set(states().values()) == {psutil.STATUS_STOPPED}

    clock.wait_until(all_stopped, within_s=_STOPS_WITHIN_S, reason="the pipeline to stand still", seen=states)
    return Proof(bool(pids), {"pids": {name: pids[name] for name in states()}})
