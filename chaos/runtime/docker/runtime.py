"""The system in containers: processes with the command lines of the local runtime, each in a container on the run's network.

    pytest ─┐ on the bridge                network chaos-…: 172.31.0.0/16, the plan of addresses unchanged
            ├── machine 172.31.0.1 ◀── toxiproxy          machine: an address that stays (`network`)
            ├── machine 172.31.1.1 ◀── broker-1           process: a container on it, killed, stopped, started again
            ├── machine 172.31.0.11 ◀─ worker-1 ── executors, Python workers
            └── loader                                    no other process connects to it: any address

Containers run on this machine: it sees their processes by pid, so faults of executors find them as usual.

A container sees the same folders as this machine at the same paths, most of them read-only. So a process has the same command
line in a container, and runs the same builds of Java, Python and jars: class archives fit, and ``versions.json`` is right. The
image provides what is below them, such as the C library.

    read-only   the project, its virtual environment and the Python below it, the JDK, the cache of parts, the working directory
    writable    the folder of runs, and the folders that a process names

A user's image (`kind: container`) is different: it sees its log, and nothing else of this machine.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from testcontainers.core.container import DockerContainer

from chaos.common.errors import RuntimeUnavailableError
from chaos.common.warden import SESSION_VARIABLE, Session
from chaos.contract.base import Image
from chaos.install import cache, preflight
from chaos.runtime.base import ProcessSpec
from chaos.runtime.docker import engine, network
from chaos.runtime.docker.engine import asking
from chaos.runtime.docker.network import Machine
from chaos.runtime.docker.process import REAL, ContainerProcess, Disk, on_disk

_INTO_LOG = 'exec "$@" >>"$0" 2>&1'  # Docker's own log is not a file of ours
_PROJECT = Path(__file__).parents[3]
_USERS = (Path("/etc/passwd"), Path("/etc/group"))  # a JVM does not start Spark for a user without a name
_OF_THE_IMAGE = tuple(map(Path, ("/", "/usr", "/etc", "/bin", "/lib", "/opt", "/home", "/tmp", "/var")))  # noqa: S108 - compared


class ContainerRuntime:
    """Starts processes in containers; the session's warden removes them when pytest ends, however it ends.

    Attributes:
        net: the first two bytes of all addresses.
    """

    def __init__(self, client: Any, image: str, sessions: Path, runs: Path) -> None:
        """Open a session and make its network.

        Args:
            client: of the Docker daemon; closed with the session.
            image: the image of every container.
            sessions: the folder of session files.
            runs: the folder that processes may write to.
        """
        self._client = client
        self._image = image
        self._runs = runs
        self.session = Session(sessions, engine.__name__)
        self._labels = engine.labels(self.session.id)
        try:
            self._network, self.net = network.create(self.session.id, self._labels)
        except RuntimeUnavailableError:
            self.session.close()
            raise
        self._shared = read_only(preflight.find_java(), cache.folder())
        self._machines: dict[str, Machine] = {}
        self._containers: list[DockerContainer] = []

    def check_free(self, addresses: Iterable[tuple[str, int]]) -> None:
        """Nothing to check: only this run listens on its own network."""

    def start(self, spec: ProcessSpec) -> ContainerProcess:
        return self._start(spec, None)

    def _start_on(self, spec: ProcessSpec, disk: Disk) -> ContainerProcess:
        return self._start(on_disk(spec, disk), disk)

    def _start(self, spec: ProcessSpec, disk: Disk | None) -> ContainerProcess:
        return self._of_an_image(spec, spec.image) if spec.image else self._of_this_machine(spec, disk)

    def _of_an_image(self, spec: ProcessSpec, image: Image) -> ContainerProcess:
        """Start a process that sees nothing of this machine but its log, with the user of its image."""
        own = entrypoint(engine.configuration(self._client, image.name), spec.argv)
        writable(spec, self._runs)
        spec.log.chmod(0o666)
        container = self._new(spec.name, image.name)
        container.with_command([])
        container.with_envs(**{**spec.env, SESSION_VARIABLE: self.session.id})
        container.with_volume_mapping(spec.log, str(spec.log), "rw")
        container.with_kwargs(
            **self._network_of(None),
            entrypoint=["sh", "-c", _INTO_LOG, str(spec.log), *image.around, *own],
            labels=self._labels,
            init=True,
            stop_signal="SIGTERM",
            security_opt=["no-new-privileges"],
        )
        with asking(f"start {spec.name}, the image {image.name}"):
            container.start()
        process = ContainerProcess(spec, container.get_wrapped_container(), None, self._start_on)
        self.session.record(process.pid, spec.name)
        return process

    def _of_this_machine(self, spec: ProcessSpec, disk: Disk | None) -> ContainerProcess:
        written = writable(spec, self._runs)
        machine = self._machine(spec.hosts) if spec.hosts else None
        container = self._new(spec.name)
        container.with_command(["sh", "-c", _INTO_LOG, str(spec.log), *spec.argv])
        container.with_envs(**{**environment(), **spec.env, SESSION_VARIABLE: self.session.id})
        for path in self._shared:
            container.with_volume_mapping(path, str(path), "ro")
        for path in written:
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
            RuntimeUnavailableError: something cannot be removed; the message names it.
        """
        with closing(self._client):
            engine.sweep(self._client, self.session.id)
            left = engine.belongings(self._client, self.session.id)
        for container in self._containers:
            container.get_docker_client().client.close()
        self.session.close()
        if left:
            raise RuntimeUnavailableError(
                f"left behind in Docker: {', '.join(left)}; see what uses it (docker network inspect), and remove it by hand"
            )

    def _machine(self, hosts: tuple[str, ...]) -> Machine:
        """Return the machine at an address; two processes at one address share it."""
        if hosts[0] not in self._machines:
            base = self._new(f"at-{hosts[0]}")
            self._machines[hosts[0]] = network.switch_on(base, self._client, self._network, hosts, self._labels)
        return self._machines[hosts[0]]

    def _network_of(self, machine: Machine | None) -> dict[str, Any]:
        if machine is None:
            return network.at_address(self._client, self._network, "")
        return {"network_mode": f"container:{machine.container.id}"}

    def _new(self, name: str, image: str = "") -> DockerContainer:
        """Describe a container that is not started yet."""
        container = DockerContainer(image or self._image, name=f"chaos-{self.session.id[:8]}-{len(self._containers)}-{name}")
        container.image = image or self._image  # it is here: without the prefix of a registry
        self._containers.append(container)
        return container


