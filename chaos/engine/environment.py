"""The environment of a session: the parts, the runtime and the system, made when they are first needed, and ended for sure.

Scenarios share the system as long as it is healthy and they declare the same one; otherwise it is rebuilt.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from chaos.cluster.system import Place, System
from chaos.common import files, signals, warden
from chaos.common.errors import DeadlineError
from chaos.engine import runtimes, systems
from chaos.external.declaration import External
from chaos.install import artifacts, jars, packages, preflight, spark_versions
from chaos.install.artifacts import Parts
from chaos.install.packages import Fetched, Registry
from chaos.runtime.base import Runtime
from chaos.scenario.system import SystemSpec

Echo = Callable[[str], None]
_DRIVERS_GIB = 2.0  # for the pipeline and the judge; brokers and workers of an external system are elsewhere


@dataclass(slots=True)
class Environment:
    """The system and its runtime.

    Attributes:
        runs: the folder for its folders.
        echo: called with lines for people about every action.
        runtime: one of `chaos.runtime.capabilities.RUNTIMES`.
        external: the existing system, if one is to be used.
        ups_s: seconds that each start of a system took.
        parts: the parts of this environment; None before the first system.
    """

    runs: Path
    echo: Echo
    runtime: str = "local"
    external: External | None = None
    ups_s: list[float] = field(default_factory=list)
    parts: Parts | None = None
    _runtime: Runtime | None = None
    _system: System | None = None
    _spec: SystemSpec | None = None

    def system(self, spec: SystemSpec, *, with_spark: bool = True) -> System:
        """Return a healthy system: the running one, if it fits the declaration, or a new one.

        Args:
            with_spark: whether Spark's daemons are needed; they are started at the first need.

        Raises:
            RuntimeUnavailableError: it cannot be started.
        """
        with signals.never_lost():
            system = self._healthy(spec, with_spark=with_spark)
            if with_spark:
                system.start_spark(self.echo)
            return system

    def _healthy(self, spec: SystemSpec, *, with_spark: bool) -> System:
        if self._system is not None and self._spec != spec and self.external is None:
            self.echo("the next scenario declares another system, so the running one is ended")
            self.close()
        self._spec = spec
        if self._system is not None and not _heals(self._system):
            self.echo(f"the system is not healthy and is rebuilt: {'; '.join(self._system.unhealthy())}")
            self.close()
        if self._system is None:
            self.close()  # if the one before failed to start, its warden still waits
            self._system = self._started(spec, with_spark=with_spark)
        return self._system

    def packages(self, registry: Registry | None) -> Fetched:
        """Return the packages of a pipeline; there must have been a system.

        Raises:
            RuntimeUnavailableError: they cannot be fetched.
        """
        assert self.parts is not None  # noqa: S101 - a slip of ours, not of the user
        return packages.ensure(registry, jars.Ivy(self.parts.java, spark_versions.home_here()), self.echo)

    def logs(self) -> list[Path]:
        """Logs of brokers, Toxiproxy and Spark's daemons, without the brokers' data, whose files have this ending too."""
        if self._system is None:
            return []
        return sorted(path for pattern in ("*.log", "spark/*.log") for path in self._system.folder.glob(pattern))

    def close(self) -> None:
        """End the system and remove its data; its logs stay. The next call of `system` starts a new one."""
        if self._runtime is not None:
            self._runtime.close()
        if self._system is not None:
            for data in (*self._system.folder.glob("broker-*/"), *self._system.folder.glob("spark/*/")):
                shutil.rmtree(data, ignore_errors=True)
        self._runtime = self._system = None

    def _started(self, spec: SystemSpec, *, with_spark: bool) -> System:
        needed_gib = preflight.MEMORY_GIB if self.external is None else _DRIVERS_GIB
        preflight.check_machine(artifacts.cache_folder(), self.runs, memory_gib=needed_gib)
        for name in warden.leftovers(runtimes.session_files()):
            self.echo(f"ended {name}, left by an earlier crash")
        self.parts = parts = artifacts.ensure(self.echo)
        if self.external is None:
            parts = artifacts.of_spark(spec.spark.version, parts, self.echo)
        self._runtime, plan_of_addresses = runtimes.opened(self.runtime, self.runs, self.echo)
        place = Place(self._runtime, parts, plan_of_addresses, files.new_folder(self.runs, "system"))
        # before the start, so that `close` removes the data of a system that does not come up
        self._system = system = systems.described(spec, self.external, place, self.echo)
        system.start(self.echo, with_spark=with_spark)
        self.ups_s.append(system.up_s)
        return system


def _heals(system: System) -> bool:
    try:
        system.wait_until_healthy()
    except DeadlineError:
        return False
    return True
