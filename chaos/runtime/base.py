"""What a runtime can do: start a process, and kill, stop, pause, resume or start it again."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """What to start.

    Attributes:
        name: unique in the session, e.g. ``broker-2``; also the name of its log.
        argv: the command.
        cwd: working directory; made if it is not there.
        env: added to the environment of the harness.
        log: standard output and error, appended over restarts.
        hosts: the addresses that it listens on, its own first; none for one that nobody connects to.
    """

    name: str
    argv: tuple[str, ...]
    cwd: Path
    log: Path
    env: Mapping[str, str] = field(default_factory=dict, repr=False)  # passwords may be in it
    hosts: tuple[str, ...] = ()


class Process(Protocol):
    """One process of the system under test. Every method is idempotent, and returns when its effect is there."""

    spec: ProcessSpec

    @property
    def pid(self) -> int:
        """Of the last start."""
        ...

    def alive(self) -> bool:
        """Whether it runs, or is paused."""
        ...

    def paused(self) -> bool:
        """Whether it is stopped by SIGSTOP."""
        ...

    def exit_code(self) -> int | None:
        """Negative for a signal; None while it lives."""
        ...

    def start(self) -> None:
        """Start it again if it is gone."""
        ...

    def kill(self) -> None:
        """SIGKILL, no last words."""
        ...

    def kill_tree(self) -> dict[str, int]:
        """SIGKILL to it and to everything it started; name -> pid of those that were there."""
        ...

    def pause_tree(self) -> dict[str, int]:
        """SIGSTOP to it and to everything it started; name -> pid."""
        ...

    def resume_tree(self) -> None:
        """SIGCONT to it and to everything it started."""
        ...

    def stop(self, within_s: float = 10) -> None:
        """SIGTERM, then SIGKILL."""
        ...

    def pause(self) -> None:
        """SIGSTOP."""
        ...

    def resume(self) -> None:
        """SIGCONT."""
        ...


@runtime_checkable
class Contained(Process, Protocol):
    """A process in a container of its own, and what can be done to it there. Idempotent as well."""

    def disconnect(self) -> None:
        """Take its machine off the network."""
        ...

    def reconnect(self) -> None:
        """Put it back, with the same address."""
        ...

    def freeze(self) -> None:
        """Take all its processes off the processor (cgroup freezer)."""
        ...

    def thaw(self) -> None:
        """Let them run on."""
        ...

    def frozen(self) -> bool:
        """Whether the kernel keeps it from running."""
        ...

    def limit(self, **limits: int) -> None:
        """Change its limits, in the words of Docker's ``update``: ``mem_limit``, ``cpu_quota``.

        Raises:
            RuntimeUnavailableError: they are refused.
        """
        ...

    def crowd(self) -> None:
        """Take 64 MB of its memory, or what is left of it."""
        ...

    def on_small_disk(self, folder: Path, room_bytes: int) -> Process:
        """Start a second one like it, with a folder of its own on a disk that has so much room left; end this one first."""
        ...

    def killed_by_memory(self) -> bool:
        """Whether the kernel killed it, in its last life, because it wanted more memory than it may have."""
        ...

    def usage(self) -> Mapping[str, Any]:
        """The counters of its control group, as Docker's ``stats`` call them."""
        ...


class Runtime(Protocol):
    """Starts processes, and sees to it that none outlives the harness."""

    def check_free(self, addresses: Iterable[tuple[str, int]]) -> None:
        """Nothing may listen where the system will.

        Raises:
            RuntimeUnavailableError: something does.
        """
        ...

    def start(self, spec: ProcessSpec) -> Process:
        """Start one."""
        ...

    def close(self) -> None:
        """End everything that was started here."""
        ...
