"""Faults of broker processes.

kill       no last words, no flush, no leadership handed over
terminate  a controlled shutdown: leadership handed over, logs flushed, a mark that it was clean
pause      frozen, a zombie that wakes up later
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random

import psutil

from chaos.cluster import broker_disk, protocol
from chaos.cluster.system import System
from chaos.common import clock
from chaos.common.errors import DeadlineError
from chaos.faults.base import Injection, Prepare, Proof, Scene
from chaos.faults.declared.broker import KillBroker, PauseBroker, TerminateBroker
from chaos.faults.targets import resolve_brokers
from chaos.runtime.base import Process

SIGKILLED = -9
TERMINATED = 143  # what a JVM answers to SIGTERM
_SERVES_WITHIN_S = 30.0
_ENDS_WITHIN_S = 30.0


def prepare_kill(fault: KillBroker, scene: Scene, rng: Random) -> Injection:
    """Aim a `KillBroker`."""
    broker_ids, target = resolve_brokers(fault.target, scene, rng)
    return KilledBrokers(target, fault.restart_after_s, scene.system, broker_ids)


def prepare_pause(fault: PauseBroker, scene: Scene, rng: Random) -> Injection:
    """Aim a `PauseBroker`."""
    broker_ids, target = resolve_brokers(fault.target, scene, rng)
    return PausedBrokers(target, fault.for_s, scene.system, broker_ids)


def prepare_terminate(fault: TerminateBroker, scene: Scene, rng: Random) -> Injection:
    """Aim a `TerminateBroker`."""
    broker_ids, target = resolve_brokers(fault.target, scene, rng)
    return TerminatedBrokers(target, fault.restart_after_s, scene.system, broker_ids)


@dataclass(slots=True)
class KilledBrokers:
    """Brokers that were ended by SIGKILL and are started again at the heal."""

    target: str
    hold_s: float
    system: System
    broker_ids: list[int]
    pids: dict[str, int] = field(default_factory=dict)

    def inject(self) -> None:
        """Kill them, all at once."""
        self.pids = {process.spec.name: process.pid for process in self._processes()}
        for process in self._processes():
            process.kill()

    def proof(self) -> Proof:
        """The processes are gone by our signal, and nobody listens where they did."""
        exits = {process.spec.name: process.exit_code() for process in self._processes()}
        gone = not any(psutil.pid_exists(pid) for pid in self.pids.values())
        refused = [f"broker-{number}" for number in self.broker_ids if protocol.refused(self.system.kafka.address(number))]
        bit = gone and len(refused) == len(self.broker_ids) and set(exits.values()) == {SIGKILLED}
        return Proof(bit, {"pids": self.pids, "exit_codes": exits, "refused": refused})

    def heal(self) -> None:
        """Start those that do not run, and return when they serve."""
        start_again(self.system, self.broker_ids)

    def _processes(self) -> list[Process]:
        return [self.system.kafka.brokers.processes[number] for number in self.broker_ids]


@dataclass(slots=True)
class TerminatedBrokers:
    """Brokers that were asked to end, and are started again at the heal."""

    target: str
    hold_s: float
    system: System
    broker_ids: list[int]

    def inject(self) -> None:
        """Ask them; a controlled shutdown takes a second or two."""
        for process in self._processes():
            terminate(process)

    def proof(self) -> Proof:
        """They ended by themselves, and left the mark of a clean shutdown behind."""
        kafka = self.system.kafka
        with suppress(DeadlineError):  # the exit codes say so
            clock.wait_until(self._ended, within_s=_ENDS_WITHIN_S, reason="the brokers to shut down")
        exits = {process.spec.name: process.exit_code() for process in self._processes()}
        clean = [f"broker-{number}" for number in self.broker_ids if broker_disk.was_clean(kafka.brokers.data(number))]
        bit = set(exits.values()) == {TERMINATED} and len(clean) == len(self.broker_ids)
        return Proof(bit, {"exit_codes": exits, "clean": clean})

    def heal(self) -> None:
        """Start those that do not run, and return when they serve."""
        for process in self._processes():
            if process.alive():
                process.stop(_ENDS_WITHIN_S)  # one that was asked to end does not stay
        start_again(self.system, self.broker_ids)

    def _ended(self) -> bool:
        return not any(process.alive() for process in self._processes())

    def _processes(self) -> list[Process]:
        return [self.system.kafka.brokers.processes[number] for number in self.broker_ids]


@dataclass(slots=True)
class PausedBrokers:
    """Brokers stopped by SIGSTOP: their connections stay open, their sessions run out, and they wake up as zombies."""

    target: str
    hold_s: float
    system: System
    broker_ids: list[int]

    def inject(self) -> None:
        """Freeze them."""
        for process in self._processes():
            process.pause()

    def proof(self) -> Proof:
        """The processes are stopped, and a ping is accepted by the kernel but never answered."""
        try:
            clock.wait_until(self._all_paused, within_s=2, reason="the brokers to stop")
        except DeadlineError:
            return Proof(bit=False, facts={"paused": [process.spec.name for process in self._processes() if process.paused()]})
        silent = [
            f"broker-{number}"
            for number in self.broker_ids
            if not protocol.answers(self.system.kafka.address(number), within_s=0.5)
        ]
        return Proof(len(silent) == len(self.broker_ids), {"paused": silent, "unanswered_s": 0.5})

    def heal(self) -> None:
        """Let them run on, and return when they serve."""
        for process in self._processes():
            process.resume()
        wait_until_serving(self.system, self.broker_ids)

    def _all_paused(self) -> bool:
        return all(process.paused() for process in self._processes())

    def _processes(self) -> list[Process]:
        return [self.system.kafka.brokers.processes[number] for number in self.broker_ids]


def terminate(process: Process) -> None:
    """SIGTERM, without waiting for the end; nothing to do for one that is gone."""
    if process.alive():
        with suppress(psutil.NoSuchProcess):
            psutil.Process(process.pid).terminate()


def start_again(system: System, broker_ids: Iterable[int]) -> None:
    """Start those brokers that do not run, and return when all of these serve."""
    for number in broker_ids:
        system.kafka.brokers.processes[number].start()
    wait_until_serving(system, broker_ids)


def wait_until_serving(system: System, broker_ids: Iterable[int]) -> None:
    """Return when all of these answer."""
    for number in broker_ids:
        address = system.kafka.address(number)
        clock.wait_until(
            partial(protocol.answers, address), within_s=_SERVES_WITHIN_S, reason=f"broker-{number} to serve again"
        )


CATALOGUE: Mapping[type, Prepare] = {
    KillBroker: prepare_kill,
    PauseBroker: prepare_pause,
    TerminateBroker: prepare_terminate,
}