def open_runtime(sessions: Path, runs: Path, echo: Callable[[str], None]) -> ContainerRuntime:
    """Check the Docker daemon, remove what earlier crashes left behind, and open a session.

    Raises:
        RuntimeUnavailableError: there is no usable Docker, or no image.
    """
    client = engine.connect()
    for name in engine.leftovers(client):
        echo(f"removed {name} from Docker, left by an earlier crash")
    image = engine.check_image(client)
    engine.choose_reaper(client)
    return ContainerRuntime(client, image, sessions, runs)


def read_only(java: Path, parts: Path) -> tuple[Path, ...]:
    """Return the folders that every process may read.

    Args:
        java: the binary.
        parts: the folder of parts (`chaos.install.cache`).
    """
    python = (Path(sys.prefix), Path(sys.base_prefix), *map(Path, sys.path))
    home = java.parent.parent
    return outermost((_PROJECT, Path.cwd(), parts, home, *_linked_from(home), *python, *_USERS))


def writable(spec: ProcessSpec, runs: Path) -> tuple[Path, ...]:
    """Make and return the folders that this process may write to, and make its log: Docker would make missing ones for root."""
    folders = (runs, spec.cwd, spec.log.parent)
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    spec.log.touch()  # it is read before the container starts
    return outermost(folders)


def entrypoint(configuration: Mapping[str, Any], given: Sequence[str]) -> tuple[str, ...]:
    """Return the command that runs in a container of an image.

    Args:
        configuration: that of the image, as Docker has it.
        given: arguments of the entrypoint, in place of the image's own; empty for those.

    Raises:
        RuntimeUnavailableError: the image has no command.
    """
    words = (*(configuration.get("Entrypoint") or ()), *(given or configuration.get("Cmd") or ()))
    if not words:
        raise RuntimeUnavailableError("this image has neither an entrypoint nor a command; declare `command` in the pipeline")
    return words


def outermost(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Return the paths that exist, without folders that the image must bring itself, and without paths inside another one."""
    existing = {path.absolute() for path in paths if path.exists()} - set(_OF_THE_IMAGE)
    return tuple(sorted(path for path in existing if not existing & set(path.parents)))


def environment() -> dict[str, str]:
    """Return the variables that a container takes over from this process's environment."""
    kept = {name: os.environ[name] for name in ("PATH", "TZ", "CHAOS_CACHE") if name in os.environ}
    return {"HOME": "/tmp", "LANG": "C.UTF-8", **kept}  # noqa: S108 - the container's own


def _linked_from(home: Path) -> Iterator[Path]:
    """Yield the folders outside a JDK that its links lead to: Debian keeps its configuration in ``/etc``."""
    for path in home.rglob("*"):
        if path.is_symlink() and (target := path.resolve()).is_file() and home not in target.parents:
            yield target.parent
