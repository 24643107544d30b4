"""Put transactions together: find the pieces, in several logs, that belong to one transaction of a producer.

    piece         the records of one producer in one log up to one marker
    ending        PrepareCommit or PrepareAbort in ``__transaction_state``: the coordinator has decided, and names every log. It
                  decides again, perhaps otherwise, if too few replicas took that record in time, which is in the log all the
                  same: the last one counts
    transaction   an ending, and the piece that it ended in each of its logs

A producer has one transaction at a time, and the coordinator writes the next ending only when each log has the marker of the
one before. So the k-th ending that names a log owns that producer's k-th marker there. This is exact for transactions v1, where
all markers of a producer have one epoch, and for v2 (KIP-890), where each has its own: the epochs are matched first.

If the numbers differ, these are the possible reasons, which are tried in this order:

    in flight   an ending that was not completed when the reading began may lack markers, and the last markers may be its own
    repeated    a coordinator that takes over writes the markers of a transaction in flight again: a marker without records
                after another one of the same epoch, before the next ending was decided, ends nothing
    older       retention or compaction has removed the first endings, or the first markers

Transactions that fit in none of these ways are not put together; `Together.doubts` names them.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from verifiers.transactions.logs import OFFSETS, STATES, Batch, Extent, Log, Logs, Position, State

_ENDINGS = {"PrepareCommit": "COMMIT", "PrepareAbort": "ABORT"}
_NEVER = 2**63 - 1
_COMPLETE = frozenset({"CompleteCommit", "CompleteAbort"})


@dataclass(slots=True, eq=False)
class Piece:
    """The records of a producer in one log up to one marker.

    Attributes:
        epoch: of the marker; of the last batch while there is none.
        first, last: offsets of its records, -1 if it has none.
        marker: offset of the marker that ended it, None while it is open.
        positions: its positions of the judged groups.
        written_ms: the latest time of its records, which its writer may have chosen.
        by_broker: whether a broker set that time.
    """

    log: Log
    producer_id: int
    epoch: int
    first: int = -1
    last: int = -1
    records: int = 0
    marker: int | None = None
    control: str | None = None
    at_ms: int = -1
    positions: list[Position] = field(default_factory=list)
    written_ms: int = -1
    by_broker: bool = True


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive records of a log; they are visible if their piece is committed, or if they have none."""

    first: int
    last: int
    records: int
    piece: Piece | None


@dataclass(slots=True, eq=False)
class Content:
    """The content of one log.

    Attributes:
        ended, open: pieces; ended ones in the order of their markers.
        plain: positions outside of any transaction.
        before: positions that compaction has left before the log is whole.
        complete_ms: time of the first marker in the whole part: if anything was removed, earlier transactions may lack a part.
        unmarked: records outside of transactions.
        by_broker_ms: the earliest time that a broker set in it.
        unread: transactional batches of a log of positions with records that are not among the landed positions.
    """

    extent: Extent
    ended: list[Piece] = field(default_factory=list)
    open: list[Piece] = field(default_factory=list)
    plain: list[Position] = field(default_factory=list)
    before: list[Position] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    complete_ms: int = _NEVER
    unmarked: int = 0
    by_broker_ms: int = _NEVER
    unread: list[Batch] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Transaction:
    """A transaction that its coordinator has decided.

    Attributes:
        number: counted from 1 among those of this transactional id that are left in its coordinator's log.
        control: how it was decided.
        logs: the logs that it names.
        settled: whether it was completed before the logs were read: then its markers are in them.
        pieces: its pieces in the logs that were read.
        cut: logs that have lost its beginning, or all of it, to compaction or retention.
    """

    transactional_id: str
    number: int
    producer_id: int
    epoch: int
    control: str
    logs: frozenset[Log]
    settled: bool
    started_ms: int
    decided_ms: int
    pieces: dict[Log, Piece] = field(default_factory=dict)
    cut: set[Log] = field(default_factory=set)

    @property
    def outputs(self) -> list[Piece]:
        """The pieces that hold records of the application."""
        return [piece for log, piece in sorted(self.pieces.items()) if log[0] != OFFSETS and piece.records]

    @property
    def rows(self) -> int:
        return sum(piece.records for piece in self.outputs)


