"""Faults of a service: a server beside Kafka dies in the middle of its work, and is started again."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from pydantic import Field

from chaos.common import processes
from chaos.faults.base import FaultContext, Injection, Proof, RestartedFault, ServiceUnderTest
from chaos.grammar.targets import ServiceName
from chaos.grammar.units import Seconds
from chaos.runtime.capabilities import Capability


class CrashService(RestartedFault):
    """A service that the run has started is killed with SIGKILL, with all of its processes, and started again by its command.

    The service itself recovers its state, or loses it: a database recovers its commits, a file server may forget which files it
    gave.
    """

    needs = frozenset({Capability.PIPELINE, Capability.SERVICES})
    provokes = "connections that end in the middle of a transaction whose fate the client does not know"
    proved_by = "none of its processes is alive, and connections are refused"
    kind: Literal["crash_service"]
    service: ServiceName
    """the name of a service with a command (`run`) in `system: services`."""
    restart_after_s: Seconds = Field(alias="restart_after", default=2.0)

    @property
    def aim(self) -> str:
        return f"service({self.service})"

    def prepare(self, context: FaultContext, rng: Random) -> Injection:
        return CrashedService(self.aim, self.restart_after_s, context.service(self.service))


@dataclass(slots=True)
class CrashedService(Injection):
    """A service that is gone until the heal.

    Attributes:
        pids: those of the killed processes.
    """

    service: ServiceUnderTest
    pids: Mapping[str, int] = field(default_factory=dict)

    def inject(self) -> None:
        self.pids = self.service.crash()

    def proof(self) -> Proof:
        alive = processes.living(self.pids)
        refused = self.service.refuses()
        return Proof(bool(self.pids) and not alive and refused, {"pids": self.pids, "alive": alive, "refused": refused})

    def heal(self) -> None:
        self.service.restart()
