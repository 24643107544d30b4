"""Why transactions of a group could not be judged: each reason makes it UNKNOWN, unless something is wrong for certain.

Every record and every row of the group's topics has to be accounted for. These may be wrong:

    nothing            no committed transaction moved a position, or none wrote to any topic
    rows of others     rows in no transaction, or in transactions without positions, in a topic where others may write, too
    vanished           a topic that a transaction names, and that is not there, or that the login may not describe
    removed            a position after one that was removed, unless it is certain what was read twice, or skipped
    set at first       the first position of a partition, set outside of any transaction: the records before it are in none
    begun late         a first transaction has too few rows for all records before its position: its reader may have begun later
    when written       rows that were written before or after another reader began: the order is not known
    forgotten          observations that proxies had no room for
    cut, unlike        transactions that compaction or retention has cut, or that cannot be put together
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from verifiers.transactions.case import Case
from verifiers.transactions.counts import DEFICIT, LATE, SURPLUS, UNKNOWN, counted, is_proved
from verifiers.transactions.logs import OFFSETS, Log
from verifiers.transactions.steps import Step
from verifiers.transactions.together import Span, Transaction
from verifiers.transactions.words import begun, named, ranged, shown

if TYPE_CHECKING:
    from verifiers.transactions.verifier import Transactions


def doubts(judged: Case, asked: "Transactions") -> Iterator[str]:
    """Yield all reasons, as sentences."""
    yield from _nothing(judged)
    yield from _cut(judged)
    yield from _of_rows(judged, asked)
    yield from _vanished(judged)
    yield from _removed(judged, asked)
    yield from _set_at_first(judged)
    if asked.rows_per_record is not None:
        yield from _not_counted(judged, asked)
    yield from _of_the_wire(judged)
    flying = [one for one in judged.in_flight if judged.of_a_run and one.control == "COMMIT"]
    if flying:
        yield f"{len(flying)} transactions were in flight when the run was over, the first: {named(flying[0])}"
    yield from judged.unjudged


def outside(judged: Case) -> Mapping[Log, Sequence[Sequence[Span]]]:
    """Find the rows of the sinks that are in no transaction, in stretches."""
    found: dict[Log, list[list[Span]]] = defaultdict(list)
    for log, content in judged.contents.items():
        stretch: list[Span] | None = None
        for span in content.spans if log[0] in judged.sinks and content.unmarked else ():
            if span.piece is not None:
                stretch = None
            elif stretch is None:
                stretch = [span]
                found[log].append(stretch)
            else:
                stretch.append(span)
    return found


def without_positions(judged: Case) -> list[Transaction]:
    """Return transactions of others in the same topics without positions of any group."""
    return [one for one in judged.foreign if one.control == "COMMIT" and not any(log[0] == OFFSETS for log in one.logs)]


def strange(judged: Case) -> Mapping[str, tuple[int, int, int]]:
    """Topic -> rows in no transaction, transactions of others without positions, and those that no coordinator knows."""
    rows: Counter[str] = Counter()
    for (topic, _), stretches in outside(judged).items():
        rows[topic] += sum(span.records for stretch in stretches for span in stretch)
    others = Counter(topic for one in without_positions(judged) for topic in {piece.log[0] for piece in one.outputs})
    unowned = Counter(piece.log[0] for piece in judged.unowned)
    return {topic: (rows[topic], others[topic], unowned[topic]) for topic in sorted(rows | others | unowned)}


def described(rows: int, others: int, unowned: int) -> str:
    """Describe the rows of a topic that may be those of others."""
    words = (
        f"{rows} rows in no transaction" if rows else "",
        f"{others} transactions of other producers, which moved no position" if others else "",
        f"{unowned} transactions that no coordinator knows any longer" if unowned else "",
    )
    return " and ".join(filter(None, words))


def _nothing(judged: Case) -> Iterator[str]:
    if not judged.judged:
        yield "no transaction of the group could be judged"
    elif not any(judged.moved.get(id(one)) for one in judged.committed()):
        aborted = sum(one.control == "ABORT" for one in judged.judged)
        yield f"nothing was committed: no committed transaction moved a position of the group, and {aborted} were aborted"
    if judged.judged and not judged.sinks:
        yield "no transaction of the group wrote to any topic, so no rows were compared; name its topic with --sink"


def _cut(judged: Case) -> Iterator[str]:
    if judged.cut:
        logs = sorted({log for one in judged.cut for log in one.cut})
        more = f" and {len(logs) - 1} more logs" if len(logs) > 1 else ""
        what = f"of {logs[0][0]} partition {logs[0][1]}{more}"
        yield f"{len(judged.cut)} transactions were not judged: compaction or retention has removed the beginning {what}"
    if judged.unread:
        what = f"{judged.unread} batches of positions hold others than those that were read"
        yield f"{what}: some positions are missing, or the same transactions move another group"


def _of_rows(judged: Case, asked: "Transactions") -> Iterator[str]:
    for topic, (rows, others, unowned) in strange(judged).items():
        if topic in asked.shared:
            continue
        if topic not in asked.alone:
            what = f"{topic} has {described(rows, others, unowned)}, and the application may have written them"
            yield f"{what}; add --sink if it alone writes there, --shared-sink if others do, too"
            continue
        cut = sum(one.cut != set() and any(piece.log[0] == topic for piece in one.outputs) for one in without_positions(judged))
        if what := described(rows if asked.timers else 0, others if asked.timers else cut, unowned):
            yield f"{topic} has {what}: records may have caused them"


def _vanished(judged: Case) -> Iterator[str]:
    """A run counts those since its beginning: an earlier run may have used the transactional ids and deleted its topics."""
    some = [(one, log) for one, log in judged.vanished if not judged.of_a_run or one.decided_ms >= judged.since_ms]
    if some:
        logs = sorted({log for _, log in some})
        more = f" and {len(logs) - 1} more" if len(logs) > 1 else ""
        many = len({id(one) for one, _ in some})
        why = "it was deleted, or this login may not describe it"
        yield f"{shown(logs[0])}{more} could not be read, though {many} transactions name it: {why}"


def _removed(judged: Case, asked: "Transactions") -> Iterator[str]:
    beyond = [step for step in judged.steps if step.taken and step.end is not None and judged.is_beyond(step)]
    if beyond:
        many = f"{len(beyond)} positions follow one that lies behind the end of its topic"
        yield f"{many}, which was recreated or truncated: the first is {ranged(beyond[0])}"
    some = [
        step
        for step in judged.steps
        if step.taken and step.end is not None and step.removed_ms is not None and not _is_decided(step, judged, asked)
    ]
    if some:
        why = "the group was deleted or expired, or the topic was recreated"
        what = "records before it may have been read again, or skipped"
        yield f"{len(some)} positions follow one that was removed ({why}), the first is {ranged(some[0])}: {what}"


def _is_decided(step: Step, judged: Case, asked: "Transactions") -> bool:
    """Whether the effect of a removal is certain: none, or an anomaly that is counted elsewhere."""
    if step.begin is None or step.end is None or not judged.is_same_topic(step) or judged.is_beyond(step):
        return False
    if step.end < step.begin or not step.inside:
        return True
    one = step.transaction
    if one is None:
        return False
    if step.end == step.begin:
        still = all(each.taken and each.begin == each.end for each in judged.moved[id(one)])
        return not one.rows or (still and not asked.timers)
    return is_proved(step, judged, asked) or counted(one, judged, asked).kind in {SURPLUS, DEFICIT}


def _set_at_first(judged: Case) -> Iterator[str]:
    some = [step for step in judged.steps if is_set_at_first(step, judged)]
    if some and not judged.of_a_run:
        topic, partition = some[0].source
        where = f"of partition {partition} of {topic} at {some[0].end}"
        yield (
            f"{len(some)} first positions were set outside of any transaction, the first {where}: "
            "no transaction of the group has the records before it"
        )


def is_set_at_first(step: Step, judged: Case) -> bool:
    """Whether a first position was set outside of any transaction, and there may be records before it."""
    if not step.first or step.inside or not step.taken or not step.end:
        return False
    visible, content = judged.visible.get(step.source), judged.contents.get(step.source)
    return visible is None or content is None or visible.between(min(content.extent.begin, step.end), step.end) != 0


def _not_counted(judged: Case, asked: "Transactions") -> Iterator[str]:
    kinds = [(one, counted(one, judged, asked)) for one in judged.committed() if judged.moved.get(id(one))]
    unknown = sum(count.kind == UNKNOWN for _, count in kinds)
    if unknown:
        why = "retention or compaction removed their records or rows, or these were not read"
        yield f"the rows of {unknown} transactions were not compared with their records: {why}"
    late = [(one, count) for one, count in kinds if count.kind == LATE]
    if late:
        one, count = late[0]
        what = f"{named(one)}: {one.rows} rows of {count.records} records, {', '.join(map(ranged, judged.moved[id(one)]))}"
        why = "have too few rows, unless their readers began behind records that nobody has read"
        yield f"{len(late)} transactions with first positions {why}: {what}"


def _of_the_wire(judged: Case) -> Iterator[str]:
    unsure = [one for one in judged.twice if not one.certain]
    if unsure:
        first = unsure[0]
        why = "whether its rows were written before is not known, since the application sets their timestamps"
        yield f"{begun(first.start)} while {named(first.first.transaction)} was open: {why}"
    if judged.forgotten:
        what = ", ".join(sorted(judged.forgotten))
        yield f"the proxies could not remember all requests ({what}): where readers began is not known"
