"""Running a program such as java, go or pip to its end; signalling a process with its descendants; the load of this machine."""

import contextlib
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import psutil

from chaos.common import clock
from chaos.common.errors import DeadlineError, RuntimeUnavailableError


def run(
    argv: Sequence[str], *, within_s: float, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program and return what it printed, whatever its exit code.

    Raises:
        RuntimeUnavailableError: it cannot be started, or does not end in time.
    """
    try:
        return subprocess.run(
            argv,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=within_s,
            check=False,
        )
    except OSError as error:
        raise RuntimeUnavailableError(
            f"cannot start {argv[0]}: {error.strerror}; is it installed, and may it be executed?"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise RuntimeUnavailableError(
            f"`{' '.join(argv[:3])} …` did not end within {within_s:g} s; try again, or check the network"
        ) from error


ENDED = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
_DIES_WITHIN_S = 30.0
_LOOK_EVERY_S = 0.02

ProcessTree = Mapping[str, psutil.Process]


def tree_of(name: str, root: psutil.Process) -> ProcessTree:
    """Return a process and its descendants by name: the root has the given one, ``broker-1``, the others ``broker-1-1`` etc.

    Raises:
        psutil.NoSuchProcess: the root is gone.
    """
    processes = [root, *root.children(recursive=True)]
    return {f"{name}{f'-{number}' if number else ''}": process for number, process in enumerate(processes)}


def pids(tree: ProcessTree) -> dict[str, int]:
    return {name: process.pid for name, process in tree.items()}


def state(pid: int) -> str:
    """The state in psutil's words; "dead" for a process that is gone."""
    try:
        return str(psutil.Process(pid).status())
    except psutil.NoSuchProcess:
        return str(psutil.STATUS_DEAD)


def living(pids: Mapping[str, int]) -> list[str]:
    """Return the names of the processes that are neither gone nor zombies."""
    return [name for name, pid in pids.items() if state(pid) not in ENDED]


def load() -> float:
    """Return how many processes ran or waited for a core, for each core that this process may use, in the mean of a minute."""
    return os.getloadavg()[0] / len(os.sched_getaffinity(0))


def lives(process: psutil.Process) -> bool:
    """Whether a process runs or is paused; a zombie (dead, not waited for) does not live once its last thread has ended."""
    try:
        return process.is_running() and (process.status() not in ENDED or process.num_threads() > 1)
    except psutil.NoSuchProcess:
        return False


def wait_ended(some: Iterable[psutil.Process], within_s: float) -> list[psutil.Process]:
    """Wait until none of them lives, and return those that still do at the deadline.

    Zombies do not count (for `psutil.wait_procs` they do): a zombie holds nothing any more, and one whose parent is dead stays
    until the machine's first process reaps it, which takes seconds on some machines.
    """
    some = list(some)
    with contextlib.suppress(DeadlineError):
        clock.wait_until(lambda: not any(map(lives, some)), within_s=within_s, every_s=_LOOK_EVERY_S, reason="processes to end")
    return [one for one in some if lives(one)]


def running(tree: ProcessTree, command: str) -> ProcessTree:
    """Select the processes of a tree whose command line contains a text.

    Only the innermost match counts, not its ancestors: a shell has the command that it runs in its own arguments.
    """
    found: dict[str, psutil.Process] = {}
    for name, process in tree.items():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if command in " ".join(process.cmdline()):
                found[name] = process
    outer = {parent.pid for process in found.values() for parent in _ancestors(process)}
    return {name: process for name, process in found.items() if process.pid not in outer}


def _ancestors(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.parents()
    except psutil.NoSuchProcess:
        return []


def kill(tree: ProcessTree) -> None:
    """Send SIGKILL to all, and wait until none lives."""
    for process in tree.values():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    wait_ended(tree.values(), _DIES_WITHIN_S)


def pause(tree: ProcessTree) -> None:
    """Send SIGSTOP to all; skip processes that have ended meanwhile, such as a command that the pipeline ran."""
    for process in tree.values():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.suspend()


def resume(tree: ProcessTree) -> None:
    """Send SIGCONT to all; skip processes that have ended meanwhile."""
    for process in tree.values():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.resume()