@dataclass(frozen=True, slots=True)
class Together:
    """All logs, and the transactions in them.

    Attributes:
        transactions: in the order of their logs, with those in flight.
        ongoing: producer and log of every partition that a coordinator has in an undecided transaction.
        known: producer ids in the coordinators' logs.
        doubts: transactions that could not be put together, and why.
    """

    contents: Mapping[Log, Content]
    transactions: Sequence[Transaction]
    ongoing: frozenset[tuple[int, Log]]
    known: frozenset[int]
    doubts: Sequence[str]


def together(logs: Logs) -> Together:
    """Put the transactions of landed logs together."""
    contents = _contents(logs)
    transactions, ongoing, known = _decided(logs)
    doubts = _own(contents, transactions)
    return Together(contents, transactions, ongoing, known, doubts)


# one log -------------------------------------------------------------------------------------------------------------------


def _contents(logs: Logs) -> dict[Log, Content]:
    contents = {(one.topic, one.partition): Content(one) for one in logs.rows("extents")}
    positions: dict[Log, list[Position]] = defaultdict(list)
    for position in logs.rows("positions"):
        positions[OFFSETS, position.log_partition].append(position)
    batches: dict[Log, list[Batch]] = defaultdict(list)
    for batch in logs.rows("batches"):
        batches[batch.topic, batch.partition].append(batch)
    for log, content in contents.items():
        _walk(log, content, batches[log], positions[log])
    return contents


def _walk(log: Log, content: Content, batches: Sequence[Batch], positions: Sequence[Position]) -> None:
    """Fill the content of a log, in one pass over it."""
    begin = content.extent.begin
    open_: dict[int, Piece] = {}
    at = bisect_right(positions, begin - 1, key=lambda one: one.offset)
    content.before = list(positions[:at])
    for batch in batches:
        if batch.first_offset < begin:
            if not batch.transactional and batch.control is None:  # compaction has left it, and it is there to be read
                content.unmarked += batch.records
                content.spans.append(Span(batch.first_offset, batch.last_offset, batch.records, None))
            continue
        if batch.control is not None or batch.by_broker:
            content.by_broker_ms = min(content.by_broker_ms, batch.timestamp_ms)
        if batch.control is not None:
            piece = open_.pop(batch.producer_id, None) or Piece(log, batch.producer_id, batch.producer_epoch)
            piece.epoch, piece.marker, piece.control = batch.producer_epoch, batch.first_offset, batch.control
            piece.at_ms = batch.timestamp_ms
            content.complete_ms = min(content.complete_ms, piece.at_ms)
            content.ended.append(piece)
            continue
        within = _piece(log, open_, batch) if batch.transactional else None
        content.unmarked += 0 if within else batch.records
        content.spans.append(Span(batch.first_offset, batch.last_offset, batch.records, within))
        until = bisect_right(positions, batch.last_offset, at, key=lambda one: one.offset)
        (within.positions if within else content.plain).extend(positions[at:until])
        if within and positions and until - at < batch.records:
            content.unread.append(batch)
        at = until
    content.open = list(open_.values())


def _piece(log: Log, open_: dict[int, Piece], batch: Batch) -> Piece:
    """Add a batch to its producer's open piece, or begin a piece with it."""
    piece = open_.get(batch.producer_id)
    if piece is None:
        piece = open_[batch.producer_id] = Piece(log, batch.producer_id, batch.producer_epoch, batch.first_offset)
    piece.epoch, piece.last, piece.at_ms = batch.producer_epoch, batch.last_offset, batch.timestamp_ms
    piece.records += batch.records
    piece.written_ms = max(piece.written_ms, batch.timestamp_ms)
    piece.by_broker &= batch.by_broker
    return piece


# what coordinators decided -------------------------------------------------------------------------------------------------


