"""Faults of the pipeline itself: it dies or gets SIGTERM, freezes, is scaled out and in, or wakes up beside its successor."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Annotated, Any, Literal

import psutil
from confluent_kafka import KafkaException
from pydantic import Field

from chaos.common import clock, processes
from chaos.common.errors import InjectionError
from chaos.faults.base import FaultBase, FaultContext, Injection, PipelineUnderTest, Proof, RestartedFault, TimedFault, unmet
from chaos.grammar.units import spoken_seconds
from chaos.runtime.capabilities import Capability

_STOPS_WITHIN_S = 5.0
_ENDS_WITHIN_S = 20.0  # its supervisor waits for five seconds before it kills
_STABLE_WITHIN_S = 30.0
_JOINS_WITHIN_S = 120.0
_NOT_YET = (KafkaException,)
_FENCED_WITHIN_S = 180.0  # its clients find out when they send a request again


@dataclass(slots=True)
class PipelineInjection(Injection):
    """A fault of the processes of the pipeline.

    Attributes:
        pids: those of the killed or frozen processes.
    """

    pipeline: PipelineUnderTest
    pids: Mapping[str, int] = field(default_factory=dict)

    def wait_until_stopped(self) -> Proof:
        """Return when all of its processes are stopped.

        A child that had just ended stays a zombie while its parent is stopped, and is left out.

        Raises:
            DeadlineError: a process does not stop.
        """

        def states() -> Mapping[str, str]:
            found = {name: processes.state(pid) for name, pid in self.pids.items()}
            return {name: state for name, state in found.items() if state not in processes.ENDED}

        def all_stopped() -> bool:
            return not self.pids or set(states().values()) == {psutil.STATUS_STOPPED}

        clock.wait_until(all_stopped, within_s=_STOPS_WITHIN_S, reason="the pipeline to stand still", seen=states)
        return Proof(bool(self.pids), {"pids": {name: self.pids[name] for name in states()}})


class CrashPipeline(RestartedFault):
    """The pipeline's process (on Spark: the driver) is killed with SIGKILL, and started again."""

    needs = frozenset({Capability.PIPELINE})
    provokes = "a restart from the committed positions: replayed batches, transactions left open"
    proved_by = "none of its processes is alive"
    kind: Literal["crash_pipeline"]

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        return CrashedPipeline("the pipeline", self.restart_after_s, context.pipeline())


@dataclass(slots=True)
class CrashedPipeline(PipelineInjection):
    def inject(self) -> None:
        """Kill it: it commits nothing more, and does not leave its group."""
        self.pids = self.pipeline.crash()

    def proof(self) -> Proof:
        alive = processes.living(self.pids)
        return Proof(bool(self.pids) and not alive, {"pids": self.pids} | ({"alive": alive} if alive else {}))

    def heal(self) -> None:
        self.pipeline.restart()


class CrashProcess(FaultBase):
    """One of the processes that the pipeline has started is killed with SIGKILL; the others go on.

    Only the pipeline itself, or its framework, may start it again: a TaskManager of Flink, a worker of a pool.
    """

    needs = frozenset({Capability.PIPELINE})
    provokes = "a part of a program that dies while the rest goes on: failover from a checkpoint, tasks given to others"
    proved_by = "the process is gone"
    kind: Literal["crash_process"]
    process: Annotated[str, Field(min_length=1)]
    """a text in its command line. If several processes have it, the seed chooses one of them; the shell that started one does
    not count.
    """

    def describe(self) -> str:
        return f"crash a process of the pipeline with {self.process!r} in its command line"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        pipeline = context.pipeline()
        found = pipeline.running(self.process)
        if not found:
            there = ", ".join(pipeline.running("")) or "none"
            raise InjectionError(f"no process of the pipeline has {self.process!r} in its command line; it has: {there}")
        chosen = rng.choice(sorted(found))
        return CrashedProcess(f"{chosen} ({self.process})", 0.0, pipeline, {chosen: found[chosen]})


@dataclass(slots=True)
class CrashedProcess(PipelineInjection):
    def inject(self) -> None:
        """Kill it, and wait until it is gone; if it has ended meanwhile, the proof reports that it was not killed."""
        found = {name: psutil.Process(pid) for name, pid in self.pids.items() if psutil.pid_exists(pid)}
        self.pids = processes.pids(found)
        processes.kill(found)

    def proof(self) -> Proof:
        alive = processes.living(self.pids)
        return Proof(bool(self.pids) and not alive, {"pids": self.pids} | ({"alive": alive} if alive else {}))

    def heal(self) -> None:
        """Do nothing: the pipeline starts it again, or goes on without it."""


