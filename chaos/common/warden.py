"""The warden: a small process that waits for the end of its owner (pytest, say), and then ends the owner's processes.

    pytest ──pipe──▶ warden        The pipe closes when pytest ends, however it ends: even SIGKILL closes it.
      │ starts                      Then the warden sweeps the session: it kills every process that was recorded with its pid
      ▼                             and start time, and every process that has the session's id in its environment (which is
    brokers, Spark, …               inherited, so executors and Python workers that were never recorded are found as well).

A session file holds the owner and its processes. A session whose owner is gone, and whose warden was killed too, is
swept by the next one (`leftovers`). Processes are identified by pid and start time, never by name.
"""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psutil

from chaos.common import clock, processes

SESSION_VARIABLE = "CHAOS_SESSION"
_SWEEP_S = 30.0
_SAME_START_S = 1.0


@dataclass(frozen=True, slots=True)
class Identity:
    """A lasting identity of one process: a pid is used again, a pid together with its start time is not."""

    pid: int
    started: float
    name: str

    def process(self) -> psutil.Process | None:
        """The process if it still lives; None if its pid is free or belongs to another one by now."""
        try:
            found = psutil.Process(self.pid)
            return found if abs(found.create_time() - self.started) < _SAME_START_S else None
        except psutil.NoSuchProcess:
            return None


def identify(pid: int, name: str) -> Identity:
    """Return the identity of the process that has this pid now.

    Raises:
        psutil.NoSuchProcess: there is none.
    """
    return Identity(pid, psutil.Process(pid).create_time(), name)


class Session:
    """The processes that one process starts, and the warden that ends them: an id, a file, a process."""

    def __init__(self, folder: Path, warden: str = "chaos.common.warden") -> None:
        """Open a session and start its warden.

        Args:
            folder: where session files are kept, one for all sessions of this user.
            warden: the module that sweeps when this process has ended.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.id = uuid.uuid4().hex
        self._before: str | None = None
        self.path = folder / f"{self.id}.jsonl"
        self._write(identify(os.getpid(), "owner"))
        self._warden = subprocess.Popen(
            [sys.executable, "-m", warden, str(self.path)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def mark(self) -> None:
        """Let everything that a library starts in this process from now on, such as Spark's JVM, belong to this session."""
        self._before = os.environ.get(SESSION_VARIABLE)
        os.environ[SESSION_VARIABLE] = self.id

    def record(self, pid: int, name: str) -> None:
        """Record a process that was just started."""
        try:
            self._write(identify(pid, name))
        except psutil.NoSuchProcess:
            return  # it ended at once, which is reported where it is waited for

    def close(self) -> None:
        """Let the warden sweep, and wait for it."""
        if self._warden.stdin is not None:
            self._warden.stdin.close()
        self._warden.wait(timeout=2 * _SWEEP_S)
        if os.environ.get(SESSION_VARIABLE) == self.id:
            del os.environ[SESSION_VARIABLE]
            if self._before is not None:
                os.environ[SESSION_VARIABLE] = self._before

    def _write(self, identity: Identity) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"pid": identity.pid, "started": identity.started, "name": identity.name}) + "\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def leftovers(folder: Path) -> tuple[str, ...]:
    """Sweep the sessions whose owner is gone.

    Returns:
        One ``name (pid)`` per process that was ended.
    """
    ended: list[str] = []
    for path in folder.glob("*.jsonl") if folder.is_dir() else ():
        recorded = _recorded(path)
        if not recorded or recorded[0].process() is None:
            ended += sweep(path)
    return tuple(ended)


def sweep(path: Path) -> list[str]:
    """Kill all processes of a session, then remove its file.

    Returns:
        One ``name (pid)`` per process that was ended.

    Raises:
        DeadlineError: a process does not end.
    """
    ended: dict[int, str] = {}

    def nothing_left() -> bool:
        found = list(_alive(path))
        for process in found:
            try:
                ended[process.pid] = f"{process.name()} ({process.pid})"
                process.kill()
            except psutil.NoSuchProcess:
                continue
        return not found

    clock.wait_until(nothing_left, within_s=_SWEEP_S, reason="the processes of a finished session to end")
    path.unlink(missing_ok=True)
    return list(ended.values())


def _alive(path: Path) -> Iterator[psutil.Process]:
    """Yield the live processes of the session, except its owner and this process."""
    recorded = _recorded(path)
    spared = {os.getpid(), *(identity.pid for identity in recorded[:1])}
    listed = {found.pid: found for identity in recorded[1:] if (found := identity.process()) is not None}
    marked = {found.pid: found for found in psutil.process_iter() if _session_of(found) == path.stem}
    for pid, process in (listed | marked).items():
        if pid not in spared and processes.state(pid) not in processes.ENDED:
            yield process


def _recorded(path: Path) -> list[Identity]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    return [Identity(**json.loads(line)) for line in lines if line.endswith("}")]


def _session_of(process: psutil.Process) -> str | None:
    try:
        return process.environ().get(SESSION_VARIABLE)
    except psutil.Error:
        return None


def main() -> None:
    """Wait for the owner of the session to end, then sweep."""
    sys.stdin.buffer.read()
    sweep(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
