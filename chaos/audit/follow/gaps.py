"""When an outstanding record is a gap, and how the outstanding records stand at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass

from chaos.audit.follow.memory import Waiting
from chaos.audit.follow.rows import EXAMPLES, Comparison, Demand


@dataclass(frozen=True, slots=True)
class End:
    """Records that must be answered when a follower ends.

    Attributes:
        ends: partition of the source -> the offset before which its records must be answered.
        past: positions of the group when the ends were read, set after the wait for its rows: a record without an answer before
            them is lost, overdue or not. None without a group, and during the wait.
        hidden: partitions of the sink where an open transaction may hide rows, so that no row counts as missing.
    """

    ends: Mapping[int, int]
    past: Mapping[int, int] | None = None
    hidden: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Standing:
    """Outstanding records at one moment.

    Attributes:
        lag: records without an answer, if no later record of their partition has one either.
        gaps: records that are overdue or lost, whether they are in the lag or not.
        overtaken: gaps with later records of their partition answered.
        pending: outstanding records that are not gaps.
        first: some of the gaps, the oldest first.
        lost: gaps that are not overdue: the group was past them when the follower ended.
        later: outstanding records from after the end; they are neither gaps nor pending.
    """

    lag: int = 0
    gaps: int = 0
    overtaken: int = 0
    pending: int = 0
    first: tuple[Demand, ...] = ()
    lost: int = 0
    later: int = 0


@dataclass(slots=True)
class Gaps:
    """What decides whether an outstanding record is a gap.

    Attributes:
        seen_ms, positions: the time up to which the sink was read, and the group's positions then; None without a group.
        end: which records must be answered at the end; None until the follower ends.
    """

    asked: Comparison
    seen_ms: int = 0
    positions: Mapping[int, int] | None = None
    end: End | None = None

    def seen(self, now_ms: int, positions: Mapping[int, int] | None) -> None:
        self.seen_ms = max(self.seen_ms, now_ms)
        self.positions = positions

    def is_overdue(self, demand: Demand) -> bool:
        positions = self.positions
        is_past = positions is None or demand.offset < positions.get(demand.partition, 0)
        return is_past and demand.since_ms <= self.seen_ms - self.asked.overdue_ms

    def standing(self, outstanding: Waiting[Demand], answered_to: Mapping[int, int]) -> Standing:
        """Count the outstanding records; this takes time in proportion to their number.

        Args:
            answered_to: partition of the source -> the offset after the last answered record.
        """
        end = self.end
        lag = gaps = overtaken = lost = later = 0
        first: list[Demand] = []
        for demand in outstanding:
            passed = demand.offset < answered_to.get(demand.partition, 0)
            lag += not passed
            if end and demand.offset >= end.ends.get(demand.partition, 0):
                later += 1
                continue
            overdue = self.is_overdue(demand)
            if (overdue or self._is_lost(demand)) and not self._is_hidden(demand):
                gaps += 1
                lost += not overdue
                overtaken += passed
                if len(first) < EXAMPLES:
                    first.append(demand)
        return Standing(lag, gaps, overtaken, len(outstanding) - gaps - later, tuple(sorted(first)), lost, later)

    def _is_lost(self, demand: Demand) -> bool:
        past = self.end.past if self.end else None
        return past is not None and demand.offset < past.get(demand.partition, 0)

    def _is_hidden(self, demand: Demand) -> bool:
        hidden = self.end.hidden if self.end else frozenset()
        return bool(hidden) if self.asked.anywhere else demand.partition in hidden
