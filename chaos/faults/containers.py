"""Faults of brokers in containers: off the network, off the processor, out of memory, out of disk.

Docker carries them out. Their proofs come from elsewhere: the wire, the counters of the control group, the exit code.
"""

import errno
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Annotated, Any, Literal

import psutil
from pydantic import Field

from chaos.cluster.system import System
from chaos.common.errors import InjectionError
from chaos.faults.base import BrokerFault, FaultContext, Injection, LastingFault, Proof, RestartedBrokerFault, unmet
from chaos.faults.broker_processes import (
    SIGKILLED,
    BrokerInjection,
    exit_codes,
    resolve_running,
    start_again,
    wait_for_end,
    wait_until_serving,
)
from chaos.faults.targets import broker_names
from chaos.grammar.units import Size, text_of_size
from chaos.runtime.base import Contained, Process
from chaos.runtime.capabilities import Capability

_UNREACHABLE_S = 0.7
_PERIOD_US = 100_000
_NO_LIMIT = -1
_MARGIN_BYTES = 32 << 20  # half of the memory that `crowd` takes
_KILLED_WITHIN_S = 10.0
_THROTTLED_WITHIN_S = 20.0
_STOPS_WITHIN_S = 30.0
_FULL_WITHIN_S = 60.0
_NO_SPACE = b"No space left on device"
Cpus = Annotated[float, Field(ge=0.01, le=4)]


@dataclass(slots=True)
class ContainedBrokers(BrokerInjection):
    @property
    def containers(self) -> list[Contained]:
        """Containers in the order of the ids."""
        return contained(self.processes)


class Disconnect(BrokerFault, LastingFault):
    """A broker's machine is taken off the network: packets to it vanish, those that open a connection too."""

    needs = frozenset({Capability.BROKER_CONTAINERS})
    without = "partition_network breaks its links"
    provokes = "a host that vanishes without a FIN, a RST or a refusal: clients learn by their own timeouts"
    proved_by = "the broker runs, and connections to it time out"
    kind: Literal["disconnect"]

    @property
    def down_s(self) -> float:
        return self.for_s

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        broker_ids, target = resolve_running(self.target, context, rng)
        return DisconnectedBrokers(target, self.for_s, context.system, broker_ids)


@dataclass(slots=True)
class DisconnectedBrokers(ContainedBrokers):
    def inject(self) -> None:
        for container in self.containers:
            container.disconnect()

    def proof(self) -> Proof:
        alive = [container.spec.name for container in self.containers if container.alive()]
        unreachable = self.names_where(self._unreachable)
        return Proof(len(alive) == len(unreachable) == len(self.broker_ids), {"alive": alive, "unreachable": unreachable})

    def heal(self) -> None:
        for container in self.containers:
            container.reconnect()
        wait_until_serving(self.system, self.broker_ids)

    def _unreachable(self, broker: int) -> bool:
        """Whether an attempt to connect gets no answer, or our own kernel reports that it finds no such host."""
        try:
            with socket.create_connection(self.system.kafka.address(broker), timeout=_UNREACHABLE_S):
                return False
        except TimeoutError:
            return True
        except OSError as error:
            return error.errno == errno.EHOSTUNREACH


class Freeze(BrokerFault, LastingFault):
    """Brokers are frozen by the kernel (cgroup freezer): like by SIGSTOP, but their process state does not show it."""

    needs = frozenset({Capability.BROKER_CONTAINERS})
    without = "pause_broker stops it with SIGSTOP"
    provokes = "a broker that gets no processor, as on an overcommitted host"
    proved_by = "the kernel reports it frozen, connections are accepted and a ping is not answered"
    kind: Literal["freeze"]

    @property
    def down_s(self) -> float:
        return self.for_s

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        broker_ids, target = resolve_running(self.target, context, rng)
        return FrozenBrokers(target, self.for_s, context.system, broker_ids)


