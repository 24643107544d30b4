"""Figures that the benchmarks share."""

import statistics
from collections.abc import Sequence
from pathlib import Path


def ratio(mine: Sequence[float], other: Sequence[float]) -> float:
    """Return the median of the ratios within a turn, so that the state of the machine cancels out."""
    return statistics.median(here / there for here, there in zip(mine, other, strict=True))


def peak_mb(pid: int) -> float:
    """Return the most memory that a process has had (VmHWM)."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
