"""The system on local processes: no root, no containers, loopback only (Linux)."""

import contextlib
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

import psutil

from chaos.common import process_trees
from chaos.common.errors import RuntimeUnavailableError
from chaos.common.process_trees import Family
from chaos.common.warden import SESSION_VARIABLE, Session
from chaos.install import preflight
from chaos.runtime.base import ProcessSpec


class LocalProcess:
    """A child process, in a session of its own so that a Ctrl-C at the terminal reaches the harness alone."""

    def __init__(self, spec: ProcessSpec, session: Session) -> None:
        """Start it."""
        self.spec = spec
        self._session = session
        self._popen = self._spawn()

    @property
    def pid(self) -> int:
        """Of the last start."""
        return self._popen.pid

    def alive(self) -> bool:
        """Whether it runs, or is paused."""
        return self._popen.poll() is None

    def paused(self) -> bool:
        """Whether it is stopped by SIGSTOP."""
        return self.alive() and self._popen.status() == psutil.STATUS_STOPPED

    def exit_code(self) -> int | None:
        """Negative for a signal; None while it lives."""
        code: int | None = self._popen.poll()
        return code

    def start(self) -> None:
        """Start it again if it is gone."""
        if not self.alive():
            self._popen = self._spawn()

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self._popen.kill()
        self._popen.wait(timeout=10)

    def kill_tree(self) -> dict[str, int]:
        """SIGKILL to it and to everything it started; name -> pid of those that were there."""
        family = self._family()
        for process in family.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(list(family.values()), timeout=10)
        if family:
            self._popen.wait(timeout=10)
        return process_trees.pids(family)

    def pause_tree(self) -> dict[str, int]:
        """SIGSTOP to it and to everything it started; name -> pid."""
        return process_trees.pause(self._family())

    def resume_tree(self) -> None:
        """SIGCONT to it and to everything it started; nothing to do for what is gone."""
        process_trees.resume(self._family())

    def _family(self) -> Family:
        """It and what it started, by name; empty when it is gone."""
        if not self.alive():
            return {}
        family = [self._popen, *self._popen.children(recursive=True)]
        return process_trees.named(self.spec.name, family)

    def stop(self, within_s: float = 10) -> None:
        """SIGTERM, then SIGKILL when it takes too long."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self._popen.resume()
            self._popen.terminate()
        try:
            self._popen.wait(timeout=within_s)
        except psutil.TimeoutExpired:
            self.kill()

    def pause(self) -> None:
        """SIGSTOP."""
        self._popen.suspend()

    def resume(self) -> None:
        """SIGCONT; nothing to do for a process that is gone."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self._popen.resume()

    def _spawn(self) -> psutil.Popen:
        spec = self.spec
        spec.cwd.mkdir(parents=True, exist_ok=True)
        spec.log.parent.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, **spec.env, SESSION_VARIABLE: self._session.id}
        try:
            with spec.log.open("ab") as log:
                popen = psutil.Popen(
                    spec.argv,
                    cwd=spec.cwd,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            raise RuntimeUnavailableError(f"cannot start {spec.name}: {spec.argv[0]}: {error.strerror}") from error
        self._session.record(popen.pid, spec.name)
        return popen


class LocalRuntime:
    """Starts processes on this machine; the session's warden ends them when the harness ends, however it ends."""

    def __init__(self, sessions: Path) -> None:
        """Open a session.

        Args:
            sessions: the folder of session files.
        """
        self.session = Session(sessions)
        self._processes: list[LocalProcess] = []

    def check_free(self, addresses: Iterable[tuple[str, int]]) -> None:
        """Nothing may listen where the system will.

        Raises:
            RuntimeUnavailableError: something does, or the address is not this machine's.
        """
        preflight.check_addresses(addresses)

    def start(self, spec: ProcessSpec) -> LocalProcess:
        """Start one process."""
        process = LocalProcess(spec, self.session)
        self._processes.append(process)
        return process

    def close(self) -> None:
        """Kill everything, last started first, and what it left."""
        for process in reversed(self._processes):
            process.kill()
        self.session.close()
