"""Faults of brokers' disks: what was not flushed is gone, or nothing more can be written.

A full disk is made without one: the process may not grow any file (RLIMIT_FSIZE, set from outside with prlimit, Linux). What a
broker sees is the same: writes fail with an IOException ("File too large" instead of "No space left on device").
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

import psutil

from chaos.cluster import broker_disk
from chaos.cluster.broker_disk import ThrownAway
from chaos.cluster.system import System
from chaos.common import clock
from chaos.common.errors import DeadlineError
from chaos.faults.base import Injection, Prepare, Proof, Scene
from chaos.faults.broker_processes import SIGKILLED, start_again
from chaos.faults.declared.broker import LogDirFull, PowerLoss
from chaos.faults.targets import resolve_brokers
from chaos.runtime.base import Process

_GIVES_UP_WITHIN_S = 20.0


def prepare_power_loss(fault: PowerLoss, scene: Scene, rng: Random) -> Injection:
    """Aim a `PowerLoss`."""
    broker_ids, target = resolve_brokers(fault.target, scene, rng)
    return PowerlessBrokers(target, fault.restart_after_s, scene.system, broker_ids)


def prepare_log_dir_full(fault: LogDirFull, scene: Scene, rng: Random) -> Injection:
    """Aim a `LogDirFull`."""
    broker_ids, target = resolve_brokers(fault.target, scene, rng)
    return FullBrokers(target, fault.restart_after_s, scene.system, broker_ids)


@dataclass(slots=True)
class PowerlessBrokers:
    """Brokers whose machines lost power, and have it again at the heal.

    Attributes:
        lost: broker -> partition -> what was not flushed.
    """

    target: str
    hold_s: float
    system: System
    broker_ids: list[int]
    lost: dict[str, dict[str, ThrownAway]] = field(default_factory=dict)

    def inject(self) -> None:
        """Kill them, all at once, then throw away what was not flushed."""
        for process in self._processes():
            process.kill()
        self.lost = {
            f"broker-{number}": broker_disk.lose_power(self.system.kafka.brokers.data(number)) for number in self.broker_ids
        }

    def proof(self) -> Proof:
        """They died by our signal, and each has lost something: where all was flushed, nothing is shown."""
        exits = {process.spec.name: process.exit_code() for process in self._processes()}
        bit = set(exits.values()) == {SIGKILLED} and all(self.lost.values())
        facts = {name: {partition: thrown.facts for partition, thrown in lost.items()} for name, lost in self.lost.items()}
        return Proof(bit, {"exit_codes": exits, "thrown_away": facts})

    def heal(self) -> None:
        """Start those that do not run, and return when they serve."""
        start_again(self.system, self.broker_ids)

    def _processes(self) -> list[Process]:
        return [self.system.kafka.brokers.processes[number] for number in self.broker_ids]


@dataclass(slots=True)
class FullBrokers:
    """Brokers that cannot write; they give up by themselves, and are started again at the heal."""

    target: str
    hold_s: float
    system: System
    broker_ids: list[int]
    pids: dict[str, int] = field(default_factory=dict)

    def inject(self) -> None:
        """Let no file of theirs grow."""
        self.pids = {process.spec.name: process.pid for process in self._processes()}
        for pid in self.pids.values():
            _let_files_grow(pid, grow=False)

    def proof(self) -> Proof:
        """Each has ended, and not by a signal: a broker whose only log directory fails stops."""
        with suppress(DeadlineError):  # the exit codes say so
            clock.wait_until(self._gave_up, within_s=_GIVES_UP_WITHIN_S, reason="the brokers to give up")
        exits = {process.spec.name: process.exit_code() for process in self._processes()}
        return Proof(all(code is not None and code > 0 for code in exits.values()), {"pids": self.pids, "exit_codes": exits})

    def heal(self) -> None:
        """Make room, start those that do not run, and return when they serve."""
        for process in self._processes():
            if process.alive():
                _let_files_grow(process.pid, grow=True)
        start_again(self.system, self.broker_ids)

    def _gave_up(self) -> bool:
        return not any(process.alive() for process in self._processes())

    def _processes(self) -> list[Process]:
        return [self.system.kafka.brokers.processes[number] for number in self.broker_ids]


def _let_files_grow(pid: int, *, grow: bool) -> None:
    """The soft limit alone: what is allowed at most stays."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        _, most = process.rlimit(psutil.RLIMIT_FSIZE)
        process.rlimit(psutil.RLIMIT_FSIZE, (most if grow else 0, most))


CATALOGUE: Mapping[type, Prepare] = {PowerLoss: prepare_power_loss, LogDirFull: prepare_log_dir_full}
