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

from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

import numpy as np

Side = Literal["source", "sink"]
Compared = Literal["identity", "value", "row"]
Row = tuple[int, int, bytes | None, bytes | None]  # partition, offset, identity, and the value (of a record: the demanded one)

WINDOW = 1 << 20
_EXAMPLES = 32
_LONGEST = 200  # bytes of an identity that are kept
SIDES: tuple[Side, Side] = ("source", "sink")


@dataclass(frozen=True, slots=True)
class Comparison:
    """How both logs are compared.

    Attributes:
        compared: ``identity``: a row is right if its identity is demanded; ``value``: its value must be the demanded one, too;
            ``row``: key and value together are the identity, and either may be null.
        anywhere: whether a row may be in any partition of the sink.
        overdue_ms: the time after which a record without an answer is a gap.
        window: number of answers whose prints are kept.
        begun_within: whether following begins within the source, so that rows for earlier records come first.
    """

    compared: Compared = "value"
    anywhere: bool = False
    overdue_ms: int = 60_000
    window: int = WINDOW
    begun_within: bool = False


class Demand(NamedTuple):
    """A record of the source without an answer so far."""

    since_ms: int
    partition: int
    offset: int
    identity: bytes | None


class Odd(NamedTuple):
    """A row of the sink that answers no record read so far."""

    number: int
    partition: int
    offset: int
    identity: bytes | None
    content: int


class Mark(NamedTuple):
    """How far the sink was read: the number of rows, and the next offset of each partition."""

    rows: int
    offsets: Mapping[int, int]


@dataclass(slots=True)
class Counts:
    """Counts so far; they never fall.

    Attributes:
        source, sink: records and rows read.
        answered: records with an answer, late or not.
        late: answered records that were gaps before.
        earlier: rows that seem to answer records from before the begin.
        unidentified: records of the source without an identity, which demand nothing.
        undecodable: rows of the sink without an identity.
        skipped_source, skipped_sink: offsets that were removed before they were read.
        resets: how often the next offset of a log did not exist any more.
        withdrawn: records that were read, had no answer, and were then truncated from their log.
        doubtful_duplicates, doubtful_unexpected, doubtful_undecodable: such rows that may answer a record which was not read,
            or that may have been written again after the sink was truncated.
    """

    source: int = 0
    sink: int = 0
    answered: int = 0
    late: int = 0
    duplicates: int = 0
    wrong_values: int = 0
    misrouted: int = 0
    unexpected: int = 0
    earlier: int = 0
    unidentified: int = 0
    undecodable: int = 0
    skipped_source: int = 0
    skipped_sink: int = 0
    resets: int = 0
    withdrawn: int = 0
    doubtful_duplicates: int = 0
    doubtful_unexpected: int = 0
    doubtful_undecodable: int = 0


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


@dataclass(frozen=True, slots=True)
class Seen:
    """A row with its anomaly, or a gap that was answered after all."""

    anomaly: str
    partition: int
    offset: int
    identity: bytes | None
    detail: str = ""