class TerminatePipeline(RestartedFault):
    """The pipeline gets SIGTERM, as in every deployment, and is started again once it has ended."""

    needs = frozenset({Capability.PIPELINE})
    provokes = "an end in the middle of work: an open transaction must be aborted or committed, and the group left"
    proved_by = "it has ended, and by itself: none of its processes had to be killed"
    kind: Literal["terminate_pipeline"]

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        return TerminatedPipeline("the pipeline", self.restart_after_s, context.pipeline())


@dataclass(slots=True)
class TerminatedPipeline(PipelineInjection):
    def inject(self) -> None:
        """Send SIGTERM, and return at once."""
        self.pids = self.pipeline.terminate()

    def proof(self) -> Proof:
        """Show that it ended by itself: a pipeline that had to be killed was crashed, which is another fault."""
        missing = unmet(self.pipeline.has_ended, _ENDS_WITHIN_S, "the pipeline to end")
        resisted = "" if missing else self.pipeline.resisted()
        problem = {"problem": f"the pipeline does not end after SIGTERM: {resisted}"} if resisted else {}
        return Proof(bool(self.pids) and not missing and not resisted, {"pids": self.pids, **missing, **problem})

    def heal(self) -> None:
        self.pipeline.restart()


class PausePipeline(TimedFault):
    """The pipeline's processes are frozen by SIGSTOP, perhaps for longer than its timeouts allow, and run on afterwards."""

    needs = frozenset({Capability.PIPELINE})
    provokes = "a member that misses its session or transaction timeout and wakes up (KIP-447)"
    proved_by = "all of its processes are stopped, and when they run on, the pause was longer than the timeouts in `outlasts`"
    kind: Literal["pause_pipeline"]
    outlasts: tuple[Literal["session_timeout", "transaction_timeout"], ...] = ()
    """timeouts of the pipeline's declaration that the pause must exceed."""

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        return PausedPipeline("the pipeline", self.for_s, context.pipeline(), timeouts=context.timeouts, outlasts=self.outlasts)


@dataclass(slots=True, kw_only=True)
class PausedPipeline(PipelineInjection):
    """A pipeline that is frozen until the heal.

    Attributes:
        timeouts: those of the pipeline, as in `FaultContext`.
        outlasts: those that the pause must exceed.
        stopped_s: start of its standstill, in monotonic seconds; None before, and again once it goes on.
    """

    timeouts: Mapping[str, float]
    outlasts: Sequence[str] = ()
    stopped_s: float | None = None

    def inject(self) -> None:
        self.pids = self.pipeline.pause()

    def proof(self) -> Proof:
        """Show that all processes are stopped; the heal reports the real length, and compares it with named timeouts."""
        proof = self.wait_until_stopped()
        self.stopped_s = clock.monotonic_s()
        return Proof(proof.effective, {**proof.facts, **self._compared(self.hold_s)})

    def heal(self) -> Mapping[str, Any]:
        self.pipeline.resume()
        if self.stopped_s is None:
            return {}
        paused_s, self.stopped_s = clock.monotonic_s() - self.stopped_s, None
        return {"paused_s": round(paused_s, 1), **self._compared(paused_s), **self._too_short(paused_s)}

    def _too_short(self, paused_s: float) -> Mapping[str, Any]:
        """Describe the problem of a pause that did not exceed a named timeout, e.g. because it ended early."""
        missed = [f"{name} ({self.timeouts[name]:g} s)" for name in self.outlasts if paused_s <= self.timeouts[name]]
        if not missed:
            return {}
        return {"effective": False, "problem": f"the pause lasted {paused_s:.1f} s, no longer than {', '.join(missed)}"}

    def _compared(self, lasts_s: float) -> Mapping[str, Any]:
        """Divide timeouts into shorter and longer ones than this time, in seconds."""
        if not self.timeouts:
            return {}
        outlasts = {name: after_s for name, after_s in self.timeouts.items() if lasts_s > after_s}
        is_within = {name: after_s for name, after_s in self.timeouts.items() if name not in outlasts}
        return {"outlasts": outlasts, "is_within": is_within}


