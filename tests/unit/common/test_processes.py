import subprocess
import sys

import psutil
import pytest

from chaos.common import clock, processes
from chaos.common.errors import RuntimeUnavailableError


def test_what_a_program_says_is_kept_whatever_its_exit_code() -> None:
    """The caller decides what an exit code means; bytes that are not text are replaced."""
    answer = processes.run(("sh", "-c", "printf 'a\\377'; echo b >&2; exit 3"), within_s=120)

    assert (answer.returncode, answer.stdout, answer.stderr) == (3, "a\ufffd", "b\n")


def test_a_program_that_does_not_exist_is_named() -> None:
    """With the reason of the operating system, and what to check."""
    with pytest.raises(RuntimeUnavailableError, match="cannot start /nowhere/java: No such file or directory; is it installed"):
        processes.run(("/nowhere/java",), within_s=120)


def test_a_program_that_does_not_end_is_an_error() -> None:
    """Every wait has a limit."""
    with pytest.raises(RuntimeUnavailableError, match=r"`sh -c sleep 30 …` did not end within 0\.1 s"):
        processes.run(("sh", "-c", "sleep 30"), within_s=0.1)


def test_a_zombie_has_ended() -> None:
    """However long its parent, or the first process of the machine, takes to look for it."""
    careless = "import subprocess, time; child = subprocess.Popen(['true']); print(child.pid, flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", careless], stdout=subprocess.PIPE, text=True) as popen:
        assert popen.stdout
        try:
            parent, child = psutil.Process(popen.pid), psutil.Process(int(popen.stdout.readline()))
            clock.wait_until(lambda: child.status() == psutil.STATUS_ZOMBIE, within_s=120, reason="a zombie")

            assert processes.wait_ended([child], within_s=120) == []
            assert processes.wait_ended([child, parent], within_s=0.1) == [parent]

            processes.kill({"parent": parent})
            assert not processes.lives(parent)
        finally:
            popen.kill()  # else what is wrong here would be told when its sleep is over


def test_a_process_is_found_by_its_command_line_and_its_shell_is_not():
    """The shell has the words of what it runs in its own."""
    sleep = f"{sys.executable} -c 'import signal; signal.pause()'"
    shell = subprocess.Popen(["/bin/sh", "-c", f"{sleep} & {sleep} & wait"])
    root = psutil.Process(shell.pid)
    try:

        def found():
            return processes.running(processes.tree_of("shell", root), "signal.pause")

        clock.wait_until(lambda: len(found()) == 2, within_s=120, reason="two processes below the shell")
        assert shell.pid not in processes.pids(found()).values()
        assert not processes.running(processes.tree_of("shell", root), "no such text")
    finally:
        processes.kill(processes.tree_of("shell", root))
        shell.wait()
