"""Processes on this machine are told apart by more than their pid, which another process may have by now."""

import os

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