@dataclass(slots=True)
class Follow:
    """Both logs, as far as they were read.

    Attributes:
        at: the next offset of each partition of each side.
        examples: the first rows of each anomaly.
        news: anomalies found since the caller last emptied this list; only the first few of each kind.
        doubts: for each side, why records or rows may have been there that were not read.
        seen_ms, positions: the time up to which the sink was read, and the group's positions then; None without a group.
        grew_ms, first_answer_ms: when the last row was read, and the first row that is an answer.
        held: outstanding records, by print and partition; `outstanding` is their number.
        odd: rows that no record demands so far, by print and partition; `undecided` is their number.
        rows: number of rows read.
        judged: partition of the sink -> the offset before which every row was judged.
        answered_to: partition of the source -> the offset after the last answered record.
        window: prints of the last answers, a ring; `written` is how many were ever put in.
        end: which records must be answered at the end; None until the follower ends.
        unread: partition of the source -> number of its offsets that were never read: before the begin, removed, or truncated.
        answered_ms: partition of the source in doubt -> when a record of it was first answered since.
        certain_from: partition of the source that was in doubt -> the number of the row after which it is not.
        rewritten: partitions of the sink that were truncated: rows may have been written there again.
    """

    asked: Comparison
    counts: Counts = field(default_factory=Counts)
    at: dict[Side, dict[int, int]] = field(default_factory=lambda: {side: {} for side in SIDES})
    examples: list[Seen] = field(default_factory=list)
    news: list[Seen] = field(default_factory=list)
    doubts: dict[Side, dict[str, str]] = field(default_factory=lambda: {side: {} for side in SIDES})
    seen_ms: int = 0
    positions: Mapping[int, int] | None = None
    grew_ms: int = 0
    first_answer_ms: int = 0
    held: dict[int, Demand | deque[Demand]] = field(default_factory=dict)
    outstanding: int = 0
    odd: dict[int, deque[Odd]] = field(default_factory=dict)
    undecided: int = 0
    rows: int = 0
    judged: dict[int, int] = field(default_factory=dict)
    answered_to: dict[int, int] = field(default_factory=dict)
    window: "array[int]" = field(init=False)
    written: int = 0
    end: End | None = None
    unread: dict[int, int] = field(default_factory=dict)
    answered_ms: dict[int, int] = field(default_factory=dict)
    certain_from: dict[int, int] = field(default_factory=dict)
    rewritten: set[int] = field(default_factory=set)
    _salts: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.window = array("Q", bytes(8 * self.asked.window))

    # what was read -----------------------------------------------------------------------------------------------------

    def read_source(self, records: Iterable[Row], now_ms: int) -> None:
        """Take records, in the order of each partition; records of an offset that was read before are ignored."""
        at, odd, counts = self.at["source"], self.odd, self.counts
        for partition, offset, identity, value in records:
            if offset < at.get(partition, 0):
                continue
            at[partition] = offset + 1
            counts.source += 1
            if identity is None and self.asked.compared != "row":
                counts.unidentified += 1
                continue
            key = self._print(identity, value) ^ self.salt(partition)
            demand = Demand(now_ms, partition, offset, _kept(identity))
            if odd and key in odd:
                self._take_odd(key)
                self._answer(key, demand, now_ms)
            else:
                self.demand(key, demand)
        self._all_judged()

    def read_sink(self, rows: Iterable[Row], now_ms: int) -> None:
        """Take rows, in the order of each partition; rows of an offset that was read before are ignored."""
        at, outstanding, counts = self.at["sink"], self.held, self.counts
        for partition, offset, identity, value in rows:
            if offset < at.get(partition, 0):
                continue
            at[partition] = offset + 1
            counts.sink += 1
            self.rows += 1
            self.grew_ms = now_ms
            if identity is None and self.asked.compared != "row":
                counts.undecodable += 1
                counts.doubtful_undecodable += self._is_in_doubt(partition, self.rows)
                self._tell(Seen("undecodable", partition, offset, None, "without what identifies it"))
                continue
            content = self._print(identity, value)
            key = content ^ self.salt(partition)
            if key in outstanding:
                self._answer(key, self._take(key), now_ms)
            else:
                self.odd.setdefault(key, deque()).append(Odd(self.rows, partition, offset, _kept(identity), content))
                self.undecided += 1
        self._all_judged()

    def reached(self, side: Side, partition: int, offset: int) -> None:
        """Move to this offset: all before it was read, and the skipped offsets hold no rows."""
        if offset > self.at[side].get(partition, 0):
            self.at[side][partition] = offset

    def begin(self, side: Side, partition: int, offset: int) -> None:
        """Set the first offset of a partition; for the begin only."""
        self.at[side].setdefault(partition, offset)
        if side == "source" and offset:
            self.unread.setdefault(partition, offset)

    def reset(self, side: Side, partition: int, offset: int, why: str, *, cut: int | None = None) -> None:
        """Continue at another offset, because the next one does not exist any more.

        Args:
            cut: the offset from which records that were read are gone; None if that is `offset`.
        """
        at = self.at[side].get(partition, 0)
        skipped = max(0, offset - at)
        name = "skipped_source" if side == "source" else "skipped_sink"
        setattr(self.counts, name, getattr(self.counts, name) + skipped)
        self.counts.resets += 1
        self.at[side][partition] = offset
        if side == "sink":
            self.judged[partition] = min(offset, self.judged.get(partition, 0))
            if offset <= at:
                self.rewritten.add(partition)
        else:
            end = offset if cut is None else cut
            self.unread[partition] = self.unread.get(partition, 0) + skipped + max(0, at - end)
            self._withdraw(partition, end)
        self.doubt(side, f"{partition}", why)

    def _withdraw(self, partition: int, end: int) -> None:
        """Forget the truncated records of a partition: they demand no row any more."""
        gone = [(key, one) for key, one in self._keyed() if one.partition == partition and one.offset >= end]
        for key, one in gone:
            found = self.held[key]
            if isinstance(found, deque) and len(found) > 1:
                found.remove(one)
            else:
                del self.held[key]
        self.outstanding -= len(gone)
        self.counts.withdrawn += len(gone)
        if partition in self.answered_to:
            self.answered_to[partition] = min(end, self.answered_to[partition])

    def doubt(self, side: Side, about: str, why: str) -> None:
        """Remember why rows or records of a side may not have been read; once for each partition or other reason."""
        self.doubts[side].setdefault(about, why)
        if side == "source" and about.isdecimal():
            self.answered_ms.pop(int(about), None)
            self.certain_from.pop(int(about), None)
            self.counts.doubtful_undecodable = self.counts.undecodable

    # judging -----------------------------------------------------------------------------------------------------------

    def mark(self) -> Mark:
        """Return how far the sink is read now."""
        return Mark(self.rows, dict(self.at["sink"]))

    def settle(self, mark: Mark, now_ms: int) -> None:
        """Judge the odd rows up to a mark; the source must have been read to the end that it had at the mark, or beyond."""
        old = sorted(one for odds in self.odd.values() for one in odds if one.number <= mark.rows)
        if old:
            for one in old:
                self._take_odd(one.content ^ self.salt(one.partition))
            self._judge(old, now_ms)
        for partition, offset in mark.offsets.items():
            self.judged[partition] = max(offset, self.judged.get(partition, 0))
        self._all_judged()

    def seen(self, now_ms: int, positions: Mapping[int, int] | None = None) -> None:
        """Note that the sink was read to the end that it had at this time, or beyond.

        Args:
            positions: positions of the pipeline's group: records that it is not past are pending; None without a group.
        """
        self.seen_ms = max(self.seen_ms, now_ms)
        self.positions = positions
        for partition, answered_ms in self.answered_ms.items():
            if self.seen_ms >= answered_ms + self.asked.overdue_ms:
                self.certain_from.setdefault(partition, self.rows)

    def standing(self) -> Standing:
        """Count the outstanding records; this takes time in proportion to their number."""
        answered_to, end = self.answered_to, self.end
        lag = gaps = overtaken = lost = later = 0
        first: list[Demand] = []
        for demand in self.demands():
            passed = demand.offset < answered_to.get(demand.partition, 0)
            lag += not passed
            if end and demand.offset >= end.ends.get(demand.partition, 0):
                later += 1
                continue
            overdue = self._is_gap(demand)
            if (overdue or self._is_lost(demand)) and not self._is_hidden(demand):
                gaps += 1
                lost += not overdue
                overtaken += passed
                if len(first) < _EXAMPLES:
                    first.append(demand)
        return Standing(lag, gaps, overtaken, self.outstanding - gaps - later, tuple(sorted(first)), lost, later)

    def _all_judged(self) -> None:
        if not self.undecided:
            self.judged = dict(self.at["sink"])

    def _is_gap(self, demand: Demand) -> bool:
        positions = self.positions
        is_past = positions is None or demand.offset < positions.get(demand.partition, 0)
        return is_past and demand.since_ms <= self.seen_ms - self.asked.overdue_ms

    def _is_lost(self, demand: Demand) -> bool:
        past = self.end.past if self.end else None
        return past is not None and demand.offset < past.get(demand.partition, 0)

    def _is_hidden(self, demand: Demand) -> bool:
        hidden = self.end.hidden if self.end else frozenset()
        return bool(hidden) if self.asked.anywhere else demand.partition in hidden

    # answers -----------------------------------------------------------------------------------------------------------

    def demand(self, key: int, demand: Demand) -> None:
        before = self.held.get(key)
        if before is None:
            self.held[key] = demand
        elif isinstance(before, deque):
            before.append(demand)
        else:
            self.held[key] = deque((before, demand))
        self.outstanding += 1

    def _take(self, key: int) -> Demand:
        """Remove and return the oldest demand for an equal row."""
        found = self.held[key]
        self.outstanding -= 1
        if isinstance(found, deque):
            demand = found.popleft()
            if not found:
                del self.held[key]
            return demand
        del self.held[key]
        return found

    def _take_odd(self, key: int) -> None:
        odds = self.odd[key]
        odds.popleft()
        if not odds:
            del self.odd[key]
        self.undecided -= 1

    def _answer(self, key: int, demand: Demand, now_ms: int) -> None:
        self.counts.answered += 1
        if not self.first_answer_ms:
            self.first_answer_ms = now_ms
        self.remember(key ^ self.salt(demand.partition))
        if demand.offset >= self.answered_to.get(demand.partition, 0):
            self.answered_to[demand.partition] = demand.offset + 1
        if self.doubts["source"] and str(demand.partition) in self.doubts["source"]:
            self.answered_ms.setdefault(demand.partition, now_ms)
        if self._is_gap(demand):
            self.counts.late += 1
            waited = f"after {(now_ms - demand.since_ms) / 1000:.0f} s"
            self._tell(Seen("answered late", demand.partition, demand.offset, demand.identity, waited))

    def _judge(self, odds: list[Odd], now_ms: int) -> None:
        """Judge odd rows in the order in which they were read."""
        known = self._within_window(odds)
        by_content, by_identity = self._sought(odds)
        for one in odds:
            is_unread = self._is_in_doubt(one.partition, one.number)
            in_doubt = is_unread or self._may_be_written_again(one)
            if not in_doubt and (misrouted := _taken(by_content, one.content, self.held)):
                anomaly, detail = "misrouted", f"its record is in partition {self._taken_by(misrouted, now_ms).partition}"
                self.counts.misrouted += 1
            elif one.content in known:
                anomaly, detail = "duplicate", "an equal row was there before"
                self.counts.duplicates += 1
                self.counts.doubtful_duplicates += in_doubt
            elif not in_doubt and (wrong := _taken(by_identity, one.identity, self.held)):
                record = self._taken_by(wrong, now_ms)
                anomaly, detail = "wrong value", f"its record is at partition {record.partition} offset {record.offset}"
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
                self.remember(one.content)
            if anomaly:
                unread = "; it may answer a record that was not read" if is_unread else ""
                self._tell(Seen(anomaly, one.partition, one.offset, one.identity, f"{detail}{unread}"))

    def _is_in_doubt(self, partition: int, number: int) -> bool:
        """Whether the n-th row, which no record demands, may answer a record that was not read."""
        doubts = self.doubts["source"]
        if not doubts:
            return False
        own = [about for about in doubts if self.asked.anywhere or about == str(partition) or not about.isdecimal()]
        return any(not about.isdecimal() or number <= self.certain_from.get(int(about), number) for about in own)

    def _may_be_written_again(self, row: Odd) -> bool:
        return bool(self.rewritten) if self.asked.anywhere else row.partition in self.rewritten

    def _taken_by(self, key: int, now_ms: int) -> Demand:
        demand = self._take(key)
        self._answer(key, demand, now_ms)
        return demand

    def _within_window(self, odds: list[Odd]) -> set[int]:
        """Return the prints of these rows that are in the window."""
        kept = np.frombuffer(self.window, np.uint64)[: min(self.written, self.asked.window)]
        asked = np.unique(np.array([one.content for one in odds], np.uint64))
        places = np.minimum(np.searchsorted(asked, kept), len(asked) - 1)
        return set(kept[asked[places] == kept].tolist())

    def _sought(self, odds: list[Odd]) -> tuple[dict[int, deque[int]], dict[bytes | None, deque[int]]]:
        """Return keys of outstanding records, by the prints and by the identities of these rows, the oldest first."""
        by_content, by_identity = dict[int, deque[int]](), dict[bytes | None, deque[int]]()
        elsewhere, paired = not self.asked.anywhere, self.asked.compared == "value"
        if not elsewhere and not paired:
            return by_content, by_identity
        contents, identities = {one.content for one in odds}, {one.identity for one in odds}
        for key, demand in self._keyed():
            content = key ^ self.salt(demand.partition)
            if elsewhere and content in contents:
                by_content.setdefault(content, deque()).append(key)
            if paired and demand.identity in identities:
                by_identity.setdefault(demand.identity, deque()).append(key)
        return by_content, by_identity

    def _may_be_earlier(self, now_ms: int) -> bool:
        """Whether records from before the begin may still get answers without being overdue."""
        if not self.asked.begun_within:
            return False
        return not self.first_answer_ms or now_ms - self.first_answer_ms <= self.asked.overdue_ms

    def remember(self, content: int) -> None:
        self.window[self.written % self.asked.window] = content
        self.written += 1

    def _tell(self, seen: Seen) -> None:
        """Keep the first rows of each anomaly; the caller empties the news."""
        if sum(one.anomaly == seen.anomaly for one in self.news) < _EXAMPLES:
            self.news.append(seen)
        if sum(one.anomaly == seen.anomaly for one in self.examples) < _EXAMPLES:
            self.examples.append(seen)

    def demands(self) -> Iterator[Demand]:
        for found in self.held.values():
            if isinstance(found, deque):
                yield from found
            else:
                yield found

    def _keyed(self) -> Iterator[tuple[int, Demand]]:
        for key, found in self.held.items():
            for demand in found if isinstance(found, deque) else (found,):
                yield key, demand

    def _print(self, identity: bytes | None, value: bytes | None) -> int:
        if self.asked.compared == "identity":
            return int.from_bytes(blake2b(identity or b"", digest_size=8).digest(), "little")
        head = b"-" if identity is None else b"%d:%b" % (len(identity), identity)
        row = head + (b"-" if value is None else b"+%b" % value)
        return int.from_bytes(blake2b(row, digest_size=8).digest(), "little")

    def salt(self, partition: int) -> int:
        """Return a number that makes equal rows of different partitions differ; 0 if a row may be in any partition."""
        if self.asked.anywhere:
            return 0
        found = self._salts.get(partition)
        if found is None:
            found = int.from_bytes(blake2b(b"%d" % partition, digest_size=8).digest(), "little")
            self._salts[partition] = found
        return found


def _taken(keys: Mapping[Any, deque[int]], wanted: object, outstanding: Mapping[int, object]) -> int | None:
    """Return the key of the oldest equal demand that no earlier row has taken."""
    found = keys.get(wanted)
    while found:
        key = found.popleft()
        if key in outstanding:
            return key
    return None


def _kept(identity: bytes | None) -> bytes | None:
    """Shorten a long identity to its begin and a hash."""
    if identity is None or len(identity) <= _LONGEST:
        return identity
    return identity[: _LONGEST - 16] + blake2b(identity, digest_size=16).digest()
