"""Runs: consecutive records of one line, from which order is judged (why: `islands`).

The numbers and the offsets of a run rise by one together. So no other run of its partition lies within it, and none of its
records is out of place because of another one (`verifiers.disorder`).
"""

from dataclasses import dataclass

import numpy as np

from verifiers import disorder
from verifiers.disorder import Disorder
from verifiers.single_scan.groups import Flags, Groups, Longs, starts

_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Some runs of a log; all columns are of one length: first and last number, offset of the first."""

    partition: Longs
    line: Longs
    first: Longs
    last: Longs
    offset: Longs

    def __len__(self) -> int:
        return len(self.first)

    def merge(self, other: "Runs") -> "Runs":
        """Join both; a run that was cut in two gives the same result as a whole one."""
        return Runs(*(np.concatenate((getattr(self, name), getattr(other, name))) for name in Runs.__slots__))

    def without(self, partition: Longs, offset: Longs) -> "Runs":
        """Remove the records at these places; their runs are cut there."""
        kept = [_cut(self.taken(self.partition == home), offset[partition == home]) for home in np.unique(self.partition)]
        return Runs(*(np.concatenate([getattr(one, name) for one in (*kept, self.taken(_NONE))]) for name in Runs.__slots__))

    @property
    def records(self) -> int:
        """Number of records in all runs."""
        return int((self.last - self.first + 1).sum())

    def taken(self, places: Flags | Longs) -> "Runs":
        """Select the runs at these places, in the order of the places."""
        return Runs(*(getattr(self, name)[places] for name in Runs.__slots__))


def of_groups(groups: Groups, wanted: Flags) -> Runs:
    """Take the islands among these groups as runs."""
    taken = wanted & groups.solid() & (groups["line"] >= 0)
    partition, line, first, last, delta = (groups[name][taken] for name in ("partition", "line", "first", "last", "delta"))
    return Runs(partition, line, first, last, first - delta)


def of_rows(partition: Longs, offset: Longs, line: Longs, number: Longs) -> Runs:
    """Cut rows, in any order, into runs."""
    order = np.lexsort((offset, partition))
    partition, offset, line, number = partition[order], offset[order], line[order], number[order]
    steps = np.arange(len(order), dtype=np.int64)
    begins = starts(partition, line, offset - steps, number - steps)
    ends = np.append(begins[1:], len(order))[: len(begins)] - 1
    return Runs(partition[begins], line[begins], number[begins], number[ends], offset[begins])


def disorder_of(runs: Runs) -> Disorder:
    """Find the disorder of a log, from all its runs."""
    return disorder.find(runs.partition, runs.line, runs.first, runs.last, runs.offset)


def _cut(runs: Runs, offsets: Longs) -> Runs:
    """Remove records from the runs of one partition.

    A part begins where a run does or after a hole, and ends where a run does or before a hole.
    """
    runs = runs.taken(np.argsort(runs.offset))
    ends = runs.offset + runs.last - runs.first
    holes = np.unique(offsets)
    begins, ends = np.sort(np.append(runs.offset, holes + 1)), np.sort(np.append(ends, holes - 1))
    begins, ends = begins[begins <= ends], ends[begins <= ends]
    runs = runs.taken(np.searchsorted(runs.offset, begins, side="right") - 1)
    first = runs.first + begins - runs.offset
    return Runs(runs.partition, runs.line, first, first + ends - begins, begins)
