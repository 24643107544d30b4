"""The system in containers: the same processes with the same command lines, each in a container on the run's own network.

    pytest ─┐ on the bridge                network chaos-…: 172.31.0.0/16, the plan of addresses as it is
            ├── machine 172.31.0.1 ◀── toxiproxy          machine: an address that stays (`containers_machine`)
            ├── machine 172.31.1.1 ◀── broker-1           process: a container on it, killed, stopped, started again
            ├── machine 172.31.0.11 ◀─ worker-1 ── executors, Python workers
            └── loader                                    nobody connects to it: any address

Containers are on this machine: their processes are seen from here by pid, and faults of executors find them there as ever.
"""

import os
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from testcontainers.core.container import DockerContainer

from chaos.common.errors import RuntimeUnavailableError
from chaos.common.warden import SESSION_VARIABLE, Session
from chaos.install import cache, preflight
from chaos.runtime.base import ProcessSpec
from chaos.runtime.docker import cleanup, engine, mounts, network
from chaos.runtime.docker.disk import REAL, Disk, on_disk
from chaos.runtime.docker.engine import asking
from chaos.runtime.docker.machine import Machine, switch_on
from chaos.runtime.docker.process import ContainerProcess

_WARDEN = "chaos.runtime.docker.warden"
_INTO_LOG = 'exec "$@" >>"$0" 2>&1'  # Docker's own log is no file of ours


class ContainerRuntime:
    """Starts processes in containers; the session's warden removes them when the harness ends, however it ends.

    Attributes:
        net: the first two bytes of all addresses.
    """

    def __init__(self, client: Any, image: str, sessions: Path, runs: Path) -> None:
        """Open a session and make its network.

        Args:
            client: of the daemon; closed with the session.
            image: what containers are made of.
            sessions: the folder of session files.
            runs: the folder that processes may write to.
        """
        self._client = client
        self._image = image
        self._runs = runs
        self.session = Session(sessions, _WARDEN)
        self._labels = cleanup.labels(self.session.id)
        try:
            self._network, self.net = network.create(self.session.id, self._labels)
        except RuntimeUnavailableError:
            self.session.close()
            raise
        self._shared = mounts.read_only(preflight.find_java(), cache.folder())
        self._machines: dict[str, Machine] = {}
        self._containers: list[DockerContainer] = []

    def check_free(self, addresses: Iterable[tuple[str, int]]) -> None:
        """Nothing to look for: on the run's own network nobody listens but the run."""

    def start(self, spec: ProcessSpec) -> ContainerProcess:
        """Start one process."""
        return self._start(spec, None)

    def _start_on(self, spec: ProcessSpec, disk: Disk) -> ContainerProcess:
        return self._start(on_disk(spec, disk), disk)

    def _start(self, spec: ProcessSpec, disk: Disk | None) -> ContainerProcess:
        writable = mounts.writable(spec, self._runs)
        machine = self._machine(spec.hosts) if spec.hosts else None
        container = self._new(spec.name)
        container.with_command(["sh", "-c", _INTO_LOG, str(spec.log), *spec.argv])
        container.with_envs(**{**mounts.environment(), **spec.env, SESSION_VARIABLE: self.session.id})
        for path in self._shared:
            container.with_volume_mapping(path, str(path), "ro")
        for path in writable:
            container.with_volume_mapping(path, str(path), "rw")
        if disk is not None:
            container.with_volume_mapping(disk.folder, REAL, "rw")
            container.with_tmpfs_mount(str(disk.folder), f"size={disk.size_bytes},mode=0777")
        container.with_kwargs(
            **self._network_of(machine),
            labels=self._labels,
            user=f"{os.getuid()}:{os.getgid()}",
            working_dir=str(spec.cwd),
            init=True,
            security_opt=["no-new-privileges"],
        )
        with asking(f"start {spec.name}"):
            container.start()
        process = ContainerProcess(spec, container.get_wrapped_container(), machine, self._start_on)
        self.session.record(process.pid, spec.name)
        return process

    def close(self) -> None:
        """Remove everything of this session.

        Raises:
            RuntimeUnavailableError: something cannot be removed; each is named.
        """
        with closing(self._client):
            cleanup.sweep(self._client, self.session.id)
            left = cleanup.belongings(self._client, self.session.id)
        for container in self._containers:
            container.get_docker_client().client.close()
        self.session.close()
        if left:
            raise RuntimeUnavailableError(
                f"left behind in Docker: {', '.join(left)}; see who uses it (docker network inspect), and remove it by hand"
            )

    def _machine(self, hosts: tuple[str, ...]) -> Machine:
        """The machine at an address; two processes that live at the same one share it."""
        if hosts[0] not in self._machines:
            base = self._new(f"at-{hosts[0]}")
            self._machines[hosts[0]] = switch_on(base, self._client, self._network, hosts, self._labels)
        return self._machines[hosts[0]]

    def _network_of(self, machine: Machine | None) -> dict[str, Any]:
        if machine is None:
            return network.fixed(self._client, self._network, "")
        return {"network_mode": f"container:{machine.container.id}"}

    def _new(self, name: str) -> DockerContainer:
        """A container that is not started yet."""
        container = DockerContainer(self._image, name=f"chaos-{self.session.id[:8]}-{len(self._containers)}-{name}")
        container.image = self._image  # built here: no registry's prefix
        self._containers.append(container)
        return container


def open_runtime(sessions: Path, runs: Path, echo: Callable[[str], None]) -> ContainerRuntime:
    """A runtime on a daemon that does, after what earlier crashes had left was removed.

    Raises:
        RuntimeUnavailableError: no Docker, or no image.
    """
    client = engine.connect()
    for name in cleanup.leftovers(client):
        echo(f"removed what an earlier crash had left in Docker: {name}")
    image = engine.check_image(client)
    engine.choose_reaper(client)
    return ContainerRuntime(client, image, sessions, runs)
