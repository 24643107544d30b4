"""What a runtime can do: start a process, and kill, stop, pause, resume or start it again."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """What to start.

    Attributes:
        name: unique in the session, e.g. ``broker-2``; also the name of its log.
        argv: the command.
        cwd: working directory; made if it is not there.
        env: added to the environment of the harness.
        log: standard output and error, appended over restarts.
    """

    name: str
    argv: tuple[str, ...]
    cwd: Path
    log: Path
    env: Mapping[str, str] = field(default_factory=dict)


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


class Runtime(Protocol):
    """Starts processes, and sees to it that none outlives the harness."""

    def start(self, spec: ProcessSpec) -> Process:
        """Start one."""
        ...

    def close(self) -> None:
        """End everything that was started here."""
        ...