@dataclass(slots=True)
class FrozenBrokers(ContainedBrokers):
    def inject(self) -> None:
        for container in self.containers:
            container.freeze()

    def proof(self) -> Proof:
        frozen = [container.spec.name for container in self.containers if container.frozen()]
        unanswered = self.names_where(partial(self.silent, within_s=_UNREACHABLE_S))
        accepted = self.names_where(lambda broker: not self.refuses(broker))
        effective = len(frozen) == len(unanswered) == len(accepted) == len(self.broker_ids)
        return Proof(effective, {"frozen": frozen, "unanswered": unanswered, "accepted": accepted})

    def heal(self) -> None:
        for container in self.containers:
            container.thaw()
        wait_until_serving(self.system, self.broker_ids)


class LimitCpu(BrokerFault, LastingFault):
    """Brokers get only a share of a processor, e.g. a tenth: they answer late, as on a busy machine."""

    needs = frozenset({Capability.BROKER_CONTAINERS})
    without = "delay_link makes its answers late"
    provokes = "answers that are late because the broker is slow"
    proved_by = "the kernel has counted periods in which the broker had to wait"
    kind: Literal["limit_cpu"]
    cpus: Cpus
    """the number of processors that each broker may use; 0.1 is a tenth of one."""

    def describe(self) -> str:
        return f"limit_cpu of {self.target} to {self.cpus:g} processors {self.lasts}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        broker_ids, target = resolve_running(self.target, context, rng)
        return ThrottledBrokers(target, self.for_s, context.system, broker_ids, self.cpus)


@dataclass(slots=True)
class ThrottledBrokers(ContainedBrokers):
    """Brokers with a share of a processor; they do everything, late.

    Attributes:
        before: broker -> number of its throttled periods before the fault.
    """

    cpus: float
    before: dict[str, int] = field(default_factory=dict)

    def inject(self) -> None:
        for container in self.containers:
            self.before[container.spec.name] = _throttled_periods(container)
            container.limit(cpu_period=_PERIOD_US, cpu_quota=round(self.cpus * _PERIOD_US))

    def proof(self) -> Proof:
        within_s = min(self.hold_s, _THROTTLED_WITHIN_S)
        missing = unmet(lambda: all(self._since().values()), within_s, "the brokers to need more processor time than they get")
        since = self._since()
        effective = len(since) == len(self.broker_ids) and all(since.values())
        return Proof(effective, {"cpus": self.cpus, "throttled_periods": since, **missing})

    def heal(self) -> None:
        for container in self.containers:
            container.limit(cpu_period=_PERIOD_US, cpu_quota=_NO_LIMIT)
        wait_until_serving(self.system, self.broker_ids)

    def _since(self) -> dict[str, int]:
        now = {container.spec.name: _throttled_periods(container) for container in self.containers}
        return {name: now[name] - before for name, before in self.before.items()}


class OutOfMemory(RestartedBrokerFault):
    """A broker's memory is limited to less than it needs, until the kernel kills it; it is started again without the limit."""

    needs = frozenset({Capability.BROKER_CONTAINERS})
    without = "kill_broker ends it as suddenly"
    provokes = "a broker that the kernel's OOM killer ends without warning"
    proved_by = "the exit code of SIGKILL, and the kernel reports that the broker was killed for lack of memory"
    kind: Literal["out_of_memory"]

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        broker_ids, target = resolve_running(self.target, context, rng)
        return StarvedBrokers(target, self.restart_after_s, context.system, broker_ids)


@dataclass(slots=True)
class StarvedBrokers(ContainedBrokers):
    """Brokers that the kernel kills because their containers exceed their memory limits.

    The limit is a little more than the memory that they cannot give back; then another process in the container takes the rest.
    A JVM that has all it needs would live for ever at its limit.
    """

    limits: dict[str, int] = field(default_factory=dict)

    def inject(self) -> None:
        for container in self.containers:
            least = _needed_bytes(container) + _MARGIN_BYTES
            self.limits[container.spec.name] = least
            container.limit(mem_limit=least, memswap_limit=least)
            container.crowd()

    def proof(self) -> Proof:
        missing = wait_for_end(self.containers, _KILLED_WITHIN_S)
        exits = exit_codes(self.containers)
        killed = [container.spec.name for container in self.containers if container.killed_by_memory()]
        effective = set(exits.values()) == {SIGKILLED} and len(killed) == len(self.broker_ids)
        return Proof(effective, {"exit_codes": exits, "out_of_memory": killed, "limits_bytes": self.limits, **missing})

    def heal(self) -> None:
        total = psutil.virtual_memory().total
        for container in self.containers:
            container.limit(mem_limit=total, memswap_limit=total)
        start_again(self.system, self.broker_ids)


