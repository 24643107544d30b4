"""Faults of brokers' disks: unflushed data is gone, or nothing more can be written.

A full disk is imitated: the process may not let any file grow (RLIMIT_FSIZE, set from outside with prlimit, Linux). For the
broker it is like a full disk: writes fail with an IOException ("File too large" instead of "No space left on device").
"""

from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

import psutil

from chaos.cluster import broker_disk
from chaos.cluster.broker_disk import ThrownAway
from chaos.cluster.kafka import STATE_TOPICS
from chaos.faults.base import FaultContext, Injection, Proof, RestartedBrokerFault
from chaos.faults.broker_processes import (
    SIGKILLED,
    RestartedBrokers,
    exit_codes,
    resolve_running,
    start_again,
    wait_for_end,
)
from chaos.faults.targets import target_logs
from chaos.grammar.units import spoken_seconds
from chaos.runtime.capabilities import Capability

_GIVES_UP_WITHIN_S = 20.0


class PowerLoss(RestartedBrokerFault):
    """Brokers die, and all their unflushed data is gone: each log ends at its recovery point."""

    needs = frozenset({Capability.BROKER_PROCESSES, Capability.BROKER_DISKS})
    provokes = "acknowledged records that no replica had flushed are gone (Kafka relies on replication, not on fsync)"
    proved_by = "the exit code of SIGKILL, and the records that each broker lost of the log behind its target"
    kind: Literal["power_loss"]
    flushed: tuple[str, ...] = ()
    """topics that lose nothing, as if each of their records were flushed at once (`flush.messages: 1`): declared ones,
    `__consumer_offsets` or `__transaction_state`."""

    def describe(self) -> str:
        spared = f" with {' and '.join(self.flushed)} flushed" if self.flushed else ""
        return f"power_loss {self.target}{spared}, {self.restarted}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        broker_ids, target = resolve_running(self.target, context, rng)
        spared = frozenset(context.topics.get(name, name) for name in self.flushed)
        logs = (*target_logs(self.target, context), *(STATE_TOPICS if spared else ()))
        meant = tuple(log for log in logs if spared.isdisjoint((log, _topic(log))))
        return PowerlessBrokers(target, self.restart_after_s, context.system, broker_ids, meant, spared)


@dataclass(slots=True)
class PowerlessBrokers(RestartedBrokers):
    """Brokers whose machines lost power until the heal.

    Attributes:
        meant: the logs that should lose records: partitions, or topics for all of their partitions.
        spared: topics that lose nothing.
        lost: broker -> partition -> its unflushed offsets.
    """

    meant: tuple[str, ...]
    spared: frozenset[str]
    lost: dict[str, dict[str, ThrownAway]] = field(default_factory=dict)

    def inject(self) -> None:
        for process in self.processes:
            process.kill()
        data = self.system.kafka.brokers.data
        self.lost = {f"broker-{broker}": broker_disk.lose_power(data(broker), self.spared) for broker in self.broker_ids}

    def proof(self) -> Proof:
        """Show that we killed them, and that each has lost records of a log that was meant.

        A broker that had flushed that log proves nothing: some records of ``__consumer_offsets`` are nearly always lost.
        """
        exits = exit_codes(self.processes)
        kept = [name for name, lost in self.lost.items() if not any(map(self._is_meant, lost))]
        thrown = {name: {partition: thrown.facts for partition, thrown in lost.items()} for name, lost in self.lost.items()}
        facts: dict[str, Any] = {"exit_codes": exits, "meant": list(self.meant), "thrown_away": thrown}
        if kept:
            facts["problem"] = f"{', '.join(kept)} lost nothing of {', '.join(self.meant)}"
        return Proof(set(exits.values()) == {SIGKILLED} and not kept, facts)

    def _is_meant(self, partition: str) -> bool:
        return partition in self.meant or _topic(partition) in self.meant


class LogDirFull(RestartedBrokerFault):
    """No file of a broker can grow any more, as on a full disk; it is started again when there is room."""

    provokes = "a broker whose only log directory fails shuts down (KIP-112)"
    proved_by = "each broker ended by itself with an error"
    kind: Literal["log_dir_full"]

    def describe(self) -> str:
        return f"log_dir_full on {self.target}, room again after {spoken_seconds(self.restart_after_s)}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        broker_ids, target = resolve_running(self.target, context, rng)
        return FullBrokers(target, self.restart_after_s, context.system, broker_ids)


@dataclass(slots=True)
class FullBrokers(RestartedBrokers):
    pids: dict[str, int] = field(default_factory=dict)

    def inject(self) -> None:
        self.pids = {process.spec.name: process.pid for process in self.processes}
        for pid in self.pids.values():
            _let_files_grow(pid, grow=False)

    def proof(self) -> Proof:
        missing = wait_for_end(self.processes, _GIVES_UP_WITHIN_S)
        exits = exit_codes(self.processes)
        effective = all(code is not None and code > 0 for code in exits.values())
        return Proof(effective, {"pids": self.pids, "exit_codes": exits, **missing})

    def heal(self) -> None:
        for process in self.processes:
            if process.alive():
                _let_files_grow(process.pid, grow=True)
        start_again(self.system, self.broker_ids)


def _topic(partition: str) -> str:
    return partition.rpartition("-")[0]


def _let_files_grow(pid: int, *, grow: bool) -> None:
    """Change the soft limit alone: only the hard one allows to set it back."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        _, most = process.rlimit(psutil.RLIMIT_FSIZE)
        process.rlimit(psutil.RLIMIT_FSIZE, (most if grow else 0, most))
