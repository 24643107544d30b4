"""Faults of brokers in containers: off the network, off the processor, out of memory; a full disk is in `containers_disk`.

Docker does them; what they came to is read elsewhere: on the wire, in the counters of the control group, from the exit code.
"""

import errno
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

import psutil

from chaos.cluster import protocol
from chaos.cluster.addresses import Address
from chaos.cluster.system import System
from chaos.common import clock
from chaos.common.errors import DeadlineError, InjectionError
from chaos.faults.base import Injection, Prepare, Proof, Scene
from chaos.faults.broker_processes import SIGKILLED, start_again, wait_until_serving
from chaos.faults.declared.containers import Disconnect, Freeze, LimitCpu, OutOfMemory
from chaos.faults.targets import resolve_brokers
from chaos.runtime.base import Contained

_LOST_WITHIN_S = 0.7
_PERIOD_US = 100_000
_NO_LIMIT = -1
_MARGIN_BYTES = 32 << 20  # half of what `crowd` takes
_KILLED_WITHIN_S = 10.0
_THROTTLED_WITHIN_S = 20.0


def prepare_disconnect(fault: Disconnect, scene: Scene, rng: Random) -> Injection:
    """Aim a `Disconnect`."""
    broker_ids, target = resolve_brokers(fault.target, scene, rng)
    return DisconnectedBrokers(target, fault.for_s, scene.system, broker_ids, contained(scene.system, broker_ids))


def prepare_freeze(fault: Freeze, scene: Scene, rng: Random) -> Injection:
    """Aim a `Freeze`."""
    broker_ids, target = resolve_brokers(fault.target, scene, rng)
    return FrozenBrokers(target, fault.for_s, scene.system, broker_ids, contained(scene.system, broker_ids))


def prepare_out_of_memory(fault: OutOfMemory, scene: Scene, rng: Random) -> Injection:
    """Aim an `OutOfMemory`."""
    broker_ids, target = resolve_brokers(fault.target, scene, rng)
    return StarvedBrokers(target, fault.restart_after_s, scene.system, broker_ids, contained(scene.system, broker_ids))


def prepare_limit_cpu(fault: LimitCpu, scene: Scene, rng: Random) -> Injection:
    """Aim a `LimitCpu`."""
    broker_ids, target = resolve_brokers(fault.target, scene, rng)
    return ThrottledBrokers(target, fault.for_s, scene.system, broker_ids, contained(scene.system, broker_ids), fault.cpus)


def contained(system: System, broker_ids: list[int]) -> list[Contained]:
    """The brokers' containers.

    Raises:
        InjectionError: they have none.
    """
    processes = [system.kafka.brokers.processes[number] for number in broker_ids]
    found = [process for process in processes if isinstance(process, Contained)]
    if len(found) < len(processes):
        raise InjectionError("these brokers run in no containers: run the scenario with --chaos-runtime containers")
    return found


@dataclass(slots=True)
class DisconnectedBrokers:
    """Brokers off the network; they run on, and know nothing of it but silence."""

    target: str
    hold_s: float
    system: System
    broker_ids: list[int]
    containers: list[Contained]

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
class FrozenBrokers:
    """Brokers that get no processor: their kernel answers for them, they do not."""

    target: str
    hold_s: float
    system: System
    broker_ids: list[int]
    containers: list[Contained]

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
        bit = len(frozen) == len(silent) == len(open_) == len(self.broker_ids)
        return Proof(bit, {"frozen": frozen, "unanswered": silent, "accepted": open_})

    def heal(self) -> None:
        """Let them run on, and return when they serve."""
        for container in self.containers:
            container.thaw()
        wait_until_serving(self.system, self.broker_ids)


@dataclass(slots=True)
class StarvedBrokers:
    """Brokers that the kernel kills because their containers want more memory than they may have.

    The limit is what they cannot give back and a little more; then something else in the container takes what is left. A JVM
    that has all it needs would live for ever at its limit.
    """

    target: str
    hold_s: float
    system: System
    broker_ids: list[int]
    containers: list[Contained]
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
        bit = set(exits.values()) == {SIGKILLED} and len(killed) == len(self.broker_ids)
        return Proof(bit, {"exit_codes": exits, "out_of_memory": killed, "limits_bytes": self.limits})

    def heal(self) -> None:
        """Give them all the memory there is, start those that do not run, and return when they serve."""
        total = psutil.virtual_memory().total
        for container in self.containers:
            container.limit(mem_limit=total, memswap_limit=total)
        start_again(self.system, self.broker_ids)

    def _ended(self) -> bool:
        return not any(container.alive() for container in self.containers)


@dataclass(slots=True)
class ThrottledBrokers:
    """Brokers with a share of a processor; they do everything, late."""

    target: str
    hold_s: float
    system: System
    broker_ids: list[int]
    containers: list[Contained]
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


CATALOGUE: Mapping[type, Prepare] = {
    Disconnect: prepare_disconnect,
    Freeze: prepare_freeze,
    LimitCpu: prepare_limit_cpu,
    OutOfMemory: prepare_out_of_memory,
}
