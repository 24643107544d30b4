"""Faults of broker processes.

kill       no flush, no leadership handed over
terminate  a controlled shutdown: leadership handed over, logs flushed, a mark in each log directory that it was clean
pause      frozen; the broker is a zombie when it wakes up
rolling    one broker after the other; the next one ends when every replica is in sync again
chase      the broker that has a role is killed, then the one that took over; one broker is down at a time

One broker down at a time leaves min ISR 2 of 3 intact.
"""

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random
from threading import Event
from typing import Annotated, Any, Literal, Self

import psutil
from pydantic import Field, model_validator

from chaos.cluster import broker_disk, protocol
from chaos.cluster.kafka import Kafka
from chaos.cluster.system import System
from chaos.common import clock, processes
from chaos.common.errors import InjectionError
from chaos.faults.base import (
    BackgroundSteps,
    BrokerFault,
    FaultBase,
    FaultContext,
    Injection,
    Proof,
    RestartedBrokerFault,
    RestartedFault,
    TimedFault,
    already_down,
    unmet,
    wait_unless_stopped,
)
from chaos.faults.hooks import HookedBrokers
from chaos.faults.targets import broker_names, in_words, resolve_brokers
from chaos.grammar.base import WrongValueError
from chaos.grammar.targets import Broker, BrokerTarget
from chaos.grammar.units import Seconds, spoken_seconds
from chaos.runtime.base import Process
from chaos.runtime.capabilities import Capability

SIGKILLED = -9
TERMINATED = 143  # the exit code of a JVM that got SIGTERM
_SERVES_WITHIN_S = 180.0  # seconds on a quiet machine
_ENDS_WITHIN_S = 30.0
_STOPS_WITHIN_S = 5.0
_SILENT_S = 0.5
_TAKEN_OVER_WITHIN_S = 30.0
_IN_SYNC_WITHIN_S = 180.0
_TURN_WITHIN_S = 240.0  # for one broker to end, start and be in sync


@dataclass(slots=True)
class BrokerInjection(Injection):
    system: System
    broker_ids: list[int]

    @property
    def processes(self) -> list[Process]:
        """Processes in the order of the ids."""
        return [self.system.kafka.brokers.processes[broker] for broker in self.broker_ids]

    def names_where(self, holds: Callable[[int], bool]) -> list[str]:
        """Names of the brokers whose id fulfils a condition."""
        return broker_names(filter(holds, self.broker_ids))

    def refuses(self, broker: int) -> bool:
        """Whether a broker refuses connections."""
        return protocol.refused(self.system.kafka.address(broker))

    def silent(self, broker: int, within_s: float) -> bool:
        """Whether a broker does not answer a ping."""
        return not protocol.answers(self.system.kafka.address(broker), within_s=within_s)


@dataclass(slots=True)
class RestartedBrokers(BrokerInjection):
    def heal(self) -> None:
        """Start the brokers that do not run, and return when all serve."""
        start_again(self.system, self.broker_ids)


class KillBroker(RestartedBrokerFault):
    """Brokers are killed with SIGKILL, and started again."""

    needs = frozenset({Capability.KILL_BROKERS})
    provokes = "a new leader, coordinator or controller without a controlled shutdown; retries of unanswered requests (KIP-98)"
    proved_by = "the exit code of SIGKILL, the process is gone, connections are refused"
    kind: Literal["kill_broker"]

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        broker_ids, target = resolve_running(self.target, context, rng)
        if context.system.hooks:
            return HookedBrokers(target, self.restart_after_s, context.system, broker_ids, ("kill", "start"))
        return KilledBrokers(target, self.restart_after_s, context.system, broker_ids)


@dataclass(slots=True)
class KilledBrokers(RestartedBrokers):
    pids: dict[str, int] = field(default_factory=dict)

    def inject(self) -> None:
        self.pids = {process.spec.name: process.pid for process in self.processes}
        for process in self.processes:
            process.kill()

    def proof(self) -> Proof:
        exits = exit_codes(self.processes)
        gone = not processes.living(self.pids)
        refused = self.names_where(self.refuses)
        effective = gone and len(refused) == len(self.broker_ids) and set(exits.values()) == {SIGKILLED}
        return Proof(effective, {"pids": self.pids, "exit_codes": exits, "refused": refused})


