"""Doubts of a follower: why a row that no record demands may be right all the same."""

from dataclasses import dataclass, field

from chaos.audit.follow.rows import SIDES, Comparison, Side


@dataclass(slots=True)
class Doubts:
    """Records that were not read, and rows that may have been written again.

    Attributes:
        why: for each side, why records or rows may have been there that were not read: by the number of a partition, or by
            another reason, which concerns all partitions.
        unread: partition of the source -> number of its offsets that were never read: before the begin, removed, or truncated.
        answered_ms: partition of the source in doubt -> when a record of it was first answered since.
        certain_from: partition of the source that was in doubt -> the number of the row after which it is not.
        rewritten: partitions of the sink that were truncated: rows may have been written there again.
    """

    asked: Comparison
    why: dict[Side, dict[str, str]] = field(default_factory=lambda: {side: {} for side in SIDES})
    unread: dict[int, int] = field(default_factory=dict)
    answered_ms: dict[int, int] = field(default_factory=dict)
    certain_from: dict[int, int] = field(default_factory=dict)
    rewritten: set[int] = field(default_factory=set)

    def add(self, side: Side, about: str, why: str) -> bool:
        """Remember a reason, once for each partition or other reason; return whether a partition of the source is in doubt."""
        self.why[side].setdefault(about, why)
        is_of_source = side == "source" and about.isdecimal()
        if is_of_source:
            self.answered_ms.pop(int(about), None)
            self.certain_from.pop(int(about), None)
        return is_of_source

    def skip(self, partition: int, offsets: int) -> None:
        """Count offsets of the source that were never read."""
        self.unread[partition] = self.unread.get(partition, 0) + offsets

    def answered(self, partition: int, now_ms: int) -> None:
        """Note that a record of this partition of the source was answered."""
        if str(partition) in self.why["source"]:
            self.answered_ms.setdefault(partition, now_ms)

    def seen(self, seen_ms: int, rows: int) -> None:
        """End the doubt about partitions whose first answer is long enough ago, for the rows after this number.

        Args:
            seen_ms: the time up to which the sink was read.
        """
        for partition, answered_ms in self.answered_ms.items():
            if seen_ms >= answered_ms + self.asked.overdue_ms:
                self.certain_from.setdefault(partition, rows)

    def may_answer_unread(self, partition: int, number: int) -> bool:
        """Whether the n-th row, which no record demands, may answer a record that was not read."""
        doubts = self.why["source"]
        if not doubts:
            return False
        own = [about for about in doubts if self.asked.anywhere or about == str(partition) or not about.isdecimal()]
        return any(not about.isdecimal() or number <= self.certain_from.get(int(about), number) for about in own)

    def may_be_written_again(self, partition: int) -> bool:
        """Whether a row in this partition of the sink may be there for the second time since its log was truncated."""
        return bool(self.rewritten) if self.asked.anywhere else partition in self.rewritten
