"""One process of the system in a container of its own.

Docker does everything that it offers: start, kill, stop, freeze, limits, the exit code. SIGSTOP and SIGCONT go to the
processes themselves, which this machine sees by pid: for Docker a stopped process is a running container.

A small disk is a separate file system with limited room for one folder of a process. The folder is copied there before the
process starts, and back when it has ended, unless SIGKILL ended it. So the process finds its last writes, full disk or not,
when it is started on its own disk again. The disk is in memory (tmpfs): it gives a real ``No space left on device``, without
privileges that this user may not have.
"""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
from docker.errors import APIError

from chaos.common import clock, processes
from chaos.runtime.base import ProcessSpec, VisibleProcess
from chaos.runtime.docker.engine import asking
from chaos.runtime.docker.network import Machine

REAL = "/real-disk"
_PAGE = 4096
_STARTS_WITHIN_S = 60.0
_ENDS_WITHIN_S = 60.0
_SIGNALS = {134: -6, 137: -9, 139: -11}  # the init process's codes for SIGABRT, SIGKILL and SIGSEGV; no JVM ends so by itself
# The process is a child of this shell and does not replace it: the shell has to copy afterwards. The shell passes SIGTERM on.
_SCRIPT = """
real=$1 small=$2; shift 2
cp --archive --sparse=always "$real/." "$small/" || exit 1
trap 'kill -TERM "$child"' TERM
"$@" &
child=$!
wait "$child"; code=$?
while kill -0 "$child" 2>/dev/null; do wait "$child"; code=$?; done
find "$real" -mindepth 1 -delete && cp --archive --sparse=always "$small/." "$real/" || exit 1
exit "$code"
"""


@dataclass(frozen=True, slots=True)
class Disk:
    """A folder that gets a separate file system, and the size of that."""

    folder: Path
    size_bytes: int


StartOn = Callable[[ProcessSpec, Disk], "ContainerProcess"]


class ContainerProcess(VisibleProcess):
    """A process, its container, and the machine that it runs on (None if no other process connects to it)."""

    def __init__(self, spec: ProcessSpec, container: Any, machine: Machine | None, start_on: StartOn) -> None:
        """Take over a container that was started.

        Args:
            start_on: starts another process like it on a small disk.
        """
        self.spec = spec
        self.container = container
        self.machine = machine
        self._start_on = start_on
        self._pid = self._find_pid()

    @property
    def pid(self) -> int:
        """The pid of its last start, as this machine counts; 0 if it ended before it could be seen."""
        return self._pid

    def alive(self) -> bool:
        return bool(self._state()["Running"])

    def paused(self) -> bool:
        """Whether it is stopped by SIGSTOP, or frozen."""
        if self.frozen():
            return True
        with contextlib.suppress(psutil.NoSuchProcess):
            return bool(self._process().status() == psutil.STATUS_STOPPED)
        return False

    def exit_code(self) -> int | None:
        state = self._state()
        code = int(state["ExitCode"])
        return None if state["Running"] else _SIGNALS.get(code, code)

    def start(self) -> None:
        if not self.alive():
            with asking(f"start {self.spec.name}"):
                self.container.start()
            self._pid = self._find_pid()

    def kill(self) -> None:
        """Send SIGKILL, and wait until it is gone; everything that it started goes with it."""
        with asking(f"kill {self.spec.name}"):
            with contextlib.suppress(APIError):  # it had ended already: the wait returns at once
                self.container.kill()
            self.container.wait(timeout=_ENDS_WITHIN_S)

    def kill_tree(self) -> dict[str, int]:
        tree = self._tree()
        self.kill()
        return processes.pids(tree)

    def stop(self, within_s: float = 10) -> None:
        self.resume()
        with asking(f"stop {self.spec.name}"):
            self.container.stop(timeout=round(within_s))

    # only in a container --------------------------------------------------------------------------------------------------

    def disconnect(self) -> None:
        """Take its machine off the network; whatever else runs on that machine goes with it."""
        if self.machine is not None:
            self.machine.disconnect()

    def reconnect(self) -> None:
        if self.machine is not None:
            self.machine.connect()

    def freeze(self) -> None:
        if not self.frozen():
            with asking(f"freeze {self.spec.name}"):
                self.container.pause()

    def thaw(self) -> None:
        if self.frozen():
            with asking(f"thaw {self.spec.name}"):
                self.container.unpause()

    def frozen(self) -> bool:
        return bool(self._state()["Paused"])

    def limit(self, **limits: int) -> None:
        with asking(f"limit {self.spec.name} to {limits}"):
            self.container.update(**limits)

    def crowd(self) -> None:
        """Fill ``/dev/shm``: its content counts as memory of the container, whichever process wrote it."""
        with asking(f"take memory of {self.spec.name}"), contextlib.suppress(APIError):  # it may be gone before this has ended
            self.container.exec_run(["sh", "-c", "head -c 64M /dev/zero >/dev/shm/crowd"])

    def on_small_disk(self, folder: Path, room_bytes: int) -> "ContainerProcess":
        return self._start_on(self.spec, Disk(folder, used_bytes(folder) + room_bytes))

    def killed_by_memory(self) -> bool:
        return bool(self._state()["OOMKilled"])

    def usage(self) -> Mapping[str, Any]:
        with asking(f"read the counters of {self.spec.name}"):
            stats: Mapping[str, Any] = self.container.stats(stream=False, one_shot=True)
        return stats

    # ----------------------------------------------------------------------------------------------------------------------

    def _process(self) -> psutil.Process:
        return psutil.Process(self._pid)

    def _find_pid(self) -> int:
        """The pid of the child of the container's init process."""

        def found() -> list[int]:
            state = self._state()
            if not state["Running"]:
                return [0]
            return [child.pid for child in psutil.Process(state["Pid"]).children()]

        return clock.wait_until(
            found, within_s=_STARTS_WITHIN_S, reason=f"{self.spec.name} to start", every_s=0.01, ignore=(psutil.NoSuchProcess,)
        )[0]

    def _state(self) -> Mapping[str, Any]:
        with asking(f"look at {self.spec.name}"):
            self.container.reload()
        state: Mapping[str, Any] = self.container.attrs["State"]
        return state


def used_bytes(folder: Path) -> int:
    """The room that a folder takes on a tmpfs, which counts whole pages."""
    return sum(_pages(path.stat().st_blocks * 512) for path in (folder, *folder.rglob("*")))


def on_disk(spec: ProcessSpec, disk: Disk) -> ProcessSpec:
    """Return the spec of a process whose folder is copied to the disk and back."""
    argv = ("sh", "-c", _SCRIPT, "sh", REAL, str(disk.folder), *spec.argv)
    return replace(spec, name=f"{spec.name}-on-small-disk", argv=argv)


def _pages(size_bytes: int) -> int:
    return -(-size_bytes // _PAGE) * _PAGE
