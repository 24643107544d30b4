"""The early audit: a log that still grows, judged part by part, while it is written.

A duplicate and an inversion are final once they are seen: later records can only add to them. A record that is missing may
still come, so gaps are left to the judging of the whole log, which decides; so are values, for which the source would have to
be read at the same pace.

What is kept of a part are its runs (`runs`): some five numbers for each transaction and partition. Merging them loses nothing,
so it does not matter where the log was cut: after the last part the counts are those of `duplicates` and `ordering` for the
whole.
"""

from dataclasses import replace

import numpy as np

from verifiers.base import Evidence, Example, Finding, Verdict
from verifiers.details import Detail, Partition, Place
from verifiers.findings import EXAMPLES
from verifiers.ordering import displaced
from verifiers.single_scan import groups, islands, runs
from verifiers.single_scan.groups import Limits
from verifiers.single_scan.runs import Runs

_NOTE = "so far"
_DEFAULT = Limits()


class TooScatteredError(ValueError):
    """The log has so many runs that they cannot be held in memory; it can only be judged as a whole."""


class Stream:
    """One log, as far as it was read."""

    def __init__(self, subject: str, partitions: int, limits: Limits = _DEFAULT, records: int = 2**63 - 1) -> None:
        """Nothing demands an id that is not below ``records``; such a one has no place in the order."""
        self._subject = subject
        self._partitions = partitions
        self._limits = limits
        self._records = records
        self._runs = Runs(*(np.empty(0, np.int64) for _ in Runs.__slots__))

    def add(self, part: Evidence) -> tuple[Finding, Finding]:
        """Duplicates and inversions of all parts so far: INVALID, or UNKNOWN as long as there are none.

        Args:
            part: `observed` holds the records of ``low <= offset < lso`` of its `bounds`, which begin where those of the part
                before ended; of all parts, each has the bounds of all partitions.

        Raises:
            TooScatteredError: there are too many runs; this part is forgotten.
        """
        found = self._runs.merge(self._cut(part)).joined()
        if len(found) > self._limits.most_groups:
            raise TooScatteredError(f"{len(found)} runs in {_records(found)} records are too many to be held")
        self._runs = found
        return self._duplicates(), self._inversions()

    def _cut(self, part: Evidence) -> Runs:
        if sum(bounds.lso - bounds.low for bounds in part.bounds.values()) <= self._limits.small_rows:
            return islands.cut(groups.decoded(part.observed), self._partitions)
        found = islands.runs_of(part, groups.summarize(part, self._limits), self._limits)
        if found is None:
            raise TooScatteredError("a part of the log has too many runs to be held")
        return found

    def _duplicates(self) -> Finding:
        count, where = runs.repeated(self._runs)
        examples = tuple(self._repeated(where, place) for place in range(min(len(where), EXAMPLES)))
        return self._found("duplicates", "duplicate", count, examples)

    def _repeated(self, where: Runs, place: int) -> Example:
        """The first number of a run that is elsewhere too."""
        line, number, partition, offset = (
            int(column[place]) for column in (where.line, where.first, where.partition, where.offset)
        )
        there = self._runs.taken((self._runs.line == line) & (self._runs.first <= number) & (number <= self._runs.last))
        places = zip(there.partition.tolist(), (there.offset + number - there.first).tolist(), strict=True)
        others = sorted(other for other in places if other != (partition, offset))[:EXAMPLES]
        detail = Detail("also at {others}", {"others": tuple(Place(at, Partition(home)) for home, at in others)})
        return Example("duplicate", partition, offset, self._id(line, number), None, detail)

    def _inversions(self) -> Finding:
        wrong, lines = runs.disorder_of(self._demanded()), self._partitions
        examples = tuple(
            Example("inversion", one.partition, one.offset, self._id(one.line, one.number), None, displaced(one, lines))
            for one in wrong.shown(EXAMPLES)
        )
        return self._found("ordering", "inversion", sum(one.count for one in wrong.totals()), examples)

    def _demanded(self) -> Runs:
        last = np.minimum(self._runs.last, (self._records - 1 - self._runs.line) // self._partitions)
        demanded = replace(self._runs, last=last)
        return demanded.taken(demanded.first <= demanded.last)

    def _found(self, verifier: str, anomaly: str, count: int, examples: tuple[Example, ...]) -> Finding:
        verdict = Verdict.INVALID if count else Verdict.UNKNOWN
        return Finding(verifier, self._subject, verdict, count, _records(self._runs), {anomaly: count}, examples, _NOTE)

    def _id(self, line: int, number: int) -> int:
        return number * self._partitions + line


def _records(found: Runs) -> int:
    return int((found.last - found.first + 1).sum())
