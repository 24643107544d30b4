"""The system on local processes: no root, no containers, loopback only (Linux)."""

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

import psutil

from chaos.common import signals
from chaos.common.errors import RuntimeUnavailableError
from chaos.common.warden import SESSION_VARIABLE, Session
from chaos.install import preflight
from chaos.runtime.base import ProcessSpec, VisibleProcess

_DIES_WITHIN_S = 30.0


class LocalProcess(VisibleProcess):
    """A child process, detached from the terminal (setsid) so that a Ctrl-C there reaches pytest only."""

    def __init__(self, spec: ProcessSpec, session: Session) -> None:
        """Start it."""
        self.spec = spec
        self._session = session
        self._popen = self._spawn()

    @property
    def pid(self) -> int:
        return self._popen.pid

    def alive(self) -> bool:
        return self._popen.poll() is None

    def paused(self) -> bool:
        return self.alive() and self._popen.status() == psutil.STATUS_STOPPED

    def exit_code(self) -> int | None:
        code: int | None = self._popen.poll()
        return code

    def start(self) -> None:
        if not self.alive():
            with signals.deferred():
                self._popen = self._spawn()

    def kill(self) -> None:
        """Send SIGKILL, unless it has ended: by then its pid may belong to another process, or to a thread of one.

        psutil does not check that again for a process that it has found gone once (`Process._raise_if_pid_reused`).
        """
        if self.alive():
            self._popen.kill()
            self._popen.wait(timeout=_DIES_WITHIN_S)

    def stop(self, within_s: float = 10) -> None:
        if not self.alive():
            return
        self._popen.resume()
        self._popen.terminate()
        try:
            self._popen.wait(timeout=within_s)
        except psutil.TimeoutExpired:
            self.kill()

    def _process(self) -> psutil.Process:
        return self._popen

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
    """Starts processes on this machine; the session's warden ends them when pytest ends, however it ends."""

    def __init__(self, sessions: Path) -> None:
        """Open a session.

        Args:
            sessions: the folder of session files.
        """
        self.session = Session(sessions)
        self._processes: list[LocalProcess] = []

    def check_free(self, addresses: Iterable[tuple[str, int]]) -> None:
        preflight.check_addresses(addresses)

    def start(self, spec: ProcessSpec) -> LocalProcess:
        """Start it; an interrupt waits until the process is recorded, or `close` would not end it."""
        with signals.deferred():
            process = LocalProcess(spec, self.session)
            self._processes.append(process)
        return process

    def close(self) -> None:
        """Kill everything, last started first, and then what it left behind."""
        for process in reversed(self._processes):
            process.kill()
        self.session.close()
