"""Processes on this machine are told apart by more than their pid, which another process may have by now."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from chaos.common import clock
from chaos.runtime.base import ProcessSpec
from chaos.runtime.local import LocalRuntime


@pytest.fixture
def runtime(tmp_path):
    """A session of its own, which is closed afterwards."""
    opened = LocalRuntime(tmp_path / "sessions")
    yield opened
    opened.close()


def test_a_process_that_has_ended_is_never_signalled_again(runtime, tmp_path, monkeypatch):
    """Its pid may be that of an innocent process, or of one of its threads: `kill` reaches the whole process then."""
    process = runtime.start(ProcessSpec("short", ("true",), tmp_path, tmp_path / "short.log"))
    clock.wait_until(lambda: not process.alive(), within_s=120, reason="a short process to end")
    process.kill()  # psutil finds here that it is gone, and does not look again
    sent = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))

    process.kill()
    process.stop()
    process.resume()

    assert sent == []
    assert process.exit_code() == 0


def test_a_process_that_runs_is_killed(runtime, tmp_path):
    """By SIGKILL, and the call returns when it has ended."""
    process = runtime.start(ProcessSpec("long", ("sleep", "600"), tmp_path, tmp_path / "long.log"))

    process.kill()

    assert (process.alive(), process.exit_code()) == (False, -9)


def test_an_interrupt_waits_until_a_process_that_starts_is_known(runtime, tmp_path, monkeypatch):
    """Else nothing would end it, and its log would be left open."""
    record = runtime.session.record

    def interrupted(pid, name):
        os.kill(os.getpid(), signal.SIGINT)
        record(pid, name)

    monkeypatch.setattr(runtime.session, "record", interrupted)
    spec = ProcessSpec("long", ("sleep", "600"), tmp_path, tmp_path / "long.log")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt, match="SIGINT"):
            runtime.start(spec)
    finally:
        signal.signal(signal.SIGINT, before)

    (process,) = runtime._processes
    runtime.close()
    assert process.exit_code() == -9


def test_a_process_may_be_started_by_any_thread(runtime, tmp_path):
    """Signals are handled in the main thread only, and only that one can hold them back."""
    spec = ProcessSpec("short", ("true",), tmp_path, tmp_path / "short.log")

    with ThreadPoolExecutor(1) as pool:
        process = pool.submit(runtime.start, spec).result()

    clock.wait_until(lambda: not process.alive(), within_s=120, reason="a short process to end")
    assert process.exit_code() == 0
