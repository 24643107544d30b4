"""The case of the judged groups: which transactions are theirs, and which of these can be judged."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from verifiers.transactions.logs import OFFSETS, STATES, Log, Logs, Position, Start
from verifiers.transactions.starts import Clock, Skipped, Twice, read_twice, skipped
from verifiers.transactions.steps import Step, Visible, steps
from verifiers.transactions.together import Content, Piece, Transaction, together


@dataclass(frozen=True, slots=True)
class Case:
    """Transactions and positions that are judged, and those that are left out.

    Attributes:
        movers: producer ids of the transactional ids that ever sent positions of the groups, also in aborted transactions.
        judged: transactions of the movers that were read completely.
        in_flight: those of them that were not completed when the reading began.
        cut: those of them that compaction or retention has cut, or that could not be put together.
        foreign: transactions of other producers in the same logs.
        sinks: topics that the movers write to.
        moved: identity of a transaction -> its steps.
        unjudged: why something could not be judged.
        unowned: committed pieces of other producers in the sinks that belong to no transaction that is left.
        vanished: transactions of the movers, each with a log that it names and that was not there to be read.
        since_ms: when the first position of the groups was committed; -1 if compaction may have removed it.
        unread: transactional batches among the positions of the groups that hold others than those that were landed.
        twice, skipped: records read twice or skipped, from the starts of readers that were seen.
        forgotten: the tables from the wire of which something may be missing.
        of_a_run: whether topics and groups were made for one run, which is over.
    """

    contents: Mapping[Log, Content]
    steps: Sequence[Step]
    moved: Mapping[int, Sequence[Step]]
    movers: frozenset[int]
    sinks: frozenset[str]
    judged: Sequence[Transaction]
    in_flight: Sequence[Transaction]
    cut: Sequence[Transaction]
    foreign: Sequence[Transaction]
    hanging: Sequence[Piece]
    unjudged: Sequence[str]
    visible: Mapping[Log, Visible]
    unowned: Sequence[Piece]
    vanished: Sequence[tuple[Transaction, Log]]
    since_ms: int
    unread: int
    twice: Sequence[Twice]
    skipped: Sequence[Skipped]
    forgotten: frozenset[str]
    of_a_run: bool

    def committed(self) -> list[Transaction]:
        """Return the judged transactions that were committed."""
        return [one for one in self.judged if one.control == "COMMIT"]

    def is_same_topic(self, step: Step) -> bool:
        """Whether a step is in the same topic as the one before it, even if the position was removed in between.

        A deleted topic takes its positions with it, and a new one of its name begins at 0. A broker's timestamp from before the
        removal shows that the topic is the same.
        """
        content = self.contents.get(step.source)
        is_older = content is not None and step.removed_ms is not None and content.by_broker_ms < step.removed_ms
        return step.removed_ms is None or self.of_a_run or is_older

    def is_beyond(self, step: Step) -> bool:
        """Whether the position before a step lies behind the end of its topic, which must then be another one."""
        content = self.contents.get(step.source)
        return content is not None and step.begin is not None and step.begin > content.extent.end


def case(logs: Logs, alone: frozenset[str] = frozenset(), *, of_a_run: bool = False) -> Case:
    """Put the logs together, and sort transactions by owner; `alone` are sinks, too."""
    all_ = together(logs)
    owners = {id(piece): one for one in all_.transactions for piece in one.pieces.values()}
    found = list(steps(all_.contents, owners))
    movers = _movers(all_.contents, all_.transactions)
    own = [one for one in all_.transactions if one.producer_id in movers]
    whole = [one for one in own if not one.cut]
    lacking = [one for one in whole if _lacking(one, all_.contents)]
    flying = {(one.producer_id, log) for one in all_.transactions if not one.settled for log in _lacking(one, all_.contents)}
    told = all(not content.extent.begin for log, content in all_.contents.items() if log[0] == STATES)
    sinks = frozenset(topic for one in own for topic, _ in one.logs) - {OFFSETS} | alone
    awaited = flying | all_.ongoing
    open_ = [piece for piece in _open(all_.contents, movers, sinks) if (piece.producer_id, piece.log) not in awaited]
    hanging = [piece for piece in open_ if piece.producer_id in all_.known or told]
    unjudged = (
        *all_.doubts,
        *_without_marker(lacking, hanging, all_.contents),
        *_without_owner(all_.contents, movers, owners.keys(), flying),
        *_unknown(len(open_) - len(hanging)),
    )
    starts: list[Start] = list(logs.rows("starts"))
    forgotten = {one.what: one.until_ms for one in logs.rows("forgotten")}
    since_ms = _since_ms(all_.contents)
    clock = Clock(all_.contents, all_.transactions, logs.rows("produced"), forgotten.get("produced", -1))
    moved: dict[int, list[Step]] = defaultdict(list)
    for step in found:
        if step.transaction is not None:
            moved[id(step.transaction)].append(step)
    return Case(
        all_.contents,
        found,
        moved,
        movers,
        sinks,
        judged=[one for one in whole if not _lacking(one, all_.contents)],
        in_flight=[one for one in lacking if not one.settled],
        cut=[one for one in own if one.cut],
        foreign=[one for one in all_.transactions if one.producer_id not in movers and _writes(one, sinks)],
        hanging=hanging,
        unjudged=unjudged,
        visible={log: Visible(all_.contents[log]) for log in {step.source for step in found} & all_.contents.keys()},
        unowned=list(_unowned(all_.contents, movers, owners.keys(), sinks)),
        vanished=[(one, log) for one in own if not _is_of_others(one) for log in sorted(one.logs - all_.contents.keys())],
        since_ms=since_ms,
        unread=sum(_unread(log, content, movers) for log, content in all_.contents.items()),
        twice=list(read_twice(starts, found, logs.rows("unfenced"), clock.written)),
        skipped=list(skipped(starts, found)),
        forgotten=frozenset(what for what in ("starts", "unfenced") if forgotten.get(what, -2) >= since_ms),
        of_a_run=of_a_run,
    )


def _movers(contents: Mapping[Log, Content], transactions: Sequence[Transaction]) -> frozenset[int]:
    pieces = [piece for log, one in contents.items() if log[0] == OFFSETS for piece in (*one.ended, *one.open)]
    moving = {piece.producer_id for piece in pieces if piece.positions}
    ids = {one.transactional_id for one in transactions if one.producer_id in moving}
    return frozenset(moving | {one.producer_id for one in transactions if one.transactional_id in ids})


def _is_of_others(one: Transaction) -> bool:
    """Whether a transaction sent positions, all of them of other groups."""
    pieces = [piece for log, piece in one.pieces.items() if log[0] == OFFSETS and piece.records]
    return bool(pieces) and not any(piece.positions for piece in pieces)


def _since_ms(contents: Mapping[Log, Content]) -> int:
    some = {log: [*content.plain, *_sent(content)] for log, content in contents.items() if log[0] == OFFSETS}
    times = [one.committed_at_ms for found in some.values() for one in found]
    is_whole = all(not contents[log].extent.begin for log, found in some.items() if found)
    return min(times, default=-1) if is_whole else -1


def _sent(content: Content) -> Iterator[Position]:
    yield from (position for piece in (*content.ended, *content.open) for position in piece.positions)


def _unread(log: Log, content: Content, movers: frozenset[int]) -> int:
    """Count the batches of the groups' producers that have lost positions.

    A batch holds positions of one group. A batch without landed positions is of another group, unless it lies among theirs.
    """
    if log[0] != OFFSETS or not content.unread:
        return 0
    there = sorted(one.offset for one in _sent(content))
    lost = 0
    for batch in (one for one in content.unread if one.producer_id in movers):
        has_some = bisect_left(there, batch.first_offset) < bisect_right(there, batch.last_offset)
        lost += has_some or (bool(there) and there[0] < batch.first_offset < there[-1])
    return lost


def _unowned(
    contents: Mapping[Log, Content], movers: frozenset[int], owned: Collection[int], sinks: frozenset[str]
) -> Iterator[Piece]:
    for log, content in sorted(contents.items()):
        for piece in content.ended if log[0] in sinks else ():
            if piece.control == "COMMIT" and piece.records and piece.producer_id not in movers and id(piece) not in owned:
                yield piece


def _lacking(one: Transaction, contents: Mapping[Log, Content]) -> set[Log]:
    """Return the logs that were read, and in which the transaction has no marker."""
    return set(one.logs & contents.keys()) - one.pieces.keys()


def _writes(one: Transaction, topics: frozenset[str]) -> bool:
    return any(piece.log[0] in topics for piece in one.outputs)


def _open(contents: Mapping[Log, Content], movers: frozenset[int], sinks: frozenset[str]) -> Iterator[Piece]:
    """Yield the open pieces in the sinks, and those of the groups' producers elsewhere."""
    for log, content in sorted(contents.items()):
        yield from (piece for piece in content.open if piece.producer_id in movers or log[0] in sinks)