class Scale(FaultBase):
    """So many instances of the pipeline run from now on: further ones are started, or the newest get SIGTERM.

    They stay until the run ends, or another such fault. The placeholder `{instance}` in the words of the pipeline distinguishes
    them; instances with the same `transactional.id` fence each other.
    """

    needs = frozenset({Capability.PIPELINE, Capability.CONSUMER_GROUP, Capability.GROUP_MEMBERS})
    provokes = "a rebalance in the middle of work: partitions change hands while a transaction is open (KIP-447)"
    proved_by = "the needed number of members have joined the group or left it, and it is stable"
    kind: Literal["scale"]
    to: Annotated[int, Field(strict=True, ge=1, le=9)]
    """the number of instances."""

    def describe(self) -> str:
        return f"scale the pipeline to {self.to} instance{'s' if self.to > 1 else ''}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        pipeline, kafka = context.pipeline(), context.system.kafka
        if pipeline.instances == self.to:
            running = f"{self.to} instance{'s' if self.to > 1 else ''}"
            raise InjectionError(f"the pipeline already runs {running}, so there is nothing to scale")
        return Scaled("the pipeline", 0.0, pipeline, to=self.to, members=lambda: kafka.members(context.group))


@dataclass(slots=True, kw_only=True)
class Scaled(PipelineInjection):
    """A pipeline with another number of instances.

    Attributes:
        members: returns the number of members of its group; 0 while they join or leave.
        due: the number that there must be.
    """

    to: int
    members: Callable[[], int]
    before: int = 0
    due: int = 0

    def inject(self) -> None:
        """Start instances, or send them SIGTERM: they join or leave later."""
        self.before = self._members("the group to be stable before it is scaled")
        self.due = self.before + self.to - self.pipeline.instances
        self.pids = self.pipeline.scale(self.to)

    def complete(self) -> None:
        self.pipeline.wait_until_scaled()

    def proof(self) -> Proof:
        """Show that the group is stable with the due members, or fewer: dead members may have been counted before."""
        facts = {"pids": self.pids, "members_before": self.before}
        reason = f"the group to be stable with {self.due} members"
        missing = unmet(self._have_changed, _JOINS_WITHIN_S, reason, every_s=0.2, ignore=_NOT_YET, seen=self._seen)
        return Proof(bool(self.pids) and not missing, {**facts, **(missing or {"members": self.due})})

    def _have_changed(self) -> bool:
        found = self.members()
        return found >= self.due if self.due > self.before else 0 < found <= self.due

    def _members(self, reason: str) -> int:
        return clock.wait_until(self.members, within_s=_STABLE_WITHIN_S, reason=reason, every_s=0.1, ignore=_NOT_YET)

    def _seen(self) -> str:
        try:
            return f"{self.members()} members"
        except KafkaException as error:
            return f"unknown: {error}"


class ZombiePipeline(TimedFault):
    """The pipeline is frozen, a second instance with the same names takes over, and the first wakes up as a zombie."""

    needs = frozenset({Capability.PIPELINE})
    provokes = "an instance that works on although another one has taken over: it must be fenced (KIP-98, KIP-447)"
    proved_by = "the first instance is stopped and the second one runs; when both are awake, one logs that it was fenced"
    kind: Literal["zombie_pipeline"]

    def describe(self) -> str:
        return f"zombie_pipeline, woken up after {spoken_seconds(self.for_s)}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        return Zombie("the pipeline", self.for_s, context.pipeline())


@dataclass(slots=True)
class Zombie(PipelineInjection):
    taken_over: bool = False

    def inject(self) -> None:
        self.pids = self.pipeline.pause()

    def complete(self) -> None:
        self.wait_until_stopped()
        self.pipeline.take_over()
        self.taken_over = True

    def proof(self) -> Proof:
        """Show that the first one is stopped; `complete` returned when the second one ran."""
        return self.wait_until_stopped()

    def heal(self) -> Mapping[str, Any]:
        """Wake it up, and return when one of the two was fenced; an end for another reason makes the fault ineffective."""
        self.pipeline.resume()
        if not self.taken_over:
            return {}
        clock.wait_until(
            lambda: self.pipeline.fenced() or self.pipeline.zombie_ended(),
            within_s=_FENCED_WITHIN_S,
            reason="one of the two instances to be fenced",
            every_s=0.1,
        )
        ended = self.pipeline.zombie_ended()  # first: once it has ended, its log has any line about fencing
        for name, said in self.pipeline.fenced().items():
            return {"fenced": name, "said": said}
        return {"effective": False, "problem": f"the zombie was not fenced: {ended}"}
