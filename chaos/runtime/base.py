"""The interface of a runtime: start a process, and kill, stop, pause, resume or restart it."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import psutil

from chaos.common import processes
from chaos.common.processes import ProcessTree
from chaos.contract.base import Image


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """The description of a process to start.

    Attributes:
        name: unique in the session, e.g. ``broker-2``; also the name of its log.
        argv: the command.
        cwd: working directory; made if it is not there.
        env: added to the environment of the process that starts it.
        log: standard output and error, appended over restarts.
        hosts: the addresses that it listens on, its own first; empty if no other process connects to it.
        image: the user's image that it runs in; needs a runtime with containers.
    """

    name: str
    argv: tuple[str, ...]
    cwd: Path
    log: Path
    env: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold passwords
    hosts: tuple[str, ...] = ()
    image: Image | None = None


class Process(Protocol):
    """One process of the system under test. Every method is idempotent, and returns once it has taken effect."""

    spec: ProcessSpec

    @property
    def pid(self) -> int:
        """The pid of its last start."""
        ...

    def alive(self) -> bool:
        """Whether it runs or is paused."""
        ...

    def paused(self) -> bool:
        """Whether it is stopped by SIGSTOP."""
        ...

    def exit_code(self) -> int | None:
        """Its exit code, negative for a signal; None while it lives."""
        ...

    def start(self) -> None:
        """Start it again if it has ended."""
        ...

    def kill(self) -> None:
        """Send SIGKILL, and wait until it is gone."""
        ...

    def kill_tree(self) -> dict[str, int]:
        """Send SIGKILL to it and to everything it started; return name -> pid of the processes that were alive."""
        ...

    def running(self, command: str) -> dict[str, int]:
        """Name -> pid of the processes in its tree whose command line contains a text (`processes.running`)."""
        ...

    def pause_tree(self) -> dict[str, int]:
        """Send SIGSTOP to it and to everything it started; return name -> pid of the processes that were alive."""
        ...

    def resume_tree(self) -> None:
        """Send SIGCONT to it and to everything it started."""
        ...

    def stop(self, within_s: float = 10) -> None:
        """Send SIGTERM, then SIGKILL if it has not ended by then."""
        ...

    def pause(self) -> None:
        """Send SIGSTOP."""
        ...

    def resume(self) -> None:
        """Send SIGCONT."""
        ...


class VisibleProcess(ABC):
    """Base of processes that this machine sees by pid, wherever they run: signals to one, and to its process tree."""

    spec: ProcessSpec

    @abstractmethod
    def alive(self) -> bool: ...

    @abstractmethod
    def kill(self) -> None: ...

    @abstractmethod
    def _process(self) -> psutil.Process:
        """The process as this machine sees it.

        Raises:
            psutil.NoSuchProcess: it is gone.
        """

    def pause(self) -> None:
        self._process().suspend()

    def resume(self) -> None:
        """Send SIGCONT; a process that is gone is left alone."""
        if self.alive():
            with contextlib.suppress(psutil.NoSuchProcess):
                self._process().resume()

    def kill_tree(self) -> dict[str, int]:
        tree = self._tree()
        processes.kill(tree)
        self.kill()
        return processes.pids(tree)

    def running(self, command: str) -> dict[str, int]:
        return processes.pids(processes.running(self._tree(), command))

    def pause_tree(self) -> dict[str, int]:
        tree = self._tree()
        processes.pause(tree)
        return processes.pids(tree)

    def resume_tree(self) -> None:
        processes.resume(self._tree())

    def _tree(self) -> ProcessTree:
        """It and everything it started, by name; empty when it has ended."""
        if not self.alive():
            return {}
        try:
            return processes.tree_of(self.spec.name, self._process())
        except psutil.NoSuchProcess:
            return {}


@runtime_checkable
class Contained(Process, Protocol):
    """A process in a container of its own, with the operations that need a container. They are idempotent as well."""

    def disconnect(self) -> None:
        """Take its machine off the network."""
        ...

    def reconnect(self) -> None:
        """Put its machine back on the network, with the same address."""
        ...

    def freeze(self) -> None:
        """Give none of its processes any processor time (cgroup freezer)."""
        ...

    def thaw(self) -> None:
        """End the freeze."""
        ...

    def frozen(self) -> bool:
        """Whether the cgroup freezer keeps it from running."""
        ...

    def limit(self, **limits: int) -> None:
        """Change its limits, named as in Docker's ``update``: ``mem_limit``, ``cpu_quota``.

        Raises:
            RuntimeUnavailableError: Docker refuses them.
        """
        ...

    def crowd(self) -> None:
        """Take 64 MB of its memory, or all that is left."""
        ...

    def on_small_disk(self, folder: Path, room_bytes: int) -> Process:
        """Start a second one like it, with `folder` on a disk that has `room_bytes` left; this one must have ended."""
        ...

    def killed_by_memory(self) -> bool:
        """Whether the kernel ended its last life because it exceeded its memory limit."""
        ...

    def usage(self) -> Mapping[str, Any]:
        """The counters of its control group, named as in Docker's ``stats``."""
        ...


class Runtime(Protocol):
    """Starts processes, and makes sure that none outlives the session."""

    def check_free(self, addresses: Iterable[tuple[str, int]]) -> None:
        """Make sure that nothing listens on these addresses yet.

        Raises:
            RuntimeUnavailableError: something does.
        """
        ...

    def start(self, spec: ProcessSpec) -> Process: ...

    def close(self) -> None:
        """End everything that was started here."""
        ...
