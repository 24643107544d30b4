"""Faults of broker processes.

kill       no flush, no leadership handed over
terminate  a controlled shutdown: leadership handed over, logs flushed, a mark that it was clean
pause      frozen; the broker is a zombie when it wakes up
rolling    one broker after the other; the next one's turn comes when every replica is in sync again
chase      whichever broker has a role is killed, then its successor; one broker is down at a time

One broker down at a time leaves min ISR 2 of 3 intact.
"""

from collections.abc import Callable, Iterable, Mapping
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
from chaos.common import clock
from chaos.common.errors import DeadlineError
from chaos.faults.base import (
    BackgroundSteps,
    BrokerFault,
    FaultBase,
    FaultContext,
    Injection,
    Proof,
    RestartedBrokerFault,
    until,
)
from chaos.faults.hooks import HookedBrokers
from chaos.faults.targets import resolve_brokers
from chaos.grammar.units import Seconds, SomeSeconds, spoken_seconds
from chaos.runtime.base import Process
from chaos.runtime.capabilities import Capability

SIGKILLED = -9
TERMINATED = 143  # what a JVM answers to SIGTERM
_SERVES_WITHIN_S = 30.0
_ENDS_WITHIN_S = 30.0
_STOPS_WITHIN_S = 5.0
_SILENT_S = 0.5
_LED_WITHIN_S = 30.0
_IN_SYNC_WITHIN_S = 60.0
_ROUND_S = 90.0


class KillBroker(RestartedBrokerFault):
    """Brokers die by SIGKILL, and are started again."""

    needs = frozenset({Capability.KILL_BROKERS})
    provokes = (
        "a new leader, coordinator or controller without a controlled shutdown; retries of what was not answered (KIP-98)"
    )
    proved_by = "the exit code of SIGKILL, the process is gone, connections are refused"
    kind: Literal["kill_broker"]

    def describe(self) -> str:
        return f"kill_broker {self.target}, {self.restarted}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        broker_ids, target = resolve_brokers(self.target, context, rng)
        if context.system.hooks:
            return HookedBrokers(target, self.restart_after_s, context.system, broker_ids, ("kill", "start"))
        return KilledBrokers(target, self.restart_after_s, context.system, broker_ids)


class PauseBroker(BrokerFault):
    """Brokers are frozen by SIGSTOP, and wake up as zombies."""

    needs = frozenset({Capability.PAUSE_BROKERS})
    provokes = "fencing: a broker that missed its session wakes up and believes that it still leads (KIP-631, KIP-841)"
    proved_by = "the process is stopped, and a ping is accepted but not answered"
    kind: Literal["pause_broker"]
    for_s: SomeSeconds = Field(alias="for")

    @property
    def down_s(self) -> float:
        return self.for_s

    def describe(self) -> str:
        return f"pause_broker {self.target} for {spoken_seconds(self.for_s)}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        broker_ids, target = resolve_brokers(self.target, context, rng)
        if context.system.hooks:
            return HookedBrokers(target, self.for_s, context.system, broker_ids, ("pause", "resume"))
        return PausedBrokers(target, self.for_s, context.system, broker_ids)


class TerminateBroker(RestartedBrokerFault):
    """Brokers are asked to end (SIGTERM): they hand over what they lead, flush and leave; then they are started again."""

    provokes = "leadership that is handed over in order, as in a deployment (KIP-631, controlled shutdown)"
    proved_by = "the exit code of SIGTERM, and the mark of a clean shutdown in each log directory"
    kind: Literal["terminate_broker"]

    def describe(self) -> str:
        return f"terminate_broker {self.target}, {self.restarted}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        broker_ids, target = resolve_brokers(self.target, context, rng)
        return TerminatedBrokers(target, self.restart_after_s, context.system, broker_ids)

    @model_validator(mode="after")
    def _one_stays(self) -> Self:
        if self.target.role == "all":
            raise ValueError(
                "the last brokers would wait for minutes for a controller that has ended already; write kind: kill_broker"
            )
        return self


@dataclass(slots=True)
class BrokerInjection(Injection):
    """A fault of some brokers."""

    system: System
    broker_ids: list[int]

    @property
    def processes(self) -> list[Process]:
        """Theirs, in the same order."""
        return [self.system.kafka.processes[broker] for broker in self.broker_ids]


@dataclass(slots=True)
class RestartedBrokers(BrokerInjection):
    """Brokers that end, and are started again at the heal."""

    def exit_codes(self) -> dict[str, int | None]:
        """Name -> exit code, None for one that runs."""
        return {process.spec.name: process.exit_code() for process in self.processes}

    def await_end(self, within_s: float) -> None:
        """Wait for all to end, for so long at most: the exit codes say which did not."""
        with suppress(DeadlineError):
            clock.wait_until(
                lambda: not any(process.alive() for process in self.processes),
                within_s=within_s,
                reason="the brokers to end",
            )

    def heal(self) -> Mapping[str, Any] | None:
        """Start those that do not run, and return when all serve."""
        start_again(self.system, self.broker_ids)
        return None


