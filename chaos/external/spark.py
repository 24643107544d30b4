"""A Spark cluster that is already there: the address of its master, and those executors that run on this machine.

This repository's tests cover ``spark://`` and ``local[N]``; ``yarn`` and ``k8s://`` are passed on to Spark as they are.
"""

import re
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import psutil

from chaos.cluster.spark import Executor, executor_of
from chaos.common import clock
from chaos.common.errors import RuntimeUnavailableError
from chaos.runtime.base import Process

_URL = re.compile(r"spark://(.+):([0-9]+)")
_ASK_S = 5.0


@dataclass(frozen=True, slots=True)
class ExternalSpark:
    """A `chaos.cluster.spark.SparkCluster` of which no process is ours; `is_here` says that executors run on this machine."""

    master: str
    driver_host: str
    java_options: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    is_here: bool = False
    worker_ids: tuple[int, ...] = ()

    @property
    def workers(self) -> dict[int, Process]:
        return {}

    @property
    def master_process(self) -> Process:
        raise LookupError(f"the master {self.master} is not a process of ours")

    def start(self) -> None:
        """It runs already."""

    def wait_until_ready(self) -> None:
        """Return when its master can be reached.

        Raises:
            DeadlineError: it cannot.
        """
        clock.wait_until(lambda: not self.unhealthy(), within_s=10, reason="Spark's master", every_s=0.5, seen=self.unhealthy)

    def check(self) -> None:
        """Raise RuntimeUnavailableError if the master cannot be reached; only Spark can find those of YARN and Kubernetes."""
        wrong = self.unhealthy()
        if wrong:
            raise RuntimeUnavailableError(f"{wrong[0]}; check spark: {{master: …}} in the external file, and the network")

    def unhealthy(self) -> list[str]:
        """Why a ``spark://`` master cannot be reached; of several addresses, one is enough."""
        wrong = []
        for one in self.master.removeprefix("spark://").split(",") if self.master.startswith("spark://") else ():
            url = _URL.fullmatch(f"spark://{one}")
            if url is None:
                return [f"spark://{one} is not the address of a master"]
            try:
                with socket.create_connection((url[1], int(url[2])), timeout=_ASK_S):
                    return []
            except OSError as error:
                wrong.append(f"Spark's master spark://{one} cannot be reached: {error}")
        return wrong

    def registered(self) -> int:
        return 0

    def applications(self) -> list[str]:
        return []

    def forget(self) -> None:
        raise LookupError(f"the recovery files of the master {self.master} are not ours to remove")

    def executors(self) -> list[Executor]:
        """All executors on this machine, of any application; a fault selects those of the pipeline's own."""
        found = list(_executors()) if self.is_here else []
        return sorted(found, key=lambda executor: (executor.app, executor.id))


def _executors() -> Iterator[Executor]:
    for process in psutil.process_iter():
        executor = executor_of(process)
        if executor is not None:
            yield executor
