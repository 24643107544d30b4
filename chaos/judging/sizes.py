"""Memory and shuffle partitions of an audit's Spark, by its cores and by the size of the logs.

A task holds about a gigabyte: the rows of its part that it groups or sorts, and its input. Local tasks share the driver's
heap; those of a cluster have executors, whose size the cluster or the user sets (``--spark-conf``).
"""

import os
import re
from pathlib import Path

import psutil

ROWS_OF_A_PART = 4_000_000
_DRIVER_MB = 3072  # beside a cluster: results on their way to this process, and broadcasts
_TASK_MB = _OF_SPARK_MB = 1024
_BUSY_AT_LEAST = 2
_PARTS_OF_A_CORE = 2  # a part that is larger than others keeps one core busy while the others do the rest
_LOCAL = re.compile(r"local(?:\[(\*|\d+)\s*(?:,.*)?\])?")
_LIMIT_OF_CONTAINER = Path("/sys/fs/cgroup/memory.max")


def shuffle_partitions(records: int, cores: int) -> int:
    """Return the number of parts into which the rows of both logs are shuffled.

    Args:
        cores: cores of all executors.
    """
    return max(_PARTS_OF_A_CORE * cores, _ceil(records, ROWS_OF_A_PART))


def driver_memory_mb(master: str, records: int | None) -> int:
    """Return the heap of the driver; half of the machine at most.

    Args:
        records: number of records in both logs; None if it is not known yet.
    """
    cores = local_cores(master)
    if cores is None:
        wanted = _DRIVER_MB
    else:
        of_log = cores if records is None else min(cores, _ceil(records, ROWS_OF_A_PART))
        wanted = _OF_SPARK_MB + _TASK_MB * max(_BUSY_AT_LEAST, of_log)
    return min(wanted, _memory_mb() // 2)


def local_cores(master: str) -> int | None:
    """Return how many tasks run at once in the driver; None if executors are processes of their own."""
    found = _LOCAL.fullmatch(master)
    if found is None:
        return None
    cores = found[1] or "1"
    return len(os.sched_getaffinity(0)) if cores == "*" else int(cores)


def _memory_mb() -> int:
    """Return the memory of this machine, or of the container of this process."""
    total = psutil.virtual_memory().total
    try:
        limit = _LIMIT_OF_CONTAINER.read_text(encoding="ascii").strip()
    except OSError:
        limit = ""
    return (min(total, int(limit)) if limit.isdecimal() else total) >> 20


def _ceil(number: int, of: int) -> int:
    return -(-number // of)