@dataclass(slots=True)
class KilledBrokers(RestartedBrokers):
    """Brokers that were ended by SIGKILL."""

    pids: dict[str, int] = field(default_factory=dict)

    def inject(self) -> None:
        """Kill them, all at once."""
        self.pids = {process.spec.name: process.pid for process in self.processes}
        for process in self.processes:
            process.kill()

    def proof(self) -> Proof:
        exits = self.exit_codes()
        gone = not any(psutil.pid_exists(pid) for pid in self.pids.values())
        refused = [f"broker-{broker}" for broker in self.broker_ids if protocol.refused(self.system.kafka.address(broker))]
        effective = gone and len(refused) == len(self.broker_ids) and set(exits.values()) == {SIGKILLED}
        return Proof(effective, {"pids": self.pids, "exit_codes": exits, "refused": refused})


@dataclass(slots=True)
class TerminatedBrokers(RestartedBrokers):
    """Brokers that were asked to end."""

    def inject(self) -> None:
        """Ask them; a controlled shutdown takes a second or two."""
        for process in self.processes:
            terminate(process)

    def proof(self) -> Proof:
        self.await_end(_ENDS_WITHIN_S)
        exits = self.exit_codes()
        clean = [f"broker-{broker}" for broker in self.broker_ids if broker_disk.was_clean(self.system.kafka.data(broker))]
        effective = set(exits.values()) == {TERMINATED} and len(clean) == len(self.broker_ids)
        return Proof(effective, {"exit_codes": exits, "clean": clean})

    def heal(self) -> None:
        """Also end a broker that was asked to and has not ended; then start all again."""
        for process in self.processes:
            if process.alive():
                process.stop(_ENDS_WITHIN_S)
        start_again(self.system, self.broker_ids)


@dataclass(slots=True)
class PausedBrokers(BrokerInjection):
    """Brokers stopped by SIGSTOP: their connections stay open, their sessions run out, and they wake up as zombies."""

    def inject(self) -> None:
        """Freeze them."""
        for process in self.processes:
            process.pause()

    def proof(self) -> Proof:
        try:
            clock.wait_until(self._all_paused, within_s=_STOPS_WITHIN_S, reason="the brokers to stop")
        except DeadlineError:
            return Proof(
                effective=False, facts={"paused": [process.spec.name for process in self.processes if process.paused()]}
            )
        addresses = {f"broker-{broker}": self.system.kafka.address(broker) for broker in self.broker_ids}
        silent = [name for name, address in addresses.items() if not protocol.answers(address, within_s=_SILENT_S)]
        return Proof(len(silent) == len(self.broker_ids), {"paused": silent, "unanswered_s": _SILENT_S})

    def heal(self) -> None:
        """Let them run on, and return when they serve."""
        for process in self.processes:
            process.resume()
        wait_until_serving(self.system, self.broker_ids)

    def _all_paused(self) -> bool:
        return all(process.paused() for process in self.processes)


def terminate(process: Process) -> None:
    """SIGTERM, without waiting for the end; nothing to do for one that is gone."""
    if process.alive():
        with suppress(psutil.NoSuchProcess):
            psutil.Process(process.pid).terminate()


def start_again(system: System, broker_ids: Iterable[int]) -> None:
    """Start those brokers that do not run, and return when all of these serve."""
    for number in broker_ids:
        system.kafka.processes[number].start()
    wait_until_serving(system, broker_ids)


def wait_until_serving(system: System, broker_ids: Iterable[int]) -> None:
    """Return when all of these answer."""
    for number in broker_ids:
        address = system.kafka.address(number)
        clock.wait_until(
            partial(protocol.answers, address), within_s=_SERVES_WITHIN_S, reason=f"broker-{number} to serve again"
        )


class RollingRestart(FaultBase):
    """One broker after the other is ended and started; each is back in sync before the next one's turn."""

    needs = frozenset({Capability.BROKER_PROCESSES})
    provokes = "every leader and coordinator moves at least once, as in an upgrade"
    proved_by = "the exit code of each broker, and that all replicas were in sync before the next one ended"
    kind: Literal["rolling_restart"]
    how: Literal["kill", "terminate"] = "terminate"
    restart_after_s: Seconds = Field(alias="restart_after", default=0.0)

    def describe(self) -> str:
        later = f", restarted after {spoken_seconds(self.restart_after_s)}" if self.restart_after_s else ""
        return f"rolling_restart by {self.how}, one broker after the other{later}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        broker_ids = list(context.system.kafka.numbers)
        target = ", ".join(names(broker_ids))
        return RollingRestarts(target, 0.0, context.system, broker_ids, self.how, self.restart_after_s)