class TerminateBroker(RestartedBrokerFault):
    """Brokers shut down in order (SIGTERM): they hand over leadership, flush and end; then they are started again."""

    provokes = "leadership that is handed over in order, as in a deployment (KIP-631, controlled shutdown)"
    proved_by = "the exit code of SIGTERM, and the mark of a clean shutdown in each log directory"
    kind: Literal["terminate_broker"]

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        broker_ids, target = resolve_running(self.target, context, rng)
        return TerminatedBrokers(target, self.restart_after_s, context.system, broker_ids)

    @model_validator(mode="after")
    def _one_stays(self) -> Self:
        if self.target.role == "all":
            raise WrongValueError(
                "stop-of-all-brokers",
                "the last brokers would wait for minutes for a controller that has ended already; write kind: kill_broker",
            )
        return self


@dataclass(slots=True)
class TerminatedBrokers(RestartedBrokers):
    def inject(self) -> None:
        """Return at once; a controlled shutdown takes a second or two."""
        for process in self.processes:
            terminate(process)

    def proof(self) -> Proof:
        missing = wait_for_end(self.processes, _ENDS_WITHIN_S)
        exits = exit_codes(self.processes)
        clean = self.names_where(lambda broker: broker_disk.was_clean(self.system.kafka.brokers.data(broker)))
        effective = set(exits.values()) == {TERMINATED} and len(clean) == len(self.broker_ids)
        return Proof(effective, {"exit_codes": exits, "clean": clean, **missing})

    def heal(self) -> None:
        """Kill a broker that has not ended after its SIGTERM; then start all again."""
        for process in self.processes:
            if process.alive():
                process.stop(_ENDS_WITHIN_S)
        start_again(self.system, self.broker_ids)


class PauseBroker(BrokerFault, TimedFault):
    """Brokers are frozen by SIGSTOP, and wake up as zombies."""

    needs = frozenset({Capability.PAUSE_BROKERS})
    provokes = "fencing: a broker whose session has expired wakes up and believes that it still leads (KIP-631, KIP-841)"
    proved_by = "the process is stopped, and a ping is accepted but not answered"
    kind: Literal["pause_broker"]

    @property
    def down_s(self) -> float:
        return self.for_s

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        broker_ids, target = resolve_running(self.target, context, rng)
        if context.system.hooks:
            return HookedBrokers(target, self.for_s, context.system, broker_ids, ("pause", "resume"))
        return PausedBrokers(target, self.for_s, context.system, broker_ids)


@dataclass(slots=True)
class PausedBrokers(BrokerInjection):
    def inject(self) -> None:
        for process in self.processes:
            process.pause()

    def proof(self) -> Proof:
        missing = unmet(
            lambda: all(process.paused() for process in self.processes), _STOPS_WITHIN_S, "the brokers to be stopped"
        )
        if missing:
            paused = [process.spec.name for process in self.processes if process.paused()]
            return Proof(effective=False, facts={"paused": paused, **missing})
        silent = self.names_where(partial(self.silent, within_s=_SILENT_S))
        return Proof(len(silent) == len(self.broker_ids), {"paused": silent, "unanswered_s": _SILENT_S})

    def heal(self) -> None:
        for process in self.processes:
            process.resume()
        wait_until_serving(self.system, self.broker_ids)


