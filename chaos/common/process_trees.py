"""A process and everything that it started, signalled together."""

import contextlib
from collections.abc import Iterable, Mapping

import psutil

ENDED = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)

Family = Mapping[str, psutil.Process]


def named(name: str, processes: Iterable[psutil.Process]) -> Family:
    """They by name: the first has its own, ``broker-1``, the others ``broker-1-1`` and so on."""
    return {f"{name}{f'-{number}' if number else ''}": process for number, process in enumerate(processes)}


def pids(family: Family) -> dict[str, int]:
    """Name -> pid."""
    return {name: process.pid for name, process in family.items()}


def state(pid: int) -> str:
    """As psutil has it; dead for one that is gone."""
    try:
        return str(psutil.Process(pid).status())
    except psutil.NoSuchProcess:
        return str(psutil.STATUS_DEAD)


def pause(family: Family) -> dict[str, int]:
    """SIGSTOP to all; name -> pid, also of what is gone."""
    for process in family.values():
        with contextlib.suppress(psutil.NoSuchProcess):  # a command that the pipeline ran
            process.suspend()
    return pids(family)


def resume(family: Family) -> None:
    """SIGCONT to all; nothing to do for what is gone."""
    for process in family.values():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.resume()