class ChaseLeader(BrokerFault):
    """The leader is killed, then the broker that took over from it, and so on.

    Each victim is started after ``restart_after``, and is back in sync before its successor dies: one broker is down at a time.
    """

    roles = ("leader", "transaction_coordinator", "group_coordinator", "controller")
    provokes = "several elections for one transaction: its coordinator or leader changes while it is decided (KIP-98)"
    proved_by = "so many brokers were killed while they had the role, and each time another took over"
    kind: Literal["chase_leader"]
    times: Annotated[int, Field(strict=True, ge=2, le=10)] = 3
    restart_after_s: Seconds = Field(alias="restart_after", default=1.0)

    def describe(self) -> str:
        return f"chase_leader {self.target}, {self.times} times, restarted after {spoken_seconds(self.restart_after_s)}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        def now() -> int:
            return resolve_brokers(self.target, context, rng)[0][0]

        first = now()
        target = f"broker-{first} ({self.target})"
        return ChasedLeader(target, 0.0, context.system, now, first, self.times, self.restart_after_s)


@dataclass(slots=True)
class RollingRestarts(Injection):
    """All brokers, one after the other."""

    system: System
    broker_ids: list[int]
    how: str
    restart_after_s: float
    rounds: list[dict[str, Any]] = field(default_factory=list)
    background: BackgroundSteps = field(init=False)

    def __post_init__(self) -> None:
        self.background = BackgroundSteps(self._roll)

    def inject(self) -> None:
        """End the first one, and go on from there."""
        self._end(self.broker_ids[0])
        self.background.begin()

    def proof(self) -> Proof:
        """Each has ended as it was told to, runs again, and all were in sync before the next."""
        missing = self.background.missing(_ROUND_S * len(self.broker_ids))
        wanted = SIGKILLED if self.how == "kill" else TERMINATED
        ended = [turn["exit_code"] for turn in self.rounds]
        return Proof(not missing and ended == [wanted] * len(self.broker_ids), {"rounds": self.rounds, **missing})

    def heal(self) -> None:
        """Go no further; start those that do not run, and return when they serve."""
        self.background.end()
        start_again(self.system, self.broker_ids)

    def _roll(self, stop: Event) -> None:
        for number in self.broker_ids:
            if stop.is_set():
                return
            self.rounds.append({"broker": f"broker-{number}", "exit_code": self._end_and_wait(number)})
            took_s = _back(self.system.kafka, number, self.restart_after_s, stop)
            self.rounds[-1]["in_sync_after_s"] = took_s

    def _end(self, number: int) -> None:
        """Idempotent, so the first one may be ended twice."""
        process = self._process(number)
        process.kill() if self.how == "kill" else terminate(process)

    def _end_and_wait(self, number: int) -> int | None:
        process = self._process(number)
        self._end(number)
        clock.wait_until(lambda: not process.alive(), within_s=_ENDS_WITHIN_S, reason=f"broker-{number} to end")
        return process.exit_code()

    def _process(self, number: int) -> Process:
        return self.system.kafka.processes[number]


@dataclass(slots=True)
class ChasedLeader(Injection):
    """The broker that has a role is killed, then its successor, and so on.

    Attributes:
        now: asks which broker has the role now.
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
        """Kill the first, and go on from there."""
        self._kill(self.first)
        self.background.begin()

    def proof(self) -> Proof:
        """So many were killed while they had the role, and each time another took over."""
        missing = self.background.missing(_ROUND_S * self.times)
        chased = len(self.killed) == self.times and all(new != old for old, new in zip(self.killed, self.led, strict=False))
        return Proof(not missing and chased, {"killed": names(self.killed), "led_then": names(self.led), **missing})

    def heal(self) -> None:
        """Chase no further; start those that do not run, and return when they serve."""
        self.background.end()
        start_again(self.system, self.system.kafka.numbers)

    def _chase(self, stop: Event) -> None:
        while self._taken_over(stop):
            _back(self.system.kafka, self.killed[-1], self.restart_after_s, stop)
            if stop.is_set() or len(self.killed) == self.times:
                return
            self._kill(self.now())

    def _taken_over(self, stop: Event) -> bool:
        if not until(lambda: self.now() != self.killed[-1], stop, _LED_WITHIN_S, "another broker to take over"):
            return False
        self.led.append(self.now())
        return True

    def _kill(self, number: int) -> None:
        self.system.kafka.processes[number].kill()
        self.killed.append(number)


def _back(kafka: Kafka, number: int, after_s: float, stop: Event) -> float:
    """Start it, and return when all replicas are in sync, or when told to stop; seconds since it was started."""
    clock.pause(after_s, stop)
    began_s = clock.monotonic_s()
    kafka.processes[number].start()
    until(lambda: not kafka.unhealthy(), stop, _IN_SYNC_WITHIN_S, f"all replicas to be in sync with broker-{number}")
    return round(clock.monotonic_s() - began_s, 1)


def names(broker_ids: Iterable[int]) -> list[str]:
    """``broker-1`` and so on."""
    return [f"broker-{number}" for number in broker_ids]