def _without_marker(lacking: Sequence[Transaction], hanging: Sequence[Piece], contents: Mapping[Log, Content]) -> Iterator[str]:
    told = {(piece.producer_id, piece.log) for piece in hanging}
    for one in lacking:
        for topic, partition in sorted(_lacking(one, contents)):
            if one.settled and (one.producer_id, (topic, partition)) not in told:
                name = f"transaction {one.number} of {one.transactional_id!r}"
                yield f"{name} was completed, but has no marker in partition {partition} of {topic}: was that topic recreated?"


def _without_owner(
    contents: Mapping[Log, Content], movers: frozenset[int], owned: Collection[int], flying: set[tuple[int, Log]]
) -> Iterator[str]:
    pieces = [
        piece
        for content in contents.values()
        for piece in content.ended
        if piece.producer_id in movers and piece.records and id(piece) not in owned
    ]
    left = [piece for piece in pieces if (piece.producer_id, piece.log) not in flying]
    if left:
        first = min(left, key=lambda piece: piece.at_ms)
        topic, partition = first.log
        yield (
            f"{len(left)} markers belong to transactions that are not in {STATES} (compaction may have removed them), "
            f"the first at offset {first.marker} of partition {partition} of {topic}: their rows were not judged"
        )


def _unknown(count: int) -> Iterator[str]:
    if count:
        yield f"{count} open transactions are of producers that are not in {STATES}: whether they hang is not known"
