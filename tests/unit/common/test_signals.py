"""An interrupt that comes while an object is finalized still ends the run, here in a pytest of its own."""

import subprocess
import sys

import pytest

FINALIZED = """
import os
import signal
import socket
import weakref

import pytest

from chaos.common import clock, signals as interrupts


class Thing:
    pass


def finalize(left):
    os.kill(os.getpid(), signal.{number})
    for _ in range(1000):
        pass
    left.close()


def test_a_wait():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupts.obey()
    thing = Thing()
    weakref.finalize(thing, finalize, socket.socket())
    del thing
    clock.wait_until(lambda: False, within_s=120, reason="an interrupt")
"""


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_an_interrupt_in_a_finalizer_is_not_lost(tmp_path, number):
    """And the socket that stays open because of it does not count as a failure of the test."""
    (tmp_path / "test_it.py").write_text(FINALIZED.replace("{number}", number), encoding="utf-8")

    command = (sys.executable, "-m", "pytest", "-W", "error", "-p", "no:cacheprovider", "test_it.py")
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)

    assert run.returncode == pytest.ExitCode.INTERRUPTED, run.stdout + run.stderr
    assert "KeyboardInterrupt" in run.stdout
    assert "failed" not in run.stdout
