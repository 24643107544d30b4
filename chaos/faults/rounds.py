"""Faults of one broker after another: a rolling restart, and the leader chased from broker to broker.

One broker is down at a time: the next one's turn comes when every replica is in sync again, so min ISR 2 of 3 always holds.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from threading import Event
from typing import Any

from chaos.cluster.kafka import Kafka
from chaos.cluster.system import System
from chaos.common import clock
from chaos.faults.background import Course, until
from chaos.faults.base import Injection, Prepare, Proof, Scene
from chaos.faults.broker_processes import SIGKILLED, TERMINATED, start_again, terminate
from chaos.faults.declared.broker import ChaseLeader, RollingRestart
from chaos.faults.targets import resolve_brokers
from chaos.runtime.base import Process

_ENDS_WITHIN_S = 30.0
_LED_WITHIN_S = 30.0
_IN_SYNC_WITHIN_S = 60.0
_ROUND_S = 90.0


def prepare_rolling(fault: RollingRestart, scene: Scene, _rng: Random) -> Injection:
    """Aim a `RollingRestart`."""
    broker_ids = list(scene.system.kafka.broker_ids)
    target = ", ".join(f"broker-{number}" for number in broker_ids)
    return RollingRestarts(target, 0.0, scene.system, broker_ids, fault.how, fault.restart_after_s)


def prepare_chase(fault: ChaseLeader, scene: Scene, rng: Random) -> Injection:
    """Aim a `ChaseLeader`."""

    def now() -> int:
        return resolve_brokers(fault.target, scene, rng)[0][0]

    first = now()
    return ChasedLeader(f"broker-{first} ({fault.target})", 0.0, scene.system, now, first, fault.times, fault.restart_after_s)


@dataclass(slots=True)
class RollingRestarts:
    """All brokers, one after the other."""

    target: str
    hold_s: float
    system: System
    broker_ids: list[int]
    how: str
    restart_after_s: float
    rounds: list[dict[str, Any]] = field(default_factory=list)
    course: Course = field(init=False)

    def __post_init__(self) -> None:
        self.course = Course(self._roll)

    def inject(self) -> None:
        """End the first one, and go on from there."""
        self._end(self.broker_ids[0])
        self.course.begin()

    def proof(self) -> Proof:
        """Each has ended as it was told to, runs again, and all were in sync before the next."""
        missing = self.course.missing(_ROUND_S * len(self.broker_ids))
        wanted = SIGKILLED if self.how == "kill" else TERMINATED
        ended = [turn["exit_code"] for turn in self.rounds]
        return Proof(not missing and ended == [wanted] * len(self.broker_ids), {"rounds": self.rounds, **missing})

    def heal(self) -> None:
        """Go no further; start those that do not run, and return when they serve."""
        self.course.end()
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
        return self.system.kafka.brokers.processes[number]


@dataclass(slots=True)
class ChasedLeader:
    """Whoever has the role dies, then its successor, and so on.

    Attributes:
        now: who has the role now.
        first: who had it when the fault was aimed.
        led: those who took over.
    """

    target: str
    hold_s: float
    system: System
    now: Callable[[], int]
    first: int
    times: int
    restart_after_s: float
    killed: list[int] = field(default_factory=list)
    led: list[int] = field(default_factory=list)
    course: Course = field(init=False)

    def __post_init__(self) -> None:
        self.course = Course(self._chase)

    def inject(self) -> None:
        """Kill the first, and go on from there."""
        self._kill(self.first)
        self.course.begin()

    def proof(self) -> Proof:
        """So many were killed while they had the role, and each time another took over."""
        missing = self.course.missing(_ROUND_S * self.times)
        chased = len(self.killed) == self.times and all(new != old for old, new in zip(self.killed, self.led, strict=False))
        return Proof(not missing and chased, {"killed": _names(self.killed), "led_then": _names(self.led), **missing})

    def heal(self) -> None:
        """Chase no further; start those that do not run, and return when they serve."""
        self.course.end()
        start_again(self.system, self.system.kafka.broker_ids)

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
        self.system.kafka.brokers.processes[number].kill()
        self.killed.append(number)


def _back(kafka: Kafka, number: int, after_s: float, stop: Event) -> float:
    """Start it, and return when all replicas are in sync, or when told to stop; seconds since it was started."""
    clock.pause(after_s, stop)
    began_s = clock.monotonic_s()
    kafka.brokers.processes[number].start()
    until(lambda: not kafka.unhealthy(), stop, _IN_SYNC_WITHIN_S, f"all replicas to be in sync with broker-{number}")
    return round(clock.monotonic_s() - began_s, 1)


def _names(broker_ids: list[int]) -> list[str]:
    return [f"broker-{number}" for number in broker_ids]


CATALOGUE: Mapping[type, Prepare] = {RollingRestart: prepare_rolling, ChaseLeader: prepare_chase}
