"""One process of the system in a container of its own.

Docker is asked for what it has a word for: start, kill, stop, freeze, limits, the exit code. SIGSTOP and SIGCONT go to the
processes themselves, which this machine sees by pid: to Docker a stopped process is a running container.
"""

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil
from docker.errors import APIError

from chaos.common import clock, process_trees
from chaos.common.process_trees import Family
from chaos.runtime.base import ProcessSpec
from chaos.runtime.docker.disk import Disk, used_bytes
from chaos.runtime.docker.engine import asking
from chaos.runtime.docker.machine import Machine

_STARTS_WITHIN_S = 20.0
_ENDS_WITHIN_S = 20.0
_SIGNALS = {134: -6, 137: -9, 139: -11}  # what the init process makes of SIGABRT, SIGKILL and SIGSEGV; no JVM ends so by itself

StartOn = Callable[[ProcessSpec, Disk], "ContainerProcess"]


class ContainerProcess:
    """A process, its container, and the machine that it runs on (none for one that nobody connects to)."""

    def __init__(self, spec: ProcessSpec, container: Any, machine: Machine | None, start_on: "StartOn") -> None:
        """Take over a container that was started.

        Args:
            start_on: starts another like it on a small disk.
        """
        self.spec = spec
        self.container = container
        self.machine = machine
        self._start_on = start_on
        self._pid = self._find_pid()

    @property
    def pid(self) -> int:
        """Of the last start, as this machine counts; 0 when it had ended before anybody looked."""
        return self._pid

    def alive(self) -> bool:
        """Whether it runs, or is paused."""
        return bool(self._state()["Running"])

    def paused(self) -> bool:
        """Whether it is stopped by SIGSTOP, or frozen."""
        if self.frozen():
            return True
        with contextlib.suppress(psutil.NoSuchProcess):
            return bool(psutil.Process(self._pid).status() == psutil.STATUS_STOPPED)
        return False

    def exit_code(self) -> int | None:
        """Negative for a signal; None while it lives."""
        state = self._state()
        code = int(state["ExitCode"])
        return None if state["Running"] else _SIGNALS.get(code, code)

    def start(self) -> None:
        """Start it again if it is gone."""
        if not self.alive():
            with asking(f"start {self.spec.name}"):
                self.container.start()
            self._pid = self._find_pid()

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone; everything that it started goes with it."""
        with asking(f"kill {self.spec.name}"):
            with contextlib.suppress(APIError):  # it had ended: the wait says so at once
                self.container.kill()
            self.container.wait(timeout=_ENDS_WITHIN_S)

    def kill_tree(self) -> dict[str, int]:
        """SIGKILL to it and to everything it started; name -> pid of those that were there."""
        family = self._family()
        self.kill()
        return process_trees.pids(family)

    def pause_tree(self) -> dict[str, int]:
        """SIGSTOP to it and to everything it started; name -> pid."""
        return process_trees.pause(self._family())

    def resume_tree(self) -> None:
        """SIGCONT to it and to everything it started; nothing to do for what is gone."""
        process_trees.resume(self._family())

    def stop(self, within_s: float = 10) -> None:
        """SIGTERM, then SIGKILL when it takes too long."""
        self.resume()
        with asking(f"stop {self.spec.name}"):
            self.container.stop(timeout=round(within_s))

    def pause(self) -> None:
        """SIGSTOP."""
        psutil.Process(self._pid).suspend()

    def resume(self) -> None:
        """SIGCONT; nothing to do for a process that is gone."""
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(self._pid).resume()

    # what only a container can --------------------------------------------------------------------------------------------

    def disconnect(self) -> None:
        """Take its machine off the network; what else runs on that machine goes with it."""
        if self.machine is not None:
            self.machine.disconnect()

    def reconnect(self) -> None:
        """Put it back, with the same address; nothing to do for one that is on the network."""
        if self.machine is not None:
            self.machine.connect()

    def freeze(self) -> None:
        """Take all its processes off the processor (cgroup freezer); nothing to do for one that is frozen."""
        if not self.frozen():
            with asking(f"freeze {self.spec.name}"):
                self.container.pause()

    def thaw(self) -> None:
        """Let it run on; nothing to do for one that is not frozen."""
        if self.frozen():
            with asking(f"thaw {self.spec.name}"):
                self.container.unpause()

    def frozen(self) -> bool:
        """Whether the kernel keeps it from running."""
        return bool(self._state()["Paused"])

    def limit(self, **limits: int) -> None:
        """Change its limits, in the words of Docker's ``update`` (``mem_limit``, ``cpu_quota``, …)."""
        with asking(f"limit {self.spec.name} to {limits}"):
            self.container.update(**limits)

    def crowd(self) -> None:
        """Take 64 MB of its memory, or what is left of it: what is in ``/dev/shm`` belongs to the container, to no process."""
        with asking(f"take memory of {self.spec.name}"), contextlib.suppress(APIError):  # it may be gone before this has ended
            self.container.exec_run(["sh", "-c", "head -c 64M /dev/zero >/dev/shm/crowd"])

    def on_small_disk(self, folder: Path, room_bytes: int) -> "ContainerProcess":
        """Start a second one like it, with this folder on a disk that has so much room left; this one has ended."""
        return self._start_on(self.spec, Disk(folder, used_bytes(folder) + room_bytes))

    def killed_by_memory(self) -> bool:
        """Whether the kernel killed it, in its last life, because it wanted more memory than it may have."""
        return bool(self._state()["OOMKilled"])

    def usage(self) -> Mapping[str, Any]:
        """The counters of its control group, as Docker's ``stats`` call them."""
        with asking(f"read the counters of {self.spec.name}"):
            stats: Mapping[str, Any] = self.container.stats(stream=False, one_shot=True)
        return stats

    # ----------------------------------------------------------------------------------------------------------------------

    def _family(self) -> Family:
        """It and what it started, by name; empty when it is gone."""
        try:
            main = psutil.Process(self._pid)
            family = [main, *main.children(recursive=True)] if self.alive() else []
        except psutil.NoSuchProcess:
            return {}
        return process_trees.named(self.spec.name, family)

    def _find_pid(self) -> int:
        """The child of the container's init process."""

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
