"""The time of one run in its pictures and tables: seconds since it began."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from chaos.common.history import Event
from chaos.report.model import Report


@dataclass(frozen=True, slots=True)
class RunClock:
    """Milliseconds since the epoch -> seconds since the run began."""

    began_ms: int
    ended_ms: int

    @classmethod
    def of(cls, report: Report, events: Sequence[Event]) -> Self:
        """Span the first to the last moment of the history and of the report's phases."""
        times = [event.time_ms for event in events]
        times += [phase.start_ms for phase in report.phases]
        times += [phase.start_ms + round(phase.duration_s * 1000) for phase in report.phases]
        return cls(min(times, default=0), max(times, default=0))

    def s(self, time_ms: int) -> float:
        return (time_ms - self.began_ms) / 1000

    @property
    def span_s(self) -> float:
        return max(self.s(self.ended_ms), 0.1)

    def is_within(self, time_ms: int) -> bool:
        """Whether the run was on; a program has given its rows any time outside of it."""
        return 0 <= self.s(time_ms) <= self.span_s
