"""Faults of brokers' disks: what was not flushed is gone, or nothing more can be written.

A full disk is made without one: the process may not grow any file (RLIMIT_FSIZE, set from outside with prlimit, Linux). What a
broker sees is the same: writes fail with an IOException ("File too large" instead of "No space left on device").
"""

from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Literal

import psutil

from chaos.cluster import broker_disk
from chaos.cluster.broker_disk import ThrownAway
from chaos.faults.base import (
    FaultContext,
    Injection,
    Proof,
    RestartedBrokerFault,
)
from chaos.faults.broker_processes import SIGKILLED, RestartedBrokers, start_again
from chaos.faults.targets import resolve_brokers
from chaos.grammar.units import spoken_seconds
from chaos.runtime.capabilities import Capability

_GIVES_UP_WITHIN_S = 20.0


class PowerLoss(RestartedBrokerFault):
    """Brokers die, and with them all that they had not flushed: each log ends at its recovery point."""

    needs = frozenset({Capability.BROKER_PROCESSES, Capability.BROKER_DISKS})
    provokes = "acknowledged records that no log had flushed are gone (Kafka relies on replication, not on fsync)"
    proved_by = "the exit code of SIGKILL, and the records that each broker lost"
    kind: Literal["power_loss"]

    def describe(self) -> str:
        return f"power_loss of {self.target}, {self.restarted}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        broker_ids, target = resolve_brokers(self.target, context, rng)
        return PowerlessBrokers(target, self.restart_after_s, context.system, broker_ids)


class LogDirFull(RestartedBrokerFault):
    """No file of a broker can grow any more, as on a full disk; it is started again when there is room."""

    needs = frozenset({Capability.BROKER_PROCESSES})
    provokes = "a broker whose only log directory fails stops (KIP-112)"
    proved_by = "each broker ended by itself with an error"
    kind: Literal["log_dir_full"]

    def describe(self) -> str:
        return f"log_dir_full on {self.target}, room again after {spoken_seconds(self.restart_after_s)}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        broker_ids, target = resolve_brokers(self.target, context, rng)
        return FullBrokers(target, self.restart_after_s, context.system, broker_ids)


@dataclass(slots=True)
class PowerlessBrokers(RestartedBrokers):
    """Brokers whose machines lost power, and have it again at the heal.

    Attributes:
        lost: broker -> partition -> what was not flushed.
    """

    lost: dict[str, dict[str, ThrownAway]] = field(default_factory=dict)

    def inject(self) -> None:
        """Kill them, all at once, then throw away what was not flushed."""
        for process in self.processes:
            process.kill()
        self.lost = {f"broker-{number}": broker_disk.lose_power(self.system.kafka.data(number)) for number in self.broker_ids}

    def proof(self) -> Proof:
        """They died by our signal, and each has lost something: where all was flushed, nothing is shown."""
        exits = self.exit_codes()
        effective = set(exits.values()) == {SIGKILLED} and all(self.lost.values())
        facts = {name: {partition: thrown.facts for partition, thrown in lost.items()} for name, lost in self.lost.items()}
        return Proof(effective, {"exit_codes": exits, "thrown_away": facts})


@dataclass(slots=True)
class FullBrokers(RestartedBrokers):
    """Brokers that cannot write; they give up by themselves, and are started again at the heal."""

    pids: dict[str, int] = field(default_factory=dict)

    def inject(self) -> None:
        """Let no file of theirs grow."""
        self.pids = {process.spec.name: process.pid for process in self.processes}
        for pid in self.pids.values():
            _let_files_grow(pid, grow=False)

    def proof(self) -> Proof:
        """Each has ended, and not by a signal: a broker whose only log directory fails stops."""
        self.await_end(_GIVES_UP_WITHIN_S)
        exits = self.exit_codes()
        return Proof(all(code is not None and code > 0 for code in exits.values()), {"pids": self.pids, "exit_codes": exits})

    def heal(self) -> None:
        """Make room, start those that do not run, and return when they serve."""
        for process in self.processes:
            if process.alive():
                _let_files_grow(process.pid, grow=True)
        start_again(self.system, self.broker_ids)


def _let_files_grow(pid: int, *, grow: bool) -> None:
    """The soft limit alone: what is allowed at most stays."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        _, most = process.rlimit(psutil.RLIMIT_FSIZE)
        process.rlimit(psutil.RLIMIT_FSIZE, (most if grow else 0, most))
