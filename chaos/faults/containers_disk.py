"""A broker in a container whose disk is full: a real one, of the size that is declared."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from chaos.cluster.system import System
from chaos.common import clock
from chaos.common.errors import DeadlineError
from chaos.faults.base import Injection, Prepare, Proof, Scene
from chaos.faults.broker_processes import start_again
from chaos.faults.containers import contained
from chaos.faults.declared.containers import LimitDisk
from chaos.faults.targets import resolve_brokers
from chaos.runtime.base import Contained, Process

_STOPS_WITHIN_S = 30.0
_FULL_WITHIN_S = 60.0
_NO_SPACE = b"No space left on device"


def prepare(fault: LimitDisk, scene: Scene, rng: Random) -> Injection:
    """Aim a `LimitDisk`."""
    broker_ids, target = resolve_brokers(fault.target, scene, rng)
    containers = dict(zip(broker_ids, contained(scene.system, broker_ids), strict=True))
    return CrampedBrokers(target, fault.restart_after_s, scene.system, containers, fault.room_bytes)


@dataclass(slots=True)
class CrampedBrokers:
    """Brokers that came back on a small disk, and have their own again after the heal.

    Attributes:
        containers: number -> the broker on its own disk.
        cramped: number -> the same broker on the small one.
        logs_from: number -> where the log of the broker on the small disk begins.
    """

    target: str
    hold_s: float
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
            self.cramped[number] = container.on_small_disk(kafka.brokers.data(number), self.room_bytes)
            kafka.brokers.processes[number] = self.cramped[number]

    def proof(self) -> Proof:
        """Each has ended by itself, and says why: there was no space left."""
        with suppress(DeadlineError):  # the exit codes say so
            clock.wait_until(self._gave_up, within_s=_FULL_WITHIN_S, reason="the brokers to fill their disks")
        exits = {process.spec.name: process.exit_code() for process in self.cramped.values()}
        full = [f"broker-{number}" for number in self.cramped if _NO_SPACE in self._said(number)]
        bit = all(code is not None and code > 0 for code in exits.values()) and len(full) == len(self.containers)
        return Proof(bit, {"exit_codes": exits, "no_space_left": full, "room_bytes": self.room_bytes})

    def heal(self) -> None:
        """End those that have not filled it, start all on their own disks, and return when they serve."""
        for number, process in self.cramped.items():
            if process.alive():
                process.stop(_STOPS_WITHIN_S)
            self.system.kafka.brokers.processes[number] = self.containers[number]
        start_again(self.system, list(self.containers))

    def _gave_up(self) -> bool:
        return not any(process.alive() for process in self.cramped.values())

    def _said(self, number: int) -> bytes:
        with self.containers[number].spec.log.open("rb") as log:
            log.seek(self.logs_from[number])
            return log.read()


CATALOGUE: Mapping[type, Prepare] = {LimitDisk: prepare}