def _decided(logs: Logs) -> tuple[list[Transaction], frozenset[tuple[int, Log]], frozenset[int]]:
    settled = {one.partition: one.settled for one in logs.rows("extents") if one.topic == STATES}
    found: list[Transaction] = []
    of_id: dict[str, int] = defaultdict(int)
    ongoing: dict[str, tuple[int, frozenset[Log]]] = {}
    undecided: dict[str, Transaction] = {}
    known: set[int] = set()
    for first, named in _records(logs.rows("states")):
        name = first.transactional_id
        known.add(first.producer_id)
        ongoing.pop(name, None)
        if first.state == "Ongoing":
            ongoing[name] = first.producer_id, named
        elif first.state in _ENDINGS:
            before, control, decided_ms = undecided.get(name), _ENDINGS[first.state], first.updated_ms
            if before is not None and (before.producer_id, before.started_ms) == (first.producer_id, first.started_ms):
                found.remove(before)
                decided_ms = before.decided_ms if before.control == control else decided_ms
            else:
                of_id[name] += 1
            undecided[name] = Transaction(
                name,
                of_id[name],
                first.producer_id,
                first.producer_epoch,
                control,
                named,
                settled=False,
                started_ms=first.started_ms,
                decided_ms=decided_ms,
            )
            found.append(undecided[name])
        elif first.state in _COMPLETE and name in undecided:
            undecided.pop(name).settled = first.offset < settled.get(first.log_partition, 0)
    open_ = frozenset((producer_id, log) for producer_id, named in ongoing.values() for log in named)
    return found, open_, frozenset(known)


def _records(rows: Iterable[State]) -> Iterable[tuple[State, frozenset[Log]]]:
    """Yield the first row of every record, and the logs that the record names."""
    first: State | None = None
    named: set[Log] = set()
    for row in rows:
        if first is None or (row.log_partition, row.offset) != (first.log_partition, first.offset):
            if first is not None:
                yield first, frozenset(named)
            first, named = row, set()
        if row.topic is not None and row.partition is not None:
            named.add((row.topic, row.partition))
    if first is not None:
        yield first, frozenset(named)


# which marker is whose -----------------------------------------------------------------------------------------------------


def _own(contents: Mapping[Log, Content], transactions: Sequence[Transaction]) -> list[str]:
    """Give each transaction its pieces; return sentences about those that could not be matched."""
    naming: dict[tuple[int, Log], list[Transaction]] = defaultdict(list)
    for transaction in transactions:
        for log in transaction.logs & contents.keys():
            naming[transaction.producer_id, log].append(transaction)
    ended: dict[tuple[int, Log], list[Piece]] = defaultdict(list)
    for piece in (piece for content in contents.values() for piece in content.ended):
        ended[piece.producer_id, piece.log].append(piece)
    is_told = all(not content.extent.begin for log, content in contents.items() if log[0] == STATES)
    doubts = []
    for (producer_id, log), own in sorted(naming.items()):
        is_whole = is_told and not contents[log].extent.begin
        for some, theirs in _by_epoch(own, ended[producer_id, log]):
            if not _paired(log, some, theirs, is_whole=is_whole):
                many = f"{len(theirs)} markers for {len(some)} transactions"
                doubts.append(f"{_shown(log)}: producer {producer_id} has {many}, which cannot be matched")
        _cut(own, contents[log])
    return doubts


def _paired(log: Log, own: Sequence[Transaction], pieces: Sequence[Piece], *, is_whole: bool) -> bool:
    """Give some transactions their pieces in one log; return whether they could be matched."""
    fitting = _aligned(own, pieces, is_whole=is_whole)
    for transaction, piece in fitting or ():
        transaction.pieces[log] = piece
    for transaction in own if fitting is None else ():
        transaction.cut.add(log)
    return fitting is not None


def _cut(own: Sequence[Transaction], content: Content) -> None:
    """Mark the transactions of which a log may have lost a part, before the offset from which on it is whole."""
    log = content.extent.topic, content.extent.partition
    for transaction in own if content.extent.begin else ():
        if transaction.started_ms <= content.complete_ms or (transaction.settled and log not in transaction.pieces):
            transaction.cut.add(log)