class RollingRestart(FaultBase):
    """The brokers are ended and started again one after the other; each is back in sync before the next one is ended."""

    needs = frozenset({Capability.BROKER_PROCESSES})
    provokes = "every leader and coordinator moves at least once, as in an upgrade"
    proved_by = "the exit code of each broker, and that all replicas were in sync before the next one was ended"
    kind: Literal["rolling_restart"]
    how: Literal["kill", "terminate"] = "terminate"
    """``terminate`` lets each shut down in order (SIGTERM), ``kill`` does not (SIGKILL)."""
    restart_after_s: Seconds = Field(alias="restart_after", default=0.0)
    """how long each broker is down before it is started again."""

    def describe(self) -> str:
        later = f", restarted after {spoken_seconds(self.restart_after_s)}" if self.restart_after_s else ""
        return f"rolling_restart by {self.how}, one broker after the other{later}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        broker_ids = list(context.system.kafka.broker_ids)
        target = ", ".join(broker_names(broker_ids))
        return RestartedInTurn(target, 0.0, context.system, broker_ids, self.how, self.restart_after_s)


@dataclass(slots=True)
class RestartedInTurn(BrokerInjection):
    """All brokers, restarted one after the other from the injection on.

    Attributes:
        turns: the results of the brokers so far.
    """

    how: str
    restart_after_s: float
    turns: list[dict[str, Any]] = field(default_factory=list)
    background: BackgroundSteps = field(init=False)

    def __post_init__(self) -> None:
        self.background = BackgroundSteps(self._restart_in_turn)

    def inject(self) -> None:
        self._end(self.processes[0])
        self.background.begin()

    def proof(self) -> Proof:
        unfinished = self.background.unfinished(_TURN_WITHIN_S * len(self.broker_ids))
        wanted = SIGKILLED if self.how == "kill" else TERMINATED
        ended = [turn["exit_code"] for turn in self.turns]
        return Proof(not unfinished and ended == [wanted] * len(self.broker_ids), {"rounds": self.turns, **unfinished})

    def heal(self) -> None:
        self.background.end()
        start_again(self.system, self.broker_ids)

    def _restart_in_turn(self, stop: Event) -> None:
        for broker in self.broker_ids:
            if stop.is_set():
                return
            process = self.system.kafka.brokers.processes[broker]
            self.turns.append({"broker": f"broker-{broker}", "exit_code": self._end_and_wait(process)})
            self.turns[-1]["in_sync_after_s"] = _bring_back(self.system.kafka, broker, self.restart_after_s, stop)

    def _end_and_wait(self, process: Process) -> int | None:
        self._end(process)
        clock.wait_until(lambda: not process.alive(), within_s=_ENDS_WITHIN_S, reason=f"{process.spec.name} to end")
        return process.exit_code()

    def _end(self, process: Process) -> None:
        """End a process. Idempotent: the first one is ended twice."""
        process.kill() if self.how == "kill" else terminate(process)


class ChaseLeader(RestartedFault, BrokerFault):
    """The leader is killed, then its successor, and so on.

    Each is started again after ``restart_after``, and is in sync before the next one is killed: one broker is down at a time.
    """

    roles = ("leader", "transaction_coordinator", "group_coordinator", "controller")
    provokes = "several elections for one transaction: its coordinator or leader changes while it is decided (KIP-98)"
    proved_by = "the declared number of brokers were killed while they had the role, and each time another one took over"
    kind: Literal["chase_leader"]
    target: Broker
    """the role that the brokers have when they are killed."""
    times: Annotated[int, Field(strict=True, ge=2, le=10)] = 3
    """the number of brokers that are killed, one after the other."""

    def describe(self) -> str:
        return f"chase_leader {self.target}, {self.times} times, {self.restarted}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        def now() -> int:
            return resolve_brokers(self.target, context, rng)[0][0]

        first = now()
        target = in_words(broker_names([first]), self.target)
        return ChasedLeader(target, 0.0, context.system, now, first, self.times, self.restart_after_s)


