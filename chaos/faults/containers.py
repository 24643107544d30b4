"""Faults of brokers in containers: off the network, off the processor, out of memory, out of disk.

Docker does them; what they came to is read elsewhere: on the wire, in the counters of the control group, from the exit code.
"""

import errno
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Annotated, Any, Literal

import psutil
from pydantic import Field

from chaos.cluster import protocol
from chaos.cluster.addresses import Address
from chaos.cluster.system import System
from chaos.common import clock
from chaos.common.errors import DeadlineError, InjectionError
from chaos.faults.base import (
    BrokerFault,
    FaultContext,
    Injection,
    LastingFault,
    Proof,
    RestartedBrokerFault,
)
from chaos.faults.broker_processes import SIGKILLED, BrokerInjection, start_again, wait_until_serving
from chaos.faults.targets import resolve_brokers
from chaos.grammar.units import Size, text_of_size
from chaos.runtime.base import Contained, Process
from chaos.runtime.capabilities import Capability

_LOST_WITHIN_S = 0.7
_PERIOD_US = 100_000
_NO_LIMIT = -1
_MARGIN_BYTES = 32 << 20  # half of what `crowd` takes
_KILLED_WITHIN_S = 10.0
_THROTTLED_WITHIN_S = 20.0
Cpus = Annotated[float, Field(ge=0.01, le=4)]


class Disconnect(BrokerFault, LastingFault):
    """A broker's machine is taken off the network: packets to it vanish, the first of a connection too, and nobody is told."""

    needs = frozenset({Capability.BROKER_CONTAINERS})
    without = "partition_network breaks its links"
    provokes = "a host that vanishes: no FIN, no RST, no refusal"
    proved_by = "the broker runs, and connections to it time out"
    kind: Literal["disconnect"]

    @property
    def down_s(self) -> float:
        return self.for_s

    def describe(self) -> str:
        return f"disconnect {self.target} {self.lasts}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        broker_ids, target = resolve_brokers(self.target, context, rng)
        return DisconnectedBrokers(target, self.for_s, context.system, broker_ids)


class Freeze(BrokerFault, LastingFault):
    """Brokers are taken off the processor by the kernel (cgroup freezer): a SIGSTOP that leaves no trace in their state."""

    needs = frozenset({Capability.BROKER_CONTAINERS})
    without = "pause_broker stops it by SIGSTOP"
    provokes = "a broker that gets no processor, as on an overcommitted host"
    proved_by = "the kernel says frozen, connections are accepted and a ping is not answered"
    kind: Literal["freeze"]

    @property
    def down_s(self) -> float:
        return self.for_s

    def describe(self) -> str:
        return f"freeze {self.target} {self.lasts}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        broker_ids, target = resolve_brokers(self.target, context, rng)
        return FrozenBrokers(target, self.for_s, context.system, broker_ids)


class LimitCpu(BrokerFault, LastingFault):
    """Brokers get a share of a processor only, e.g. ``cpus: 0.1``: they answer late, as on a machine that others keep busy."""

    needs = frozenset({Capability.BROKER_CONTAINERS})
    without = "delay_link makes its answers late"
    provokes = "answers that are late because the broker is slow"
    proved_by = "the kernel has counted periods in which the broker had to wait"
    kind: Literal["limit_cpu"]
    cpus: Cpus

    def describe(self) -> str:
        return f"limit_cpu of {self.target} to {self.cpus:g} processors {self.lasts}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        broker_ids, target = resolve_brokers(self.target, context, rng)
        return ThrottledBrokers(target, self.for_s, context.system, broker_ids, self.cpus)


class OutOfMemory(RestartedBrokerFault):
    """A broker's memory is limited to less than it needs, until the kernel kills it; it is started again without the limit."""

    needs = frozenset({Capability.BROKER_CONTAINERS})
    without = "kill_broker ends it as suddenly"
    provokes = "the OOM killer"
    proved_by = "the kernel says that it killed the broker for want of memory"
    kind: Literal["out_of_memory"]

    def describe(self) -> str:
        return f"out_of_memory on {self.target}, {self.restarted}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        broker_ids, target = resolve_brokers(self.target, context, rng)
        return StarvedBrokers(target, self.restart_after_s, context.system, broker_ids)


def contained(system: System, broker_ids: list[int]) -> list[Contained]:
    """The brokers' containers.

    Raises:
        InjectionError: they have none.
    """
    processes = [system.kafka.processes[number] for number in broker_ids]
    found = [process for process in processes if isinstance(process, Contained)]
    if len(found) < len(processes):
        raise InjectionError("these brokers run in no containers: run the scenario with --chaos-runtime containers")
    return found