class LimitDisk(RestartedBrokerFault):
    """A broker is restarted on a disk with little room, fills it, and shuts down; at the heal it gets its own disk back.

    Unlike `log_dir_full` this is a real ``No space left on device``: the log directory is on a file system of that size.
    """

    needs = frozenset({Capability.BROKER_CONTAINERS})
    without = "log_dir_full keeps its files from growing"
    provokes = "a broker whose only log directory fails shuts down, here with No space left on device (KIP-112)"
    proved_by = "the broker ended by itself, and its log says that no space was left"
    kind: Literal["limit_disk"]
    room_bytes: Size = Field(alias="room", default=500_000)
    """the bytes that can be written before the disk is full."""

    def describe(self) -> str:
        return f"limit_disk of {self.target} to {text_of_size(self.room_bytes)} more, {self.restarted}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        broker_ids, target = resolve_running(self.target, context, rng)
        found = contained([context.system.kafka.brokers.processes[broker] for broker in broker_ids])
        containers = dict(zip(broker_ids, found, strict=True))
        return CrampedBrokers(target, self.restart_after_s, context.system, containers, self.room_bytes)


@dataclass(slots=True)
class CrampedBrokers(Injection):
    """Brokers that run on a small disk until the heal.

    Attributes:
        containers: broker id -> the broker on its own disk.
        cramped: broker id -> the broker on the small one.
        logs_from: broker id -> start of the log of the broker on the small disk.
    """

    system: System
    containers: dict[int, Contained]
    room_bytes: int
    cramped: dict[int, Process] = field(default_factory=dict)
    logs_from: dict[int, int] = field(default_factory=dict)

    def inject(self) -> None:
        """Move them: a controlled shutdown, a copy of the data, a start."""
        kafka = self.system.kafka
        for broker, container in self.containers.items():
            container.stop(_STOPS_WITHIN_S)
            self.logs_from[broker] = container.spec.log.stat().st_size
            self.cramped[broker] = container.on_small_disk(kafka.brokers.data(broker), self.room_bytes)
            kafka.brokers.processes[broker] = self.cramped[broker]

    def proof(self) -> Proof:
        missing = wait_for_end(self.cramped.values(), _FULL_WITHIN_S)
        exits = exit_codes(self.cramped.values())
        full = broker_names(broker for broker in self.cramped if _NO_SPACE in self._logged(broker))
        effective = all(code is not None and code > 0 for code in exits.values()) and len(full) == len(self.containers)
        return Proof(effective, {"exit_codes": exits, "no_space_left": full, "room_bytes": self.room_bytes, **missing})

    def heal(self) -> None:
        """End the brokers that have not filled their disk, start all on their own disks, and return when they serve."""
        for broker, process in self.cramped.items():
            if process.alive():
                process.stop(_STOPS_WITHIN_S)
            self.system.kafka.brokers.processes[broker] = self.containers[broker]
        start_again(self.system, list(self.containers))

    def _logged(self, broker: int) -> bytes:
        with self.containers[broker].spec.log.open("rb") as log:
            log.seek(self.logs_from[broker])
            return log.read()


def contained(processes: list[Process]) -> list[Contained]:
    """Return these processes as containers.

    Raises:
        InjectionError: they are not containers.
    """
    found = [process for process in processes if isinstance(process, Contained)]
    if len(found) < len(processes):
        raise InjectionError("these brokers do not run in containers; run the scenario with --chaos-runtime containers")
    return found


def _needed_bytes(container: Contained) -> int:
    """Memory that it cannot give back, without page cache (``rss`` in version 1 of control groups, ``anon`` in version 2)."""
    stats = container.usage()["memory_stats"]["stats"]
    return int(stats["anon"] if "anon" in stats else stats["total_rss"])


def _throttled_periods(container: Contained) -> int:
    counters: Mapping[str, Any] = container.usage()["cpu_stats"]["throttling_data"]
    return int(counters["throttled_periods"])
