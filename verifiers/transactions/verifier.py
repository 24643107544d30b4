"""Transactions: every record is consumed by exactly one committed transaction, as far as Kafka's logs can tell.

A transaction binds positions (in ``__consumer_offsets``) to rows (in the sinks). These are wrong whatever a pipeline computes:

    output without positions   a transaction that moved no position committed rows: their records are read again
    output outside             rows of a topic that this application alone writes to are in no transaction at all
    step back                  a position was committed below the one in force: the records between were, or will be, read again
    overtaken                  rows were committed with a position that took no effect, since a later one was in force
    standing still             rows were committed with positions that all stay where they were
    torn                       one transaction, committed in one partition and aborted in another
    hanging                    a transaction is open in a partition, and its coordinator will not end it
    moved outside              a position went forward outside of any transaction: the records between are in none
    set back outside           a position went back outside of any transaction: an administrator, or a client that uses none

and, if the number of rows that one record makes is declared:

    surplus                    a transaction has more rows than the records that it moved past can make
    deficit                    it has fewer

and, if a proxy saw where readers began (`verifiers.transactions.starts`), record by record:

    committed twice            a reader began before a record of an open transaction, which was committed all the same: the
                               record was read again, and committed again
    skipped                    a reader began behind a record that nobody had read

Easily confused with these, and right: a transaction without rows (everything was filtered out), or with a partition that it
wrote nothing to; one that was aborted, whatever it holds; a second marker that a new coordinator wrote; transactions of other
applications in the same sink; and rows that a timer wrote, which move no position (``timers`` says that there are such).

**What it cannot see.** A position is only an end; no log stores where a reader began. A batch that was read twice, and
committed twice by transactions whose positions only grow, shows as a surplus. It does not show at all if the rows per record
are not declared and no proxy saw where readers began. The verifiers that have a model see it.

A position that was removed is compared all the same: the records before it stay read. Rows and records that cannot be accounted
for are named, and UNKNOWN (`verifiers.transactions.doubts`). A transaction in flight while the logs were read is not judged,
nor is anything after the end.

Sources: KIP-98, KIP-447, KIP-890; Kafka's ``OffsetMetadataManager`` (which position is in force).
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from verifiers.base import Example, Finding, Verdict
from verifiers.findings import EXAMPLES
from verifiers.transactions.case import Case, case
from verifiers.transactions.counts import DEFICIT, SURPLUS, counted
from verifiers.transactions.doubts import described, doubts, is_set_at_first, outside, strange, without_positions
from verifiers.transactions.logs import OFFSETS, Log, Logs
from verifiers.transactions.starts import Skipped, Twice
from verifiers.transactions.steps import Step
from verifiers.transactions.together import Piece, Span, Transaction
from verifiers.transactions.words import begun, named, ranged, rows, shown, time_of

ANOMALIES = (
    "output without positions",
    "output outside",
    "step back",
    "overtaken",
    "standing still",
    "torn",
    "hanging",
    "moved outside",
    "set back outside",
    "surplus",
    "deficit",
    "committed twice",
    "skipped",
)
_OF_TIMERS = frozenset({"output without positions", "standing still", "surplus"})
NOT_ASKED = "the group sent no position in a transaction, so no log shows how its output and its positions belong together"


@dataclass(frozen=True, slots=True)
class RowsPerRecord:
    """The number of rows that one record may make."""

    min: float
    max: float


@dataclass(frozen=True, slots=True)
class Transactions:
    """Compares each transaction's positions with its rows; ``checked`` are the committed ones of the groups' producers.

    Attributes:
        rows_per_record: None if it is not known.
        alone: topics that only this application writes to: rows that another producer commits there are output without
            positions, and rows in no transaction are output outside.
        shared: topics that others write to as well: only the rows of the groups' transactions are judged there.
        timers: whether the application writes rows that no record caused.
        of_a_run: whether the topics and the groups were made for one run, which is over: then a first position begins at 0, a
            topic is never another one of the same name, and nothing may be in flight.
    """

    rows_per_record: RowsPerRecord | None = None
    alone: frozenset[str] = frozenset()
    shared: frozenset[str] = frozenset()
    timers: bool = False
    of_a_run: bool = False
    name: str = "transactions"
    guarantee: str = "every record is consumed by exactly one committed transaction"
    anomalies: tuple[str, ...] = ANOMALIES

    def check(self, logs: Logs) -> Finding:
        """Judge landed logs."""
        judged = case(logs, self.alone, of_a_run=self.of_a_run)
        if not judged.movers:
            return Finding(self.name, "sink", Verdict.UNKNOWN, 0, 0, dict.fromkeys(ANOMALIES, 0), note=NOT_ASKED)
        found = sorted((*self._found(judged), *_by_starts(judged)), key=lambda one: (one.partition, one.offset or 0))
        counts = Counter(one.anomaly for one in found)
        also = {
            "aborted": sum(one.control == "ABORT" for one in judged.judged),
            "in flight": len(judged.in_flight),
            "removed": sum(step.end is None for step in judged.steps),
        }
        unknown = list(doubts(judged, self))
        verdict = max(Verdict.INVALID if found else Verdict.VALID, Verdict.UNKNOWN if unknown else Verdict.VALID)
        return Finding(
            self.name,
            "sink",
            verdict,
            len(found),
            len(judged.committed()),
            {name: counts[name] for name in ANOMALIES} | also,
            tuple(found[:EXAMPLES]),
            "; ".join((*unknown, *_notes(judged, self, counts))),
        )

    def _found(self, judged: Case) -> Iterator[Example]:
        for step in judged.steps:
            yield from _of_step(step, judged)
        for one in judged.judged:
            yield from _torn(one)
            if one.control == "COMMIT" and one.rows and not self.timers:
                yield from _of_output(one, judged)
            if one.control == "COMMIT":
                yield from self._counted(one, judged)
        if not self.timers:
            yield from self._alone(judged)
        yield from map(_hanging, judged.hanging)

    def _alone(self, judged: Case) -> Iterator[Example]:
        """Yield rows in topics of this application alone that no transaction with a position accounts for."""
        for one in without_positions(judged):
            if not one.cut and any(piece.log[0] in self.alone for piece in one.outputs):
                yield _output("output without positions", one, "but its producer never sent a position")
        for log, stretches in outside(judged).items():
            yield from (_outside(log, stretch) for stretch in stretches if log[0] in self.alone)

    def _counted(self, one: Transaction, judged: Case) -> Iterator[Example]:
        """Yield a transaction with more rows, or fewer, than the records that it moved past can make."""
        count, asked = counted(one, judged, self), self.rows_per_record
        if asked is None or count.kind not in {SURPLUS, DEFICIT}:
            return
        moved = judged.moved[id(one)]
        place = one.outputs[0] if one.outputs else one.pieces[moved[0].log]
        what = f"{named(one)}: {one.rows} rows of {count.records} records"
        ranges = ", ".join(map(ranged, moved))
        if count.kind == SURPLUS:
            yield _placed("surplus", place, f"{what}, {one.rows - asked.max * count.records:g} too many; {ranges}")
        else:
            yield _placed("deficit", place, f"{what}, {asked.min * count.records - one.rows:g} too few; {ranges}")


# anomalies -----------------------------------------------------------------------------------------------------------------


def _of_step(step: Step, judged: Case) -> Iterator[Example]:
    if not step.taken:
        sent = step.transaction.rows if step.transaction else 0
        why = f"{step.end} was sent before {step.begin} and committed after it with {sent} rows, so it took no effect"
        if sent:
            yield _moved("overtaken", step, why)
    elif judged.of_a_run and is_set_at_first(step, judged):
        yield _moved("moved outside", step, f"{step.end} was the first one: the records before it are in no transaction")
    elif step.begin is None or step.end is None or not judged.is_same_topic(step) or judged.is_beyond(step):
        return  # `verifiers.transactions.doubts` names it
    elif step.end < step.begin:
        kind = "step back" if step.inside else "set back outside"
        yield _moved(kind, step, f"{step.end} was committed after {_last(step)}: the records between are read again")
    elif step.end > step.begin and not step.inside:
        why = f"{step.end} was committed after {_last(step)}: the records between are in no transaction"
        yield _moved("moved outside", step, why)


def _last(step: Step) -> str:
    return f"{step.begin}" if step.removed_ms is None else f"{step.begin}, which was removed at {time_of(step.removed_ms)}"


def _torn(one: Transaction) -> Iterator[Example]:
    for piece in (piece for _, piece in sorted(one.pieces.items()) if piece.control != one.control):
        where = f"{piece.control} at offset {piece.marker}, but its coordinator decided {one.control}"
        yield _placed("torn", piece, f"{named(one)}: {where}; rows {rows(piece)}")


def _of_output(one: Transaction, judged: Case) -> Iterator[Example]:
    """Yield a transaction with rows, but without a position that moved."""
    positions = [log for log in one.logs if log[0] == OFFSETS]
    sent = any(one.pieces[log].records for log in positions if log in one.pieces)
    if not sent:
        if all(log in judged.contents for log in positions):
            yield _output("output without positions", one, "but no position was sent")
        return
    moved = judged.moved.get(id(one), ())  # none if they are positions of other groups
    if moved and all(step.taken and _stands_still(step, judged) for step in moved):
        yield _output("standing still", one, f"but no position moved: {', '.join(map(ranged, moved))}")


def _stands_still(step: Step, judged: Case) -> bool:
    """Whether a step moved past no record; a first position of 0 has none before it."""
    begin = 0 if step.first else step.begin
    return begin == step.end and judged.is_same_topic(step)


def _outside(log: Log, stretch: Sequence[Span]) -> Example:
    topic, partition = log
    count = sum(span.records for span in stretch)
    why = f"{count} rows up to offset {stretch[-1].last} are in no transaction: they stay, whatever position is committed"
    return Example("output outside", partition, stretch[0].first, None, None, why, topic=topic)


def _by_starts(judged: Case) -> Iterator[Example]:
    """Yield an example for every record that was committed twice or skipped."""
    for one in (each for each in judged.twice if each.certain):
        times = f"{named(one.first.transaction)}, and again by {named(one.second.transaction)}"
        why = f"was committed by {times}: {begun(one.start)}, while the first was not committed"
        yield from _each("committed twice", one, judged, why, one.first.at_ms)
    for gap in judged.skipped:
        why = f"was read by nobody: {begun(gap.start)}, but {gap.begin} was in force"
        yield from _each("skipped", gap, judged, why, gap.start.answered_ms)


def _each(kind: str, found: Twice | Skipped, judged: Case, why: str, at_ms: int) -> Iterator[Example]:
    topic, partition = log = found.start.topic, found.start.partition
    visible = judged.visible.get(log)
    offsets = range(found.begin, found.end) if visible is None else visible.offsets(found.begin, found.end)
    for offset in offsets:
        yield Example(kind, partition, offset, None, at_ms, f"the record {why}", topic=topic)


def _hanging(piece: Piece) -> Example:
    who = f"producer {piece.producer_id} epoch {piece.epoch}"
    why = "are open, but no transaction of its coordinator has this partition"
    return _placed("hanging", piece, f"{who}: rows {rows(piece)} {why}")


# what else a reader should know ---------------------------------------------------------------------------------------------


def _notes(judged: Case, asked: Transactions, kinds: Collection[str]) -> Iterator[str]:
    for topic, found in strange(judged).items():
        if topic in asked.shared:
            yield f"{topic} has {described(*found)}: others write there, too"
    groups = len([one for one in judged.foreign if one.control == "COMMIT"]) - len(without_positions(judged))
    if groups:
        yield f"{groups} transactions in the same topics are of other groups"
    if judged.in_flight and not judged.of_a_run:
        yield f"{len(judged.in_flight)} transactions were in flight while the logs were read, and were not judged"
    if asked.timers:
        yield "timers: output without positions, standing still and surplus were not judged"
    elif kinds and _OF_TIMERS.issuperset(kinds):
        yield "if a timer wrote these rows, declare it: --timers, or timers: true in a scenario"


# in words ------------------------------------------------------------------------------------------------------------------


def _moved(kind: str, step: Step, why: str) -> Example:
    """Place the example at the first record that is concerned."""
    offsets = [one for one in (step.begin, step.end) if one is not None]
    topic, partition = step.source
    by = f"; {named(step.transaction)}" if step.transaction else ""
    group = f"group {step.group!r}, offset {step.at} of partition {step.log[1]} of {OFFSETS}"
    return Example(kind, partition, min(offsets), None, step.at_ms, f"the position {why} ({group}{by})", topic=topic)


def _output(kind: str, one: Transaction, why: str) -> Example:
    places = ", ".join(f"{rows(piece)} of {shown(piece.log)}" for piece in one.outputs)
    return _placed(kind, one.outputs[0], f"{named(one)}: {one.rows} rows were committed, {why}; rows {places}")


def _placed(kind: str, piece: Piece, detail: str) -> Example:
    topic, partition = piece.log
    offset = piece.first if piece.records else piece.marker
    return Example(kind, partition, offset, None, piece.at_ms, detail, topic=topic)