@dataclass(slots=True)
class ChasedLeader(Injection):
    """The broker that has a role, killed at the injection, and those that take over from it, killed in turn.

    Attributes:
        now: returns the broker that has the role now.
        first: the broker that had it when the target was resolved.
        led: the brokers that took over.
    """

    system: System
    now: Callable[[], int]
    first: int
    times: int
    restart_after_s: float
    killed: list[int] = field(default_factory=list)
    led: list[int] = field(default_factory=list)
    background: BackgroundSteps = field(init=False)

    def __post_init__(self) -> None:
        self.background = BackgroundSteps(self._chase)

    def inject(self) -> None:
        self._kill(self.first)
        self.background.begin()

    def proof(self) -> Proof:
        unfinished = self.background.unfinished(_TURN_WITHIN_S * self.times)
        chased = len(self.killed) == self.times and all(new != old for old, new in zip(self.killed, self.led, strict=False))
        facts = {"killed": broker_names(self.killed), "led_then": broker_names(self.led), **unfinished}
        return Proof(not unfinished and chased, facts)

    def heal(self) -> None:
        self.background.end()
        start_again(self.system, self.system.kafka.broker_ids)

    def _chase(self, stop: Event) -> None:
        while self._taken_over(stop):
            _bring_back(self.system.kafka, self.killed[-1], self.restart_after_s, stop)
            if stop.is_set() or len(self.killed) == self.times:
                return
            self._kill(self.now())

    def _taken_over(self, stop: Event) -> bool:
        def moved() -> bool:
            return self.now() != self.killed[-1]

        if not wait_unless_stopped(moved, stop, _TAKEN_OVER_WITHIN_S, "another broker to take over"):
            return False
        self.led.append(self.now())
        return True

    def _kill(self, broker: int) -> None:
        self.system.kafka.brokers.processes[broker].kill()
        self.killed.append(broker)


def resolve_running(target: BrokerTarget, context: FaultContext, rng: Random) -> tuple[list[int], str]:
    """Resolve brokers like `resolve_brokers`, and refuse one that has ended: faults of processes need a living process.

    Raises:
        InjectionError: one of them does not run.
    """
    broker_ids, words = resolve_brokers(target, context, rng)
    known = context.system.kafka.brokers.processes
    require_running(known[broker] for broker in broker_ids if broker in known)
    return broker_ids, words


def require_running(processes: Iterable[Process]) -> None:
    """Raise `InjectionError` if one has ended: its exit code would prove a fault that had no effect."""
    ended = [process.spec.name for process in processes if not process.alive()]
    if ended:
        raise InjectionError(already_down(ended))


def exit_codes(processes: Iterable[Process]) -> dict[str, int | None]:
    """Return name -> exit code, None for a process that runs."""
    return {process.spec.name: process.exit_code() for process in processes}


def wait_for_end(processes: Collection[Process], within_s: float) -> dict[str, Any]:
    """Wait, like `unmet`, for the end of all of these brokers."""
    return unmet(lambda: not any(process.alive() for process in processes), within_s, "the brokers to end")


def terminate(process: Process) -> None:
    """Send SIGTERM to a process, if it is alive, and do not wait for its end."""
    if process.alive():
        with suppress(psutil.NoSuchProcess):
            psutil.Process(process.pid).terminate()


def start_again(system: System, broker_ids: Iterable[int]) -> None:
    """Start the brokers that do not run, and return when all of them serve."""
    for broker in broker_ids:
        system.kafka.brokers.processes[broker].start()
    wait_until_serving(system, broker_ids)


def wait_until_serving(system: System, broker_ids: Iterable[int]) -> None:
    """Return when all of these brokers answer."""
    for broker in broker_ids:
        answers = partial(protocol.answers, system.kafka.address(broker))
        clock.wait_until(answers, within_s=_SERVES_WITHIN_S, reason=f"broker-{broker} to serve again")


def _bring_back(kafka: Kafka, broker: int, after_s: float, stop: Event) -> float:
    """Start a broker, and return, when all replicas are in sync or `stop` was set, the seconds since the start."""
    clock.pause(after_s, stop)
    began_s = clock.monotonic_s()
    kafka.brokers.processes[broker].start()
    reason = f"all replicas to be in sync with broker-{broker}"
    wait_unless_stopped(lambda: not kafka.unhealthy(), stop, _IN_SYNC_WITHIN_S, reason)
    return round(clock.monotonic_s() - began_s, 1)