@dataclass(slots=True)
class ContainedBrokers(BrokerInjection):
    """A fault of brokers in containers."""

    @property
    def containers(self) -> list[Contained]:
        """The brokers' containers."""
        return contained(self.system, self.broker_ids)


@dataclass(slots=True)
class DisconnectedBrokers(ContainedBrokers):
    """Brokers off the network; they run on, and know nothing of it but silence."""

    def inject(self) -> None:
        """Pull the cables."""
        for container in self.containers:
            container.disconnect()

    def proof(self) -> Proof:
        """They run, and whoever wants to connect hears nothing, not even a refusal."""
        alive = [container.spec.name for container in self.containers if container.alive()]
        lost = [f"broker-{number}" for number in self.broker_ids if _is_lost(self.system.kafka.address(number))]
        return Proof(len(alive) == len(lost) == len(self.broker_ids), {"alive": alive, "unreachable": lost})

    def heal(self) -> None:
        """Plug them in, and return when they serve."""
        for container in self.containers:
            container.reconnect()
        wait_until_serving(self.system, self.broker_ids)


@dataclass(slots=True)
class FrozenBrokers(ContainedBrokers):
    """Brokers that get no processor: their kernel answers for them, they do not."""

    def inject(self) -> None:
        """Freeze them."""
        for container in self.containers:
            container.freeze()

    def proof(self) -> Proof:
        """The kernel keeps them from running, and a ping is accepted but never answered."""
        frozen = [container.spec.name for container in self.containers if container.frozen()]
        addresses = {f"broker-{number}": self.system.kafka.address(number) for number in self.broker_ids}
        silent = [name for name, address in addresses.items() if not protocol.answers(address, within_s=_LOST_WITHIN_S)]
        open_ = [name for name, address in addresses.items() if not protocol.refused(address)]
        effective = len(frozen) == len(silent) == len(open_) == len(self.broker_ids)
        return Proof(effective, {"frozen": frozen, "unanswered": silent, "accepted": open_})

    def heal(self) -> None:
        """Let them run on, and return when they serve."""
        for container in self.containers:
            container.thaw()
        wait_until_serving(self.system, self.broker_ids)


@dataclass(slots=True)
class StarvedBrokers(ContainedBrokers):
    """Brokers that the kernel kills because their containers want more memory than they may have.

    The limit is what they cannot give back and a little more; then something else in the container takes what is left. A JVM
    that has all it needs would live for ever at its limit.
    """

    limits: dict[str, int] = field(default_factory=dict)

    def inject(self) -> None:
        """Limit them, and take the rest."""
        for container in self.containers:
            least = _needed(container) + _MARGIN_BYTES
            self.limits[container.spec.name] = least
            container.limit(mem_limit=least, memswap_limit=least)
            container.crowd()

    def proof(self) -> Proof:
        """The kernel says that it killed them for want of memory."""
        with suppress(DeadlineError):  # the facts say so
            clock.wait_until(self._ended, within_s=_KILLED_WITHIN_S, reason="the kernel to kill the brokers", every_s=0.05)
        exits = {container.spec.name: container.exit_code() for container in self.containers}
        killed = [container.spec.name for container in self.containers if container.killed_by_memory()]
        effective = set(exits.values()) == {SIGKILLED} and len(killed) == len(self.broker_ids)
        return Proof(effective, {"exit_codes": exits, "out_of_memory": killed, "limits_bytes": self.limits})

    def heal(self) -> None:
        """Give them all the memory there is, start those that do not run, and return when they serve."""
        total = psutil.virtual_memory().total
        for container in self.containers:
            container.limit(mem_limit=total, memswap_limit=total)
        start_again(self.system, self.broker_ids)

    def _ended(self) -> bool:
        return not any(container.alive() for container in self.containers)


@dataclass(slots=True)
class ThrottledBrokers(ContainedBrokers):
    """Brokers with a share of a processor; they do everything, late."""

    cpus: float
    before: dict[str, int] = field(default_factory=dict)

    def inject(self) -> None:
        """Limit them."""
        for container in self.containers:
            self.before[container.spec.name] = _throttled(container)["throttled_periods"]
            container.limit(cpu_period=_PERIOD_US, cpu_quota=round(self.cpus * _PERIOD_US))

    def proof(self) -> Proof:
        """Each wanted more than it got: the kernel has counted the periods in which it had to wait."""
        with suppress(DeadlineError):  # the facts say so
            clock.wait_until(
                lambda: all(self._since().values()),
                within_s=min(self.hold_s, _THROTTLED_WITHIN_S),
                reason="the brokers to want more than they get",
            )
        since = self._since()
        return Proof(
            len(since) == len(self.broker_ids) and all(since.values()), {"cpus": self.cpus, "throttled_periods": since}
        )

    def heal(self) -> None:
        """Let them have what there is, and return when they serve."""
        for container in self.containers:
            container.limit(cpu_period=_PERIOD_US, cpu_quota=_NO_LIMIT)
        wait_until_serving(self.system, self.broker_ids)

    def _since(self) -> dict[str, int]:
        now = {container.spec.name: _throttled(container)["throttled_periods"] for container in self.containers}
        return {name: now[name] - before for name, before in self.before.items()}


