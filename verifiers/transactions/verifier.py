"""Transactions: every record is consumed by exactly one committed transaction, as far as Kafka's logs can tell.

A transaction binds positions (in ``__consumer_offsets``) to rows (in the sinks). These are wrong whatever a pipeline computes:

    output without positions   rows were committed by a transaction that moved no position: what they were made of is read again
    step back                  a position was committed below the one in force: what lies between was, or will be, read again
    overtaken                  rows were committed with a position that took no effect, for one that was sent later was in force
    standing still             rows were committed with positions that all stay where they were
    torn                       one transaction, committed in one partition and aborted in another
    hanging                    a transaction is open in a partition, and its coordinator will not end it
    moved outside              a position went forward outside of any transaction: the records between are in none
    set back outside           a position went back outside of any transaction: an administrator, or a client that uses none

and, where it is said how many rows one record makes:

    surplus                    a transaction has more rows than the records that it moved past can make
    deficit                    it has fewer

and, where it was seen on the wire where readers began (`verifiers.transactions.starts`), record by record:

    committed twice            a reader began before a record that a transaction held, which was committed all the same: it was
                               read again, and committed again
    skipped                    a reader began behind a record that nobody had read

Easily confused with these, and right: a transaction without rows (everything was filtered out), or with a partition that it
wrote nothing to; one that was aborted, whatever it holds; a second marker that a new coordinator wrote; transactions of other
applications in the same sink; and rows that a timer wrote, which move no position (``timers`` says that there are such).

**What it cannot see.** A position is only an end; where a reader began is stored nowhere. A batch that was read twice, and
committed twice by transactions whose positions only grow, shows as a surplus, or not at all where it is neither said how many
rows a record makes nor seen where readers began. The verifiers that have a model see it.

UNKNOWN, by name, is what compaction or retention has removed a part of, and what cannot be put together. A transaction in
flight while the logs were read is not judged, like what came after the end.

Sources: KIP-98, KIP-447, KIP-890; Kafka's ``OffsetMetadataManager`` (which position is in force).
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from verifiers.base import Example, Finding, Verdict
from verifiers.findings import EXAMPLES
from verifiers.transactions.case import Case, case
from verifiers.transactions.logs import OFFSETS, Log, Logs, Start
from verifiers.transactions.starts import Skipped, Twice
from verifiers.transactions.steps import Step
from verifiers.transactions.together import Piece, Transaction

ANOMALIES = (
    "output without positions",
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
NOT_ASKED = "no position of the group was sent in a transaction: how its output and its positions belong together is in no log"


@dataclass(frozen=True, slots=True)
class RowsPerRecord:
    """How many rows one record may make."""

    min: float
    max: float


@dataclass(frozen=True, slots=True)
class Transactions:
    """Compares what each transaction moved with what it wrote; ``checked`` are the transactions of the groups' producers.

    Attributes:
        rows_per_record: None where it is not known.
        alone: topics that only this application writes to: what any other producer commits there is output without positions.
        timers: whether it writes rows that no record caused.
    """

    rows_per_record: RowsPerRecord | None = None
    alone: frozenset[str] = frozenset()
    timers: bool = False
    name: str = "transactions"
    guarantee: str = "every record is consumed by exactly one committed transaction"
    anomalies: tuple[str, ...] = ANOMALIES

    def check(self, logs: Logs) -> Finding:
        """Judge what was landed."""
        judged = case(logs, self.alone)
        if not judged.movers:
            return Finding(self.name, "sink", Verdict.UNKNOWN, 0, 0, dict.fromkeys(ANOMALIES, 0), note=NOT_ASKED)
        found = sorted((*self._found(judged), *_by_starts(judged)), key=lambda one: (one.partition, one.offset or 0))
        counts = Counter(one.anomaly for one in found)
        also = {
            "aborted": sum(one.control == "ABORT" for one in judged.judged),
            "in flight": len(judged.in_flight),
            "removed": sum(step.end is None for step in judged.steps),
        }
        doubts = list(_doubts(judged, self))
        verdict = max(Verdict.INVALID if found else Verdict.VALID, Verdict.UNKNOWN if doubts else Verdict.VALID)
        return Finding(
            self.name,
            "sink",
            verdict,
            len(found),
            len(judged.judged),
            {name: counts[name] for name in ANOMALIES} | also,
            tuple(found[:EXAMPLES]),
            "; ".join((*doubts, *_notes(judged, self))),
        )

    def _found(self, judged: Case) -> Iterator[Example]:
        for step in judged.steps:
            yield from _of_step(step)
        for one in judged.judged:
            yield from _torn(one)
            if one.control == "COMMIT" and one.rows and not self.timers:
                yield from _of_output(one, judged)
            if one.control == "COMMIT" and self.rows_per_record is not None and _is_countable(one, judged):
                yield from self._counted(one, judged, self.rows_per_record)
        for one in judged.foreign:
            if one.control == "COMMIT" and not one.cut and self._is_output_alone(one):
                yield _output("output without positions", one, "and its producer never sent a position")
        yield from map(_hanging, judged.hanging)

    def _counted(self, one: Transaction, judged: Case, asked: RowsPerRecord) -> Iterator[Example]:
        """More rows, or fewer, than the records make that it moved past."""
        moved = judged.moved[id(one)]
        counts = [_records(step, judged) for step in moved]
        known = [count for count in counts if count is not None]
        if len(known) < len(counts):
            return
        records = sum(known)
        place = one.outputs[0] if one.outputs else one.pieces[moved[0].log]
        what = f"{_named(one)}: {one.rows} rows of {records} records"
        ranges = ", ".join(map(_range, moved))
        if one.rows > asked.max * records and not self.timers:
            yield _placed("surplus", place, f"{what}, {one.rows - asked.max * records:g} too many; {ranges}")
        elif one.rows < asked.min * records and all(step.begin is not None for step in moved):
            yield _placed("deficit", place, f"{what}, {asked.min * records - one.rows:g} too few; {ranges}")

    def _is_output_alone(self, one: Transaction) -> bool:
        """Whether it is in a topic of this application alone, and has not even positions of another group."""
        return any(piece.log[0] in self.alone for piece in one.outputs) and not any(log[0] == OFFSETS for log in one.logs)


# what is wrong -------------------------------------------------------------------------------------------------------------


def _of_step(step: Step) -> Iterator[Example]:
    if not step.taken:
        rows = step.transaction.rows if step.transaction else 0
        why = f"{step.end} was sent before {step.begin}, was committed after it with {rows} rows, and took no effect"
        if rows:
            yield _moved("overtaken", step, why)
    elif step.begin is None or step.end is None:
        return
    elif step.end < step.begin:
        kind = "step back" if step.inside else "set back outside"
        yield _moved(kind, step, f"{step.end} was committed after {step.begin}: the records between are read again")
    elif step.end > step.begin and not step.inside:
        why = f"{step.end} was committed after {step.begin}: the records between are in no transaction"
        yield _moved("moved outside", step, why)


def _torn(one: Transaction) -> Iterator[Example]:
    for piece in (piece for _, piece in sorted(one.pieces.items()) if piece.control != one.control):
        where = f"{piece.control} at offset {piece.marker}, and its coordinator decided {one.control}"
        yield _placed("torn", piece, f"{_named(one)}: {where}; rows {_rows(piece)}")


def _of_output(one: Transaction, judged: Case) -> Iterator[Example]:
    """Rows, and no position that moved."""
    positions = [log for log in one.logs if log[0] == OFFSETS]
    sent = any(one.pieces[log].records for log in positions if log in one.pieces)
    if not sent:
        if all(log in judged.contents for log in positions):
            yield _output("output without positions", one, "and no position was sent")
        return
    moved = judged.moved.get(id(one), ())  # none where they are positions of other groups
    if moved and all(step.taken and step.begin == step.end for step in moved):
        yield _output("standing still", one, f"and no position moved: {', '.join(map(_range, moved))}")


def _is_countable(one: Transaction, judged: Case) -> bool:
    """Whether all of its rows were read, and its steps went forward: what stood still or went back is told already."""
    moved = judged.moved.get(id(one), ())
    forward = any(step.begin != step.end for step in moved) and all((step.begin or 0) <= (step.end or 0) for step in moved)
    return forward and all(step.taken for step in moved) and all(log in judged.contents for log in one.logs)


def _records(step: Step, judged: Case) -> int | None:
    """How many a step moved past. A first one is taken from offset 0: the reader may have begun later, never before."""
    if step.source not in judged.visible or step.end is None or (step.begin is None and not step.first):
        return None
    return judged.visible[step.source].between(step.begin or 0, step.end)


def _by_starts(judged: Case) -> Iterator[Example]:
    """An example for every record."""
    for one in judged.twice:
        times = f"{_named(one.first.transaction)}, and again by {_named(one.second.transaction)}"
        why = f"was committed by {times}: {_begun(one.start)}, while the first was not committed"
        yield from _each("committed twice", one, judged, why, one.first.at_ms)
    for gap in judged.skipped:
        why = f"was read by nobody: {_begun(gap.start)}, and {gap.begin} was in force"
        yield from _each("skipped", gap, judged, why, gap.start.answered_ms)


def _each(kind: str, found: Twice | Skipped, judged: Case, why: str, at_ms: int) -> Iterator[Example]:
    topic, partition = log = found.start.topic, found.start.partition
    visible = judged.visible.get(log)
    offsets = range(found.begin, found.end) if visible is None else visible.offsets(found.begin, found.end)
    for offset in offsets:
        yield Example(kind, partition, offset, None, at_ms, f"in {topic}: the record {why}")


def _begun(start: Start) -> str:
    member = f"{start.client_id!r}, generation {start.generation}" if start.generation >= 0 else repr(start.client_id)
    return f"a reader ({member}) began at {start.position} at {_time(start.answered_ms)}"


def _hanging(piece: Piece) -> Example:
    who = f"producer {piece.producer_id} epoch {piece.epoch}"
    why = "are open, and no transaction of its coordinator has this partition"
    return _placed("hanging", piece, f"{who}: rows {_rows(piece)} {why}")


# what is not judged --------------------------------------------------------------------------------------------------------


def _doubts(judged: Case, asked: Transactions) -> Iterator[str]:
    """Why it is UNKNOWN."""
    if not judged.judged:
        yield "no transaction of the group could be judged"
    if judged.cut:
        logs = sorted({log for one in judged.cut for log in one.cut})
        more = f" and {len(logs) - 1} more logs" if len(logs) > 1 else ""
        what = f"of {logs[0][0]} partition {logs[0][1]}{more}"
        yield f"{len(judged.cut)} transactions were not judged: compaction or retention has removed the begin {what}"
    if asked.rows_per_record is not None:
        uncounted = [
            one
            for one in judged.judged
            if one.control == "COMMIT" and judged.moved.get(id(one)) and not _is_counted(one, judged)
        ]
        if uncounted:
            why = "what they moved past, or wrote, was removed by retention or compaction, or not read"
            yield f"the rows of {len(uncounted)} transactions were not compared with their records: {why}"
    yield from judged.unjudged


def _is_counted(one: Transaction, judged: Case) -> bool:
    if not _is_countable(one, judged):
        return all(log in judged.contents for log in one.logs)
    return all(_records(step, judged) is not None for step in judged.moved[id(one)])


def _notes(judged: Case, asked: Transactions) -> Iterator[str]:
    """What else a reader should know."""
    foreign = sum(one.control == "COMMIT" for one in judged.foreign)
    if foreign and not asked.alone:
        yield f"{foreign} transactions of other producers in the same topics were not judged"
    unmarked = sum(content.unmarked for (topic, _), content in judged.contents.items() if topic in judged.sinks)
    if unmarked:
        yield f"{unmarked} rows of the sinks are in no transaction, and were not judged"
    if judged.in_flight:
        yield f"{len(judged.in_flight)} transactions were in flight while the logs were read, and were not judged"
    if asked.timers:
        yield "timers: output without positions, positions that stand still, and surplus were not asked for"


# in words ------------------------------------------------------------------------------------------------------------------


def _moved(kind: str, step: Step, why: str) -> Example:
    """The place is that of the first record that is concerned."""
    offsets = [one for one in (step.begin, step.end) if one is not None]
    topic, partition = step.source
    by = f"; {_named(step.transaction)}" if step.transaction else ""
    group = f"group {step.group!r}, offset {step.at} of partition {step.log[1]} of {OFFSETS}"
    return Example(kind, partition, min(offsets), None, step.at_ms, f"in {topic}: the position {why} ({group}{by})")


def _output(kind: str, one: Transaction, why: str) -> Example:
    places = ", ".join(f"{_rows(piece)} of {_shown(piece.log)}" for piece in one.outputs)
    return _placed(kind, one.outputs[0], f"{_named(one)}: {one.rows} rows were committed, {why}; rows {places}")


def _placed(kind: str, piece: Piece, detail: str) -> Example:
    topic, partition = piece.log
    offset = piece.first if piece.records else piece.marker
    return Example(kind, partition, offset, None, piece.at_ms, f"in {topic}: {detail}")


def _named(one: Transaction | None) -> str:
    if one is None:
        return "no transaction"
    who = f"producer {one.producer_id} epoch {one.epoch}"
    return f"transaction {one.number} of {one.transactional_id!r}, {who}, decided {_time(one.decided_ms)}"


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M:%S.%f")[:-3] + "Z"


def _rows(piece: Piece) -> str:
    return f"[{piece.first}, {piece.last}]" if piece.records else "none"


def _range(step: Step) -> str:
    topic, partition = step.source
    return f"{topic}-{partition} {step.begin} to {step.end}"


def _shown(log: Log) -> str:
    return f"partition {log[1]} of {log[0]}"
