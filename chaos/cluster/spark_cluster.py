"""What a Spark cluster is to a run: our own master and workers (`chaos.cluster.spark`), or one that is already there."""

from collections.abc import Mapping
from typing import Protocol

from chaos.cluster.spark import Executor
from chaos.runtime.base import Process


class SparkCluster(Protocol):
    """Where the pipeline's driver goes, and what of it can be seen from here.

    What is done to master and workers needs those of our own; it is refused elsewhere when the scenario is read.
    """

    @property
    def numbers(self) -> tuple[int, ...]:
        """Of the workers that are ours."""
        ...

    @property
    def master(self) -> str:
        """What a driver connects to."""
        ...

    @property
    def driver_host(self) -> str:
        """The address that a driver binds to, and that executors connect back to."""
        ...

    @property
    def java_options(self) -> str:
        """For drivers and executors."""
        ...

    @property
    def options(self) -> Mapping[str, str]:
        """Further settings of an application."""
        ...

    @property
    def master_process(self) -> Process:
        """The master, where it is ours."""
        ...

    @property
    def workers(self) -> dict[int, Process]:
        """The workers that are ours, by number."""
        ...

    def start(self) -> None:
        """Start what is ours of it."""
        ...

    def wait_until_ready(self) -> None:
        """Return when it can be used."""
        ...

    def unhealthy(self) -> list[str]:
        """What is wrong now, in words."""
        ...

    def registered(self) -> int:
        """How many workers the master knows to be alive."""
        ...

    def applications(self) -> list[str]:
        """Ids of the applications that the master knows to run."""
        ...

    def forget(self) -> None:
        """Remove what the master has written down; it must not run."""
        ...

    def executors(self) -> list[Executor]:
        """Executors that run on this machine now, ordered by application and id."""
        ...