def _by_epoch(own: Sequence[Transaction], pieces: Sequence[Piece]) -> Iterable[tuple[list[Transaction], list[Piece]]]:
    """Yield transactions and markers of one epoch; last those whose epoch is on one side only."""
    both = {one.epoch for one in own} & {piece.epoch for piece in pieces}
    for epoch in sorted(both):
        yield [one for one in own if one.epoch == epoch], [piece for piece in pieces if piece.epoch == epoch]
    alone = [one for one in own if one.epoch not in both]
    if alone:
        yield alone, [piece for piece in pieces if piece.epoch not in both]


def _aligned(
    own: Sequence[Transaction], pieces: Sequence[Piece], *, is_whole: bool
) -> Sequence[tuple[Transaction, Piece]] | None:
    """Pair transactions and pieces; None if they cannot be matched.

    Args:
        is_whole: whether neither a marker nor an ending was removed. Then counting suffices; else times show which are gone,
            and pieces that do not fit the coordinator's times are not paired.
    """
    settled = [one for one in own if one.settled]  # all before the first in flight: a producer has one transaction at a time
    flying = own[len(settled) :]
    theirs = [piece for piece in pieces if not flying or piece.at_ms < flying[0].decided_ms]
    found = _counted(settled, theirs) if is_whole else _timed(settled, theirs)
    if found is None:
        return None
    last = _without_repeated(flying, pieces[len(theirs) :], len(pieces))
    return [*found, *(zip(flying, last, strict=True) if len(flying) == len(last) else ())]


def _counted(own: Sequence[Transaction], pieces: Sequence[Piece]) -> Sequence[tuple[Transaction, Piece]] | None:
    """Pair by counting; by time, if a marker that looks repeated may stand for one that never came."""
    once = _without_repeated(own, pieces, len(pieces) - len(own))
    if len(once) != len(own) or len(_without_repeated(own, pieces, len(pieces))) != len(own):
        found = _timed(own, pieces)
        if found is not None:
            return found
    # at most one marker can be missing, the last: no producer goes on before it is written
    return list(zip(own, once, strict=False)) if len(own) - len(once) in {0, 1} else None


def _timed(own: Sequence[Transaction], pieces: Sequence[Piece]) -> Sequence[tuple[Transaction, Piece]] | None:
    once = _without_repeated(own, pieces, len(pieces))
    tried = ((those, theirs) for those in (own, own[:-1]) for theirs in (pieces, once))
    return next((_last(*each) for each in tried if _fits(*each)), None)


def _last(own: Sequence[Transaction], pieces: Sequence[Piece]) -> list[tuple[Transaction, Piece]]:
    """Pair as many as possible, from the end."""
    count = min(len(own), len(pieces))
    return list(zip(own[len(own) - count :], pieces[len(pieces) - count :], strict=True))


def _fits(own: Sequence[Transaction], pieces: Sequence[Piece]) -> bool:
    """Whether each marker was written after its transaction was decided, and before the next one was."""
    pairs = _last(own, pieces)
    older = pieces[: len(pieces) - len(pairs)]
    before = not older or not pairs or older[-1].at_ms <= pairs[0][0].decided_ms
    return (
        before
        and all(one.decided_ms <= piece.at_ms for one, piece in pairs)
        and all(piece.at_ms <= after.decided_ms for (_, piece), (after, _) in pairwise(pairs))
    )


def _without_repeated(own: Sequence[Transaction], pieces: Sequence[Piece], most: int) -> Sequence[Piece]:
    """Leave out repeated markers, at most `most`."""
    decided = [one.decided_ms for one in own]
    kept: list[Piece] = []
    for piece in pieces:
        at = bisect_right(decided, piece.at_ms)
        is_repeated = (
            bool(kept)
            and not piece.records
            and (kept[-1].epoch, kept[-1].control) == (piece.epoch, piece.control)
            and at == bisect_right(decided, kept[-1].at_ms)
            and at > 0
        )
        if is_repeated and most > 0:
            most -= 1
        else:
            kept.append(piece)
    return kept


def _shown(log: Log) -> str:
    return f"partition {log[1]} of {log[0]}"
