"""A process and everything that it started, signalled together."""

import contextlib
from collections.abc import Mapping

import psutil

ENDED = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
_DIES_WITHIN_S = 30.0

ProcessTree = Mapping[str, psutil.Process]


def tree_of(name: str, root: psutil.Process) -> ProcessTree:
    """A process and its descendants by name: the root has the given name, ``broker-1``, the others ``broker-1-1`` and so on.

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


def kill(tree: ProcessTree) -> None:
    """Send SIGKILL to all, and wait until they are gone."""
    for process in tree.values():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(list(tree.values()), timeout=_DIES_WITHIN_S)


def pause(tree: ProcessTree) -> None:
    """Send SIGSTOP to all; those that have ended meanwhile, such as a command that the pipeline ran, are passed over."""
    for process in tree.values():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.suspend()


def resume(tree: ProcessTree) -> None:
    """Send SIGCONT to all; those that have ended meanwhile are passed over."""
    for process in tree.values():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.resume()