def _needed(container: Contained) -> int:
    """Bytes that it cannot give back: no page cache (``rss`` in version 1 of control groups, ``anon`` in version 2)."""
    stats = container.usage()["memory_stats"]["stats"]
    return int(stats["anon"] if "anon" in stats else stats["total_rss"])


def _throttled(container: Contained) -> Mapping[str, Any]:
    counters: Mapping[str, Any] = container.usage()["cpu_stats"]["throttling_data"]
    return counters


def _is_lost(address: Address) -> bool:
    """Whether packets to an address vanish: no answer, or the word of our own kernel that nobody is there to ask."""
    try:
        with socket.create_connection(address, timeout=_LOST_WITHIN_S):
            return False
    except TimeoutError:
        return True
    except OSError as error:
        return error.errno == errno.EHOSTUNREACH


_STOPS_WITHIN_S = 30.0
_FULL_WITHIN_S = 60.0
_NO_SPACE = b"No space left on device"


class LimitDisk(RestartedBrokerFault):
    """A broker comes back on a disk with little room, fills it, and gives up; when it has, it gets its own disk back.

    Unlike `log_dir_full` this is a real ``No space left on device``: the log directory is on a file system of that size.
    """

    needs = frozenset({Capability.BROKER_CONTAINERS})
    without = "log_dir_full keeps its files from growing"
    provokes = "No space left on device (KIP-112)"
    proved_by = "the broker ended by itself, and its log says that no space was left"
    kind: Literal["limit_disk"]
    room_bytes: Size = Field(alias="room", default=500_000)

    def describe(self) -> str:
        return f"limit_disk of {self.target} to {text_of_size(self.room_bytes)} more, {self.restarted}"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        broker_ids, target = resolve_brokers(self.target, context, rng)
        containers = dict(zip(broker_ids, contained(context.system, broker_ids), strict=True))
        return CrampedBrokers(target, self.restart_after_s, context.system, containers, self.room_bytes)


@dataclass(slots=True)
class CrampedBrokers(Injection):
    """Brokers that came back on a small disk, and have their own again after the heal.

    Attributes:
        containers: number -> the broker on its own disk.
        cramped: number -> the same broker on the small one.
        logs_from: number -> where the log of the broker on the small disk begins.
    """

    system: System
    containers: dict[int, Contained]
    room_bytes: int
    cramped: dict[int, Process] = field(default_factory=dict)
    logs_from: dict[int, int] = field(default_factory=dict)

    def inject(self) -> None:
        """Move them: a controlled shutdown, a copy, a start."""
        kafka = self.system.kafka
        for number, container in self.containers.items():
            container.stop(_STOPS_WITHIN_S)
            self.logs_from[number] = container.spec.log.stat().st_size
            self.cramped[number] = container.on_small_disk(kafka.data(number), self.room_bytes)
            kafka.processes[number] = self.cramped[number]

    def proof(self) -> Proof:
        """Each has ended by itself, and says why: there was no space left."""
        with suppress(DeadlineError):  # the exit codes say so
            clock.wait_until(self._gave_up, within_s=_FULL_WITHIN_S, reason="the brokers to fill their disks")
        exits = {process.spec.name: process.exit_code() for process in self.cramped.values()}
        full = [f"broker-{number}" for number in self.cramped if _NO_SPACE in self._said(number)]
        effective = all(code is not None and code > 0 for code in exits.values()) and len(full) == len(self.containers)
        return Proof(effective, {"exit_codes": exits, "no_space_left": full, "room_bytes": self.room_bytes})

    def heal(self) -> None:
        """End those that have not filled it, start all on their own disks, and return when they serve."""
        for number, process in self.cramped.items():
            if process.alive():
                process.stop(_STOPS_WITHIN_S)
            self.system.kafka.processes[number] = self.containers[number]
        start_again(self.system, list(self.containers))

    def _gave_up(self) -> bool:
        return not any(process.alive() for process in self.cramped.values())

    def _said(self, number: int) -> bytes:
        with self.containers[number].spec.log.open("rb") as log:
            log.seek(self.logs_from[number])
            return log.read()
