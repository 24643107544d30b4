"""Following a pipeline: which row of the sink answers which record of the source, while both logs grow.

This module is pure: it does not read, wait, or ask for the time. A `Follow` takes rows in the order of each partition. Both
logs are multisets. A record of the source *demands* a row; an equal row answers the oldest such record. The other rows and
records are judged once nothing can change them any more::

    source    a b c d e f g            outstanding  c: demanded, and not there yet
    sink      a b d e f g b X          odd          b and X: no record that was read demands them (any more)

    odd           a row may be read before its record. It is judged when the source was read up to the end that it had after the
                  row was read (`settle`): misrouted, if a record demands it in another partition; duplicate, if an equal row
                  was an answer before; wrong value, if its identity is outstanding; else unexpected
    outstanding   a record is a gap once it was read longer ago than `overdue_ms`, by the time up to which the sink is read
                  (`seen`), and only if the group, where one is named, is past it. It may still be answered: the gap is taken
                  back then. When the follower ends (`End`), only records that the source held by then must be answered
    in doubt      a row that no record demands may answer a record that was not read, if the source begins above 0, was
                  truncated or compacted, or is followed from now on. Such a row answers no other record, and proves nothing.
                  The doubt about a partition ends once the sink was read for `overdue_ms` beyond the first answer to a record
                  of it, because a pipeline reads the records of a partition in their order

A row is known by a print of 64 bits of its identity and value. The prints of the last answers are kept in a window of a fixed
size, 8 bytes each: a copy of a row that has left the window is `unexpected`, like a row that nothing ever demanded. Outstanding
records take memory in proportion to the pipeline's lag, and nothing else grows.

Easily confused with a gap: lag. A record that a later one of its partition has overtaken is not lag (`Standing.overtaken`).
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from chaos.audit.follow.doubts import Doubts
from chaos.audit.follow.gaps import Gaps, Standing
from chaos.audit.follow.memory import Prints, Waiting, Window
from chaos.audit.follow.rows import SIDES, Anomalies, Comparison, Counts, Demand, Mark, Odd, Row, Seen, Side, shortened


@dataclass(slots=True)
class Follow:
    """Both logs, as far as they were read.

    Attributes:
        at: the next offset of each partition of each side.
        judged: partition of the sink -> the offset before which every row was judged.
        answered_to: partition of the source -> the offset after the last answered record.
        grew_ms, first_answer_ms: when the last row was read, and the first row that is an answer.
        outstanding: records without an answer so far.
        odd: rows that no record demands so far.
        window: prints of the last answers.
    """

    asked: Comparison
    counts: Counts = field(default_factory=Counts)
    at: dict[Side, dict[int, int]] = field(default_factory=lambda: {side: {} for side in SIDES})
    judged: dict[int, int] = field(default_factory=dict)
    answered_to: dict[int, int] = field(default_factory=dict)
    grew_ms: int = 0
    first_answer_ms: int = 0
    anomalies: Anomalies = field(default_factory=Anomalies)
    outstanding: Waiting[Demand] = field(default_factory=Waiting)
    odd: Waiting[Odd] = field(default_factory=Waiting)
    window: Window = field(init=False)
    prints: Prints = field(init=False)
    gaps: Gaps = field(init=False)
    doubts: Doubts = field(init=False)

    def __post_init__(self) -> None:
        self.window, self.prints = Window(self.asked.window), Prints(self.asked)
        self.gaps, self.doubts = Gaps(self.asked), Doubts(self.asked)

    # what was read -----------------------------------------------------------------------------------------------------

    def read_source(self, records: Iterable[Row], now_ms: int) -> None:
        """Take records, in the order of each partition; records of an offset that was read before are ignored."""
        at, counts, odd, wait = self.at["source"], self.counts, self.odd.held, self.outstanding.add
        content_of, salt_of, null_demands = self.prints.content, self.prints.salt, self.asked.compared == "row"
        for partition, offset, identity, value in records:
            if offset < at.get(partition, 0):
                continue
            at[partition] = offset + 1
            counts.source += 1
            if identity is None and not null_demands:
                counts.unidentified += 1
                continue
            content = content_of(identity, value)
            key = content ^ salt_of(partition)
            demand = Demand(now_ms, partition, offset, shortened(identity))
            if key in odd:
                self.odd.take(key)
                self._answer(content, demand, now_ms)
            else:
                wait(key, demand)
        self._all_judged()

    def read_sink(self, rows: Iterable[Row], now_ms: int) -> None:
        """Take rows, in the order of each partition; rows of an offset that was read before are ignored."""
        at, counts, take = self.at["sink"], self.counts, self.outstanding.take
        content_of, salt_of, null_answers = self.prints.content, self.prints.salt, self.asked.compared == "row"
        for partition, offset, identity, value in rows:
            if offset < at.get(partition, 0):
                continue
            at[partition] = offset + 1
            counts.sink += 1
            self.grew_ms = now_ms
            if identity is None and not null_answers:
                counts.undecodable += 1
                counts.doubtful_undecodable += self.doubts.may_answer_unread(partition, counts.sink)
                self.anomalies.add(Seen("undecodable", partition, offset, None, "without what identifies it"))
                continue
            content = content_of(identity, value)
            key = content ^ salt_of(partition)
            demand = take(key)
            if demand is None:
                self.odd.add(key, Odd(counts.sink, partition, offset, shortened(identity), content))
            else:
                self._answer(content, demand, now_ms)
        self._all_judged()

    def reached(self, side: Side, partition: int, offset: int) -> None:
        """Move to this offset: all before it was read, and the skipped offsets hold no rows."""
        if offset > self.at[side].get(partition, 0):
            self.at[side][partition] = offset

    def begin(self, side: Side, partition: int, offset: int) -> None:
        """Set the first offset of a partition; for the begin only."""
        self.at[side].setdefault(partition, offset)
        if side == "source" and offset:
            self.doubts.unread.setdefault(partition, offset)

    def reset(self, side: Side, partition: int, offset: int, why: str, *, cut: int | None = None) -> None:
        """Continue at another offset, because the next one does not exist any more.

        Args:
            cut: the offset from which records that were read are gone; None if that is `offset`.
        """
        at = self.at[side].get(partition, 0)
        skipped = max(0, offset - at)
        self.counts.resets += 1
        self.at[side][partition] = offset
        if side == "sink":
            self.counts.skipped_sink += skipped
            self.judged[partition] = min(offset, self.judged.get(partition, 0))
            if offset <= at:
                self.doubts.rewritten.add(partition)
        else:
            self.counts.skipped_source += skipped
            end = offset if cut is None else cut
            self.doubts.skip(partition, skipped + max(0, at - end))
            self._withdraw(partition, end)
        self.doubt(side, f"{partition}", why)

    def _withdraw(self, partition: int, end: int) -> None:
        """Forget the truncated records of a partition: they demand no row any more."""
        gone = [(key, one) for key, one in self.outstanding.items() if one.partition == partition and one.offset >= end]
        for key, one in gone:
            self.outstanding.remove(key, one)
        self.counts.withdrawn += len(gone)
        if partition in self.answered_to:
            self.answered_to[partition] = min(end, self.answered_to[partition])

    def doubt(self, side: Side, about: str, why: str) -> None:
        """Remember why rows or records of a side may not have been read; once for each partition or other reason."""
        if self.doubts.add(side, about, why):
            self.counts.doubtful_undecodable = self.counts.undecodable

    # judging -----------------------------------------------------------------------------------------------------------

    def mark(self) -> Mark:
        """Return how far the sink is read now."""
        return Mark(self.counts.sink, dict(self.at["sink"]))

    def settle(self, mark: Mark, now_ms: int) -> None:
        """Judge the odd rows up to a mark; the source must have been read to the end that it had at the mark, or beyond."""
        old = sorted(one for one in self.odd if one.number <= mark.rows)
        if old:
            for one in old:
                self.odd.take(one.content ^ self.prints.salt(one.partition))
            self._judge(old, now_ms)
        for partition, offset in mark.offsets.items():
            self.judged[partition] = max(offset, self.judged.get(partition, 0))
        self._all_judged()

    def seen(self, now_ms: int, positions: Mapping[int, int] | None = None) -> None:
        """Note that the sink was read to the end that it had at this time, or beyond.

        Args:
            positions: positions of the pipeline's group: records that it is not past are pending; None without a group.
        """
        self.gaps.seen(now_ms, positions)
        self.doubts.seen(self.gaps.seen_ms, self.counts.sink)

    def standing(self) -> Standing:
        """Count the outstanding records; this takes time in proportion to their number."""
        return self.gaps.standing(self.outstanding, self.answered_to)

    def _all_judged(self) -> None:
        if not self.odd:
            self.judged = dict(self.at["sink"])

    def _judge(self, odds: Sequence[Odd], now_ms: int) -> None:
        """Judge odd rows in the order in which they were read."""
        known = self.window.within({one.content for one in odds})
        candidates = _Candidates(odds, self.outstanding, self.prints)
        for one in odds:
            is_unread = self.doubts.may_answer_unread(one.partition, one.number)
            in_doubt = is_unread or self.doubts.may_be_written_again(one.partition)
            if not in_doubt and (found := candidates.take_equal(one)):
                self._answer(*found, now_ms)
                anomaly, detail = "misrouted", f"its record is in partition {found[1].partition}"
                self.counts.misrouted += 1
            elif one.content in known:
                anomaly, detail = "duplicate", "an equal row was there before"
                self.counts.duplicates += 1
                self.counts.doubtful_duplicates += in_doubt
            elif not in_doubt and (found := candidates.take_identified(one)):
                self._answer(*found, now_ms)
                anomaly, detail = "wrong value", f"its record is at partition {found[1].partition} offset {found[1].offset}"
                self.counts.wrong_values += 1
            elif self._may_be_earlier(now_ms):
                anomaly, detail = "", ""
                self.counts.earlier += 1
            else:
                anomaly, detail = "unexpected", f"no record demands it, and it is none of the last {self.asked.window} answers"
                self.counts.unexpected += 1
                self.counts.doubtful_unexpected += in_doubt
            known.add(one.content)
            if anomaly != "misrouted":  # the answer to its record is remembered already
                self.window.add(one.content)
            if anomaly:
                unread = "; it may answer a record that was not read" if is_unread else ""
                self.anomalies.add(Seen(anomaly, one.partition, one.offset, one.identity, f"{detail}{unread}"))

    def _may_be_earlier(self, now_ms: int) -> bool:
        """Whether records from before the begin may still get answers without being overdue."""
        if not self.asked.begun_within:
            return False
        return not self.first_answer_ms or now_ms - self.first_answer_ms <= self.asked.overdue_ms

    def _answer(self, content: int, demand: Demand, now_ms: int) -> None:
        """Note that a record was answered; `content` is the print of the demanded row."""
        self.counts.answered += 1
        if not self.first_answer_ms:
            self.first_answer_ms = now_ms
        self.window.add(content)
        if demand.offset >= self.answered_to.get(demand.partition, 0):
            self.answered_to[demand.partition] = demand.offset + 1
        if self.doubts.why["source"]:
            self.doubts.answered(demand.partition, now_ms)
        if self.gaps.is_overdue(demand):
            self.counts.late += 1
            waited = f"after {(now_ms - demand.since_ms) / 1000:.0f} s"
            self.anomalies.add(Seen("answered late", demand.partition, demand.offset, demand.identity, waited))


class _Candidates:
    """Outstanding records that odd rows may stand for, the oldest first; found in one pass over all outstanding records."""

    def __init__(self, odds: Sequence[Odd], outstanding: Waiting[Demand], prints: Prints) -> None:
        self._outstanding, self._prints = outstanding, prints
        self._by_content, self._by_identity = dict[int, deque[int]](), dict[bytes | None, deque[int]]()  # -> keys
        elsewhere, paired = not prints.asked.anywhere, prints.asked.compared == "value"
        if not elsewhere and not paired:
            return
        contents, identities = {one.content for one in odds}, {one.identity for one in odds}
        for key, demand in outstanding.items():
            content = key ^ prints.salt(demand.partition)
            if elsewhere and content in contents:
                self._by_content.setdefault(content, deque()).append(key)
            if paired and demand.identity in identities:
                self._by_identity.setdefault(demand.identity, deque()).append(key)

    def take_equal(self, odd: Odd) -> tuple[int, Demand] | None:
        """Take the record that demands an equal row in another partition; return the print of that row, and the record."""
        return self._take(self._by_content.get(odd.content))

    def take_identified(self, odd: Odd) -> tuple[int, Demand] | None:
        """Take the record that demands a row of the same identity; return the print of that row, and the record."""
        return self._take(self._by_identity.get(odd.identity))

    def _take(self, keys: deque[int] | None) -> tuple[int, Demand] | None:
        while keys:
            key = keys.popleft()
            demand = self._outstanding.take(key)  # None if an earlier row has taken it
            if demand is not None:
                return key ^ self._prints.salt(demand.partition), demand
        return None
