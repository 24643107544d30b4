"""User code may raise anything, end its process, or never return."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from chaos.common import user_code
from chaos.common.user_code import OverdueError, confined
from tests.unit.wording import raised


@pytest.mark.parametrize("ends", [sys.exit, "os._exit"])
def test_it_does_not_end_the_process(ends):
    before = os._exit
    with pytest.raises(SystemExit), confined():
        (os._exit if ends == "os._exit" else ends)(0)

    assert os._exit is before


def test_a_process_that_it_forks_ends_as_it_wants_to():
    """Or a copy of the command would go on."""
    with confined():
        child = os.fork()
        if not child:
            os._exit(7)
        _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 7


def spin():
    while True:
        pass


def wait():
    threading.Event().wait(600)


def swallow():
    """Go on after the first deadline."""
    with suppress(BaseException):
        wait()
    wait()


@pytest.mark.parametrize("goes_on", [spin, wait, swallow])
def test_it_has_a_deadline(monkeypatch, goes_on):
    """Which comes again, where the block catches whatever is raised."""
    monkeypatch.setattr(user_code, "_AGAIN_S", 0.05)
    before = signal.getsignal(signal.SIGALRM)
    with raised(OverdueError, "0.05 s"), confined(0.05):
        goes_on()

    assert signal.getsignal(signal.SIGALRM) is before


def test_a_timer_that_was_there_goes_on():
    """That of the test that is running, for example."""
    before = signal.setitimer(signal.ITIMER_REAL, 500)
    try:
        with confined(100):
            pass
        left_s, _ = signal.getitimer(signal.ITIMER_REAL)
    finally:
        signal.setitimer(signal.ITIMER_REAL, *before)

    assert 100 < left_s <= 500


def test_what_it_prints_is_not_standard_output():
    """Nor what a program prints that it starts; what the command prints before and after is."""
    code = (
        "import os, sys\nfrom chaos.common.user_code import confined\n"
        "print('before')\n"
        "with confined():\n"
        "    print('by print'); os.write(1, b'by the descriptor\\n'); os.system('echo by a program'); sys.__stdout__.flush()\n"
        "print('after')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)

    assert done.stdout.splitlines() == ["before", "after"]
    assert set(done.stderr.splitlines()) == {"by print", "by the descriptor", "by a program"}
