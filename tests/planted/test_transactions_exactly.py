"""Small histories of transactions, written out: bounds of time, markers that are matched by number or by time, what is missing.

Histories that chance makes (`test_transactions`) reach few of these cases, and none of them for certain.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from unittest.mock import ANY

import pytest

from tests.planted import histories
from tests.planted.histories import App, Cluster, History, history
from verifiers.base import Example, Finding, Verdict
from verifiers.transactions import counts, logs, starts, together, verifier, words
from verifiers.transactions.case import case
from verifiers.transactions.logs import (
    OFFSETS,
    STATES,
    Batch,
    Extent,
    Log,
    Logs,
    Position,
    Start,
    State,
    Unfenced,
    complete_from,
    table,
)
from verifiers.transactions.starts import Skipped, Twice, Written
from verifiers.transactions.steps import Step, Visible
from verifiers.transactions.together import Content, Piece, Span, Transaction
from verifiers.transactions.verifier import ANOMALIES, RowsPerRecord, Transactions

SINK = ("totals", 0)
PRODUCER = 7


def piece(at_ms: int, *, records: int = 1, epoch: int = 0, control: str = "COMMIT", written_ms: int = 0) -> Piece:
    return Piece(SINK, PRODUCER, epoch, 0, records - 1, records, records, control, at_ms, written_ms=written_ms)


def transaction(
    decided_ms: int,
    *,
    epoch: int = 0,
    settled: bool = True,
    started_ms: int = 40,
    producer_id: int = PRODUCER,
    written_ms: int = 50,
) -> Transaction:
    """One with a row in the sink; what it wrote is not yet known to be its own where markers are matched."""
    return Transaction(
        "app",
        1,
        producer_id,
        epoch,
        "COMMIT",
        frozenset({SINK}),
        settled,
        started_ms,
        decided_ms,
        {SINK: piece(decided_ms, written_ms=written_ms)},
    )


# where readers began: the first reads from 10 to 20, the second is given 10 between 100 and 102 -------------------------------


def step(begin: int | None, end: int | None, own: Transaction | None = None, *, at_ms: int = 0, taken: bool = True) -> Step:
    return Step("a", ("orders", 0), begin, end, own, own is not None, (OFFSETS, 0), 0, at_ms, taken, begin is None)


def start(position: int, asked_ms: int = 100, answered_ms: int = 102) -> Start:
    return Start("a", "orders", 0, position, 3, "reader", asked_ms, answered_ms)


def sent(at_ms: int = 60) -> Unfenced:
    return Unfenced("a", PRODUCER, at_ms)


def read_twice(some, steps, unfenced):
    """By the times of the rows, as if a broker had given them."""

    def written(one: Transaction) -> Written:
        return Written(*[max(piece.written_ms for piece in one.outputs)] * 2)

    return starts.read_twice(some, steps, unfenced, written)


SECOND = step(20, 30, transaction(120, producer_id=8))


@pytest.mark.parametrize(
    ("position", "first", "at_ms"),
    [
        (10, step(10, 20, transaction(110)), 60),
        (10, step(10, 20, transaction(100)), 60),
        (10, step(10, 20, transaction(110, written_ms=101)), 60),
        (10, step(10, 20, transaction(110)), 40),
        (10, step(10, 20, transaction(110)), 110),
        (0, step(10, 20, transaction(110)), 60),
    ],
    ids=[
        "in between",
        "decided when it is asked",
        "written before the answer",
        "sent at once",
        "sent at last",
        "from the begin",
    ],
)
def test_what_was_certainly_read_twice(position, first, at_ms):
    found = list(read_twice([start(position)], [first, SECOND], [sent(at_ms)]))

    assert found == [Twice(start(position), first, SECOND, position, 20)]


@pytest.mark.parametrize(
    ("position", "first", "at_ms"),
    [
        (10, step(10, 20, transaction(99)), 60),
        (10, step(10, 20, transaction(110, written_ms=102)), 60),
        (10, step(10, 20, transaction(110)), 39),
        (10, step(10, 20, transaction(110)), 111),
        (10, step(0, 10, transaction(110)), 60),
        (-1, step(10, 20, transaction(110)), 60),
    ],
    ids=["decided before", "written with the answer", "sent before it began", "sent after its end", "not so far", "given none"],
)
def test_what_may_have_been_read_once(position, first, at_ms):
    assert not list(read_twice([start(position)], [first, SECOND], [sent(at_ms)]))


def test_a_reader_of_which_no_position_is_known():
    """All of its steps were removed."""
    assert not list(read_twice([start(10)], [], [sent()]))
    assert not list(starts.skipped([start(10)], []))


@pytest.mark.parametrize("further", [25, 20])
def test_of_several_that_were_read_before_the_first_of_those_that_go_furthest_counts(further):
    """The other one is then a second commit of what it shares with it."""
    first = step(10, 25, transaction(110))
    other = step(25, further, transaction(112))

    assert list(read_twice([start(10)], [first, other], [sent()])) == [Twice(start(10), first, other, 10, further)]


def test_one_that_goes_further_takes_the_place_of_the_first():
    first, other = step(10, 20, transaction(110)), step(20, 30, transaction(112))
    last = step(30, 40, transaction(120, producer_id=8))

    assert list(read_twice([start(10)], [first, other, last], [sent()])) == [Twice(start(10), other, last, 10, 30)]


@pytest.mark.parametrize(
    "between",
    [step(20, 20, None), step(20, 10, transaction(115)), step(20, None, transaction(115))],
    ids=["outside of any transaction", "back to where the reader began", "removed"],
)
def test_what_is_no_second_commit_does_not_end_the_search(between):
    first = step(0, 20, transaction(110))

    found = list(read_twice([start(10)], [first, between, SECOND], [sent()]))

    assert found == [Twice(start(10), first, SECOND, 10, 20)]


def test_a_removed_position_lies_before_the_begin():
    first, removed = step(0, 20, transaction(110)), step(20, None, transaction(115))

    assert list(read_twice([start(0)], [first, removed, SECOND], [sent()])) == [Twice(start(0), first, SECOND, 0, 20)]


@pytest.mark.parametrize(("decided_ms", "producer_id", "twice"), [(119, 8, 1), (120, 8, 0), (119, PRODUCER, 0)])
def test_before_the_next_reader_began_only_another_producer_counts(decided_ms, producer_id, twice):
    """The next one is asked for at 120; the first producer may itself be the one that began at 100."""
    first, second = step(10, 20, transaction(110)), step(20, 30, transaction(decided_ms, producer_id=producer_id))

    assert len(list(read_twice([start(10), start(40, 120, 122)], [first, second], [sent()]))) == twice


def test_readers_come_in_the_order_of_their_answers():
    """Though the second one was given a lower position; nobody came after it."""
    first, second = step(10, 20, transaction(210, written_ms=150)), step(20, 30, transaction(220, producer_id=8))
    later, earlier = start(10, 200, 202), start(40, 100, 102)

    assert list(read_twice([later, earlier], [first, second], [sent()])) == [Twice(later, first, second, 10, 20)]


GIVEN = start(30, 10_000, 10_010)
BEFORE = step(0, 20, at_ms=1000)


@pytest.mark.parametrize(
    "steps",
    [
        [BEFORE],
        [BEFORE, step(20, 50, at_ms=12_000)],
        [step(0, 40, at_ms=500), step(40, 20, at_ms=1000)],
        [BEFORE, step(20, 50, at_ms=2000, taken=False)],
    ],
    ids=["one step", "one that comes later", "one that went back", "one that took no effect"],
)
def test_what_was_skipped_begins_at_the_position_in_force(steps):
    assert list(starts.skipped([GIVEN], steps)) == [Skipped(GIVEN, 20, 30)]


@pytest.mark.parametrize(
    "steps",
    [
        [step(0, 30, at_ms=1000)],
        [BEFORE, step(20, 40, at_ms=5000)],
        [BEFORE, step(20, 40, at_ms=10_010)],
        [step(0, 40, at_ms=1000), step(40, 20, transaction(10_005), at_ms=1)],
        [step(0, None, at_ms=1000)],
    ],
    ids=["right behind it", "just settled", "with the answer", "decided later than it was sent", "removed"],
)
def test_what_may_have_been_in_force_skips_nothing(steps):
    assert not list(starts.skipped([GIVEN], steps))


# what is in a log ------------------------------------------------------------------------------------------------------------


def batch(
    first: int,
    last: int,
    *,
    records: int | None = None,
    producer_id: int = PRODUCER,
    control: str | None = None,
    at_ms: int = 9,
) -> Batch:
    count = last - first + 1 if records is None else records
    return Batch(*SINK, first, last, count, producer_id, 0, producer_id >= 0, control, at_ms)


def walked(batches: Sequence[Batch], positions: Sequence[Position] = (), *, begin: int = 0, end: int = 20) -> Content:
    content = Content(Extent(*SINK, begin, end, end))
    together._walk(SINK, content, batches, positions)
    return content


def position(offset: int) -> Position:
    return Position(0, offset, "a", "orders", 0, 5, 9)


def test_batches_of_one_transaction_are_one_piece():
    (found,) = walked([batch(0, 2), batch(3, 4, at_ms=8), batch(5, 5, control="ABORT")]).ended

    assert (found.first, found.last, found.records, found.marker, found.control) == (0, 4, 5, 5, "ABORT")
    assert found.written_ms == 9


def test_rows_outside_of_transactions_are_added_up():
    assert walked([batch(0, 1, producer_id=-1), batch(2, 2), batch(3, 5, producer_id=-1), batch(6, 6)]).unmarked == 5


def test_positions_before_the_log_is_whole_are_told_apart():
    """The last one before its begin, and the first one after it."""
    found = walked([batch(10, 10)], [position(9), position(10)], begin=10)

    assert (found.before, found.open[0].positions) == ([position(9)], [position(10)])


def test_a_reader_is_given_what_is_committed():
    spans = [Span(0, 4, 5, None), Span(5, 9, 5, piece(9, control="ABORT")), Span(10, 14, 5, piece(9))]
    visible = Visible(Content(Extent(*SINK, 0, 15, 15), spans=spans))

    assert list(visible.offsets(1, 12)) == [1, 2, 3, 4, 10, 11]
    assert [visible.between(*those) for those in [(0, 15), (2, 12), (0, 16), (5, 10)]] == [10, 5, None, 0]
    assert Visible(Content(Extent(*SINK, 3, 15, 15), spans=spans)).between(2, 12) is None


@pytest.mark.parametrize(
    ("low", "end", "batches", "begin"),
    [
        (0, 0, [], 0),
        (5, 5, [], 5),
        (0, 10, [], 10),
        (0, 10, [batch(0, 4), batch(5, 9)], 0),
        (3, 10, [batch(3, 4), batch(5, 9)], 3),
        (0, 10, [batch(2, 4), batch(5, 9)], 2),
        (0, 10, [batch(0, 4, records=3), batch(5, 9)], 5),
        (0, 10, [batch(0, 3), batch(5, 9)], 5),
        (0, 10, [batch(0, 4)], 10),
    ],
)
def test_from_where_a_log_is_whole(low, end, batches, begin):
    assert complete_from(low, end, batches) == begin


# what coordinators decided ---------------------------------------------------------------------------------------------------


def state(log_partition: int, offset: int, said: str, at_ms: int) -> State:
    return State(log_partition, offset, "app", PRODUCER, 0, said, *SINK, 1, at_ms)


def is_settled(extents: Sequence[Extent], completed_at: int) -> bool:
    """Whether a transaction is, whose end is at this offset of partition 1 of the coordinators' logs."""
    said = [state(1, 3, "PrepareCommit", 8), state(1, completed_at, "CompleteCommit", 9)]
    rows = {"extents": extents, "batches": (), "positions": (), "states": said}
    (found,), _, _ = together._decided(Logs.of(**{name: table(name, some) for name, some in rows.items()}))
    return found.settled


@pytest.mark.parametrize(("completed_at", "settled"), [(4, True), (5, False)])
def test_what_was_completed_before_the_reading_is_settled(completed_at, settled):
    """Each log of the coordinators has an end of its own."""
    extents = [Extent(STATES, 0, 0, 100, 100), Extent(STATES, 1, 0, 5, 100)]

    assert is_settled(extents, completed_at) is settled


@pytest.mark.parametrize(("first", "decided_ms"), [("PrepareCommit", 8), ("PrepareAbort", 11)])
def test_a_transaction_that_is_decided_twice_is_one(first, decided_ms):
    """Too few replicas took the first decision in time, and it is in the log all the same; markers come after the second."""
    said = [state(1, 3, first, 8), state(1, 4, "PrepareCommit", 11), state(1, 5, "CompleteCommit", 12)]
    rows = {"extents": [Extent(STATES, 1, 0, 9, 9)], "batches": (), "positions": (), "states": said}

    (found,), _, _ = together._decided(Logs.of(**{name: table(name, some) for name, some in rows.items()}))

    assert (found.number, found.control, found.decided_ms, found.settled) == (1, "COMMIT", decided_ms, True)


def test_what_a_log_that_was_not_read_says_is_not_settled():
    assert not is_settled((), 4)


# which marker is whose -------------------------------------------------------------------------------------------------------

OWN = (10, 20, 30)


def own(*decided_ms: int, flying: int = 0) -> list[Transaction]:
    """Transactions whose pieces are not known; so many of the last are in flight."""
    found = [transaction(at, settled=number < len(decided_ms) - flying) for number, at in enumerate(decided_ms)]
    for one in found:
        one.pieces.clear()
    return found


def aligned(some: Sequence[Transaction], pieces: Sequence[Piece], *, is_whole: bool) -> list[tuple[int, int]] | None:
    """When those that belong together were decided, and ended."""
    found = together._aligned(some, pieces, is_whole=is_whole)
    return None if found is None else [(one.decided_ms, its.at_ms) for one, its in found]


@pytest.mark.parametrize(
    ("decided", "ended", "is_whole", "pairs"),
    [
        pytest.param(OWN, (5, 12, 22), True, [(10, 5), (20, 12), (30, 22)], id="by numbers, though the clocks differ"),
        pytest.param(OWN, (5, 12, 22), False, [(10, 12), (20, 22)], id="by time where something may be gone"),
        pytest.param(OWN, (5, 15, 16), False, None, id="by time, and it does not fit"),
        pytest.param(OWN, (21, 31), False, [(20, 21), (30, 31)], id="the first marker is gone"),
        pytest.param(OWN, (11, 21), False, [(10, 11), (20, 21)], id="the last marker is not there"),
        pytest.param((10, 20), (5,), True, [(10, 5)], id="at most the last marker can be missing"),
        pytest.param(OWN, (5,), True, None, id="two are missing"),
        pytest.param((10, 20), (5, 6, 7), True, None, id="one too many"),
        pytest.param((10, 20), (10, 20), False, [(10, 10), (20, 20)], id="ended when they are decided"),
        pytest.param((10, 20), (20, 21), False, [(10, 20), (20, 21)], id="ended when the next one is decided"),
        pytest.param((20,), (20, 21), False, [(20, 21)], id="an older one ended then"),
    ],
)
def test_markers_are_matched(decided, ended, is_whole, pairs):
    assert aligned(own(*decided), [piece(at) for at in ended], is_whole=is_whole) == pairs


def test_a_marker_that_looks_repeated_may_be_that_of_the_next_transaction():
    """Time tells, where it can: the second one has none. Where it cannot, their number does."""
    by_time = [piece(11), piece(12, records=0)]
    by_number = [piece(95), piece(131), piece(132, records=0)]

    assert aligned(own(10, 20), by_time, is_whole=True) == [(10, 11)]
    assert aligned(own(100, 130, 160), by_number, is_whole=True) == [(100, 95), (130, 131), (160, 132)]


@pytest.mark.parametrize(("most", "kept"), [(0, [11, 12, 13, 14]), (1, [11, 13, 14]), (2, [11, 14]), (9, [11])])
def test_no_more_are_left_out_as_repeated_than_there_may_be(most, kept):
    ended = [piece(11), *(piece(at, records=0) for at in (12, 13, 14))]

    assert [one.at_ms for one in together._without_repeated(own(10), ended, most)] == kept


def test_before_the_first_decision_nothing_is_repeated():
    assert aligned(own(10), [piece(5), piece(6, records=0)], is_whole=True) == []


def test_a_marker_from_the_decision_on_is_of_the_one_in_flight():
    assert aligned(own(10, 20, flying=1), [piece(11), piece(20)], is_whole=True) == [(10, 11), (20, 20)]


def test_epochs_are_matched_first():
    """Those that only one side has come last."""
    some, ended = [transaction(10, epoch=1), transaction(20, epoch=2)], [piece(11, epoch=3), piece(21, epoch=2)]

    assert list(together._by_epoch(some, ended)) == [([some[1]], [ended[1]]), ([some[0]], [ended[0]])]
    assert list(together._by_epoch(some[1:], ended)) == [([some[1]], [ended[1]])]


@pytest.mark.parametrize(("states_begin", "begin", "of_the_first"), [(0, 0, 5), (1, 0, 12), (0, 1, 12)])
def test_numbers_tell_only_where_nothing_was_removed(states_begin, begin, of_the_first):
    """Neither from the log nor from that of the coordinators."""
    some, ended = own(*OWN), [piece(at) for at in (5, 12, 22)]
    log, said = Content(Extent(*SINK, begin, 99, 99), ended=ended), Content(Extent(STATES, 0, states_begin, 99, 99))

    assert together._own({SINK: log, (STATES, 0): said}, some) == []
    assert some[0].pieces[SINK].at_ms == of_the_first


def test_what_cannot_be_matched_is_told_and_not_judged(snapshot):
    some, log = own(10, 20), Content(Extent(*SINK, 0, 99, 99), ended=[piece(at) for at in (5, 6, 7)])

    (doubt,) = together._own({SINK: log}, some)

    assert doubt == snapshot
    assert [(one.pieces, one.cut) for one in some] == [({}, {SINK})] * 2


@pytest.mark.parametrize(
    ("begin", "started_ms", "has_a_piece", "cut"),
    [(0, 5, False, False), (1, 5, True, True), (1, 10, True, True), (1, 11, True, False), (1, 11, False, True)],
)
def test_what_may_have_lost_a_part_is_cut(begin, started_ms, has_a_piece, cut):
    """The log is whole from a marker at 10 on."""
    one = transaction(20, started_ms=started_ms)
    if not has_a_piece:
        one.pieces.clear()

    together._cut([one], Content(Extent(*SINK, begin, 99, 99), complete_ms=10))

    assert bool(one.cut) is cut


# the whole verifier ----------------------------------------------------------------------------------------------------------


def small() -> tuple[History, App, Log]:
    """One that has read and written once, and one of its sinks."""
    one = history(1)
    app = one.apps[0]
    one.warm(app)
    return one, app, app.sinks[0]


def test_what_a_producer_has_open_is_judged_in_the_sinks_and_what_is_its_own_elsewhere():
    """A stranger's producer is unknown to all coordinators, whose logs are whole."""
    one, app, sink = small()
    elsewhere = ("other", 0)
    hanging = [(sink[1], one.cluster.append(sink, 2, (555, 0))), (0, one.cluster.append(elsewhere, 2, app.producer))]
    one.cluster.append(("strange", 0), 2, (555, 0))

    finding = Transactions().check(one.cluster.logs())

    assert (finding.verdict, finding.note) == (Verdict.INVALID, "")
    assert sorted((example.partition, example.offset) for example in finding.examples) == sorted(hanging)


def test_where_coordinators_have_forgotten_it_is_not_known_whether_a_stranger_hangs():
    one, app, sink = small()
    one.cluster.append(sink, 2, (555, 0))
    known = one.cluster.append(("other", 0), 2, app.producer)
    one.cluster.low[STATES, 0] = 1

    finding = Transactions().check(one.cluster.logs())

    assert [(example.anomaly, example.offset) for example in finding.examples] == [("hanging", known)]
    assert "1 open transactions " in finding.note
    assert STATES in finding.note


def test_a_topic_that_was_made_anew_has_lost_its_markers():
    one, app, sink = small()
    app.write(sink, 2)
    app.end("COMMIT")
    one.cluster.batches[sink].clear()

    finding = Transactions().check(one.cluster.logs())

    assert finding.verdict is Verdict.UNKNOWN
    assert "transaction 1 of 'app-0' " in finding.note
    assert f"partition {sink[1]} of {sink[0]}" in finding.note


def test_what_is_counted_beside():
    one, app, sink = small()
    for _ in range(2):
        app.write(sink, 2)
        app.end("ABORT")

    counts = Transactions().check(one.cluster.logs()).counts

    assert {name: counts[name] for name in ("aborted", "in flight", "removed")} == {"aborted": 2, "in flight": 0, "removed": 0}


def test_positions_of_another_group_are_positions():
    """Also in a topic where nobody else may write without any."""
    one, _, sink = small()
    stranger = App(one.cluster, "stranger", 900, "elsewhere", [("other", 0)], [sink], v2=True)
    stranger.write(sink, 3)
    stranger.add(histories.home(stranger.group))
    stranger.end("COMMIT")

    assert Transactions(alone=frozenset({sink[0]})).check(one.cluster.logs()).verdict is Verdict.VALID


# what is said ----------------------------------------------------------------------------------------------------------------

NONE = dict.fromkeys((*ANOMALIES, "aborted", "in flight", "removed"), 0)


class Lowest(Random):
    """Chance that always takes the first or the lowest, so that a history is the same with any Python."""

    def randint(self, a: int, b: int) -> int:  # noqa: ARG002 - as in Random
        return a

    def random(self) -> float:
        return 0.99

    def choice(self, seq):
        return seq[0]

    def sample(self, population, k, *, counts=None):  # noqa: ARG002 - as in Random
        return list(population)[:k]


def plain(sources: Sequence[Log] = (("orders", 0),)) -> tuple[History, App]:
    """One application, which has done nothing yet, and 100 records in each of these."""
    cluster = Cluster(Lowest())
    for log in sources:
        cluster.append(log, 100, None)
        cluster.visible[log] += range(100)
    app = App(cluster, "app", PRODUCER, "a", [*sources], [SINK, ("totals", 1)], v2=False)
    return History(cluster, [app], exact=True), app


def checked(one: History, asked: Transactions | None = None) -> Finding:
    return (asked or Transactions(RowsPerRecord(1, 1))).check(one.cluster.logs())


@pytest.mark.parametrize(
    ("plant", "transactions", "example"),
    [
        (histories.without_positions, 2, Example("output without positions", 0, 13, None, 13, ANY, topic="totals")),
        (
            histories.without_positions_though_added,
            2,
            Example("output without positions", 0, 13, None, 14, ANY, topic="totals"),
        ),
        (histories.step_back, 2, Example("step back", 0, 11, None, 13, ANY, topic="orders")),
        (histories.standing_still, 2, Example("standing still", 0, 13, None, 15, ANY, topic="totals")),
        (histories.torn, 2, Example("torn", 0, 13, None, 15, ANY, topic="totals")),
        (histories.hanging, 1, Example("hanging", 0, 13, None, 10, ANY, topic="totals")),
        (histories.never_marked, 1, Example("hanging", 0, 13, None, 11, ANY, topic="totals")),
        (histories.moved_outside, 1, Example("moved outside", 0, 12, None, 10, ANY, topic="orders")),
        (histories.set_back_outside, 1, Example("set back outside", 0, 11, None, 10, ANY, topic="orders")),
        (histories.overtaken, 3, Example("overtaken", 0, 13, None, 13, ANY, topic="orders")),
        (histories.deficit, 2, Example("deficit", 1, 0, None, 15, ANY, topic="totals")),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_each_is_told_in_words(plant, transactions, example, snapshot):
    """Where a timer may have written the rows, the note says so."""
    one, app = plain()
    plant(one, app)

    found = checked(one)

    expected = replace(example, timestamp_ms=histories.BEGAN_MS + example.timestamp_ms)
    counts = NONE | {example.anomaly: 1}
    assert found == Finding("transactions", "sink", Verdict.INVALID, 1, transactions, counts, (expected,), ANY)
    assert ("timer" in found.note) is (example.anomaly in {"output without positions", "standing still"})
    assert [found.examples[0].words, found.note] == snapshot


def test_of_a_torn_one_that_wrote_nothing_there_the_marker_is_the_place(snapshot):
    one, app = plain()
    one.warm(app)
    app.write(SINK, 1)
    app.add(("totals", 1))
    app.move(("orders", 0), 13)
    app.end("COMMIT", flipped=("totals", 1))

    (found,) = checked(one).examples

    assert (found.anomaly, found.partition, found.offset) == ("torn", 1, 0)
    assert found.words == snapshot


def test_times_are_those_of_utc(monkeypatch):
    """Wherever the process runs; this zone needs no file of zones."""
    monkeypatch.setenv("TZ", "EST5")
    time.tzset()
    try:
        assert words.time_of(histories.BEGAN_MS) == "11:06:40.000Z"
    finally:
        monkeypatch.undo()
        time.tzset()


def moved_two(rows: int, of_the_other: tuple[int, int] | None, at: int) -> History:
    """Two positions are moved in one transaction, of which the other has been in two places before, or in none."""
    one, app = plain([("orders", 0), ("orders", 1)])
    for place in of_the_other or ():
        app.write(SINK, place - app.at.get(("orders", 1), 0))
        app.move(("orders", 1), place)
        app.end("COMMIT")
    app.write(("totals", 0), 1)
    app.write(("totals", 1), rows - 1)
    app.move(("orders", 0), 2)
    app.move(("orders", 1), at)
    app.end("COMMIT")
    return one


@pytest.mark.parametrize(
    ("of_the_other", "at", "records"), [((3, 5), 6, 3), ((3, 5), 5, 2), (None, 0, 2)], ids=["moved", "stays", "at first"]
)
def test_records_of_several_positions_are_added_up(of_the_other, at, records, snapshot):
    """Also where one of them stays where it is."""
    finding = checked(moved_two(5, of_the_other, at))

    assert [one.anomaly for one in finding.examples] == ["surplus"]
    assert f": 5 rows of {records} records" in finding.examples[0].words
    assert finding.examples[0].words == snapshot


def test_all_positions_and_all_rows_are_named(snapshot):
    one = moved_two(5, (3, 5), 6)
    app = one.apps[0]
    app.write(("totals", 0), 1)
    app.write(("totals", 1), 2)
    app.move(("orders", 0), 2)
    app.move(("orders", 1), 6)
    app.end("COMMIT")

    (found,) = checked(one, Transactions()).examples

    assert found.words == snapshot


def test_examples_are_in_the_order_of_their_places():
    one, app = plain()
    one.apps.append(App(one.cluster, "other", 8, "a", [("orders", 0)], [("alarms", 0)], v2=False))
    histories.moved_outside(one, app)
    app.write(("alarms", 0), 2)
    app.end("COMMIT")

    assert [(found.partition, found.offset) for found in checked(one, Transactions()).examples] == [(0, 0), (0, 12)]


def test_what_was_committed_twice_is_told_in_words(snapshot):
    one, app = plain()
    one.warm(app)
    app.write(SINK, 2)
    one.cluster.start("a", ("orders", 0), 12)
    app.move(("orders", 0), 14)
    app.end("COMMIT")
    app.write(SINK, 1)
    app.move(("orders", 0), 15)
    app.end("COMMIT")

    found = checked(one, Transactions()).examples

    assert list(found) == [
        Example("committed twice", 0, at, None, histories.BEGAN_MS + 16, ANY, topic="orders") for at in (12, 13)
    ]
    assert [one.words for one in found] == snapshot


def test_what_was_skipped_is_told_in_words(snapshot):
    one, app = plain()
    one.warm(app)
    one.cluster.start("a", ("orders", 0), 14)

    found = checked(one, Transactions()).examples

    assert list(found) == [Example("skipped", 0, at, None, histories.BEGAN_MS + 11, ANY, topic="orders") for at in (12, 13)]
    assert [one.words for one in found] == snapshot


def test_of_a_source_that_was_not_read_every_offset_is_told():
    one, app = plain()
    one.warm(app)
    one.cluster.start("a", ("orders", 0), 15)
    del one.cluster.batches["orders", 0]

    assert [found.offset for found in checked(one, Transactions()).examples] == [12, 13, 14]


@pytest.mark.parametrize(("generation", "who"), [(-1, "'reader'"), (0, "'reader', generation 0")])
def test_a_reader_without_a_generation(generation, who):
    began = words.begun(start(5, 100, histories.BEGAN_MS)._replace(generation=generation))

    assert began == f"a reader ({who}) began at 5 at 11:06:40.000Z"


def test_what_took_no_effect_and_is_of_no_known_transaction_is_not_judged():
    judged = case(Logs.of(**{name: table(name, ()) for name in logs.SCHEMAS}))

    assert not list(verifier._of_step(step(13, 12, taken=False), judged))
    assert not list(verifier._of_step(step(13, 13), judged))


def test_a_producer_that_never_sent_a_position(snapshot):
    """In a topic that only the application may write to, though it did not."""
    one, app = plain()
    one.warm(app)
    stranger = App(one.cluster, "stranger", 900, "elsewhere", [], [("private", 0)], v2=False)
    stranger.write(("private", 0), 3)
    stranger.end("COMMIT")

    (found,) = checked(one, Transactions(alone=frozenset({"private"}))).examples

    assert found.anomaly == "output without positions"
    assert found.words == snapshot


def test_a_group_that_has_no_transactions():
    one, _ = plain()

    assert checked(one) == Finding(
        "transactions", "sink", Verdict.UNKNOWN, 0, 0, dict.fromkeys(ANOMALIES, 0), (), verifier.NOT_ASKED
    )


# what is not judged, in words ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expired", "where"),
    [
        ([("totals", 0)], "totals partition 0"),
        ([("totals", 0), ("totals", 1)], "totals partition 0 and 1 more logs"),
        ([("alarms", 0), ("totals", 0), ("totals", 1)], "alarms partition 0 and 2 more logs"),
    ],
)
def test_what_has_lost_its_begin_is_told(expired, where, snapshot):
    """Nothing else is left."""
    one, app = plain()
    for log in [("totals", 0), ("totals", 1), ("alarms", 0)]:
        app.write(log, 2)
    app.move(("orders", 0), 6)
    app.end("COMMIT")
    for log in expired:
        del one.cluster.batches[log][0]
        one.cluster.low[log] = 2

    finding = checked(one)

    assert (finding.verdict, finding.count) == (Verdict.UNKNOWN, 0)
    assert finding.note.endswith(where)
    assert finding.note == snapshot


def test_what_cannot_be_counted_is_told(snapshot):
    """With what else there is to say, one after the other."""
    one, app = plain()
    one.warm(app)
    one.cluster.append(SINK, 2, None)
    one.cluster.low["orders", 0] = 100
    one.cluster.batches["orders", 0].clear()

    finding = checked(one, Transactions(RowsPerRecord(1, 1), timers=True))

    assert finding.note == snapshot


def rows_of_others(one: History) -> None:
    """Some are in no transaction, some in one without positions, and some in one that no coordinator tells of."""
    one.cluster.append(SINK, 2, None)
    stranger = App(one.cluster, "stranger", 900, "elsewhere", [("other", 0)], [SINK], v2=False)
    stranger.write(SINK, 3)
    stranger.end("COMMIT")
    one.cluster.append(SINK, 2, (901, 0))
    one.cluster.append(SINK, 1, (901, 0), "COMMIT")


def a_sink_that_is_gone(one: History) -> None:
    for log in [log for log in one.cluster.batches if log[0] == SINK[0]]:
        del one.cluster.batches[log]


def a_sink_without_markers(one: History) -> None:
    one.apps[0].write(SINK, 2)
    one.apps[0].end("COMMIT")
    one.cluster.batches[SINK].clear()


def an_open_transaction_of_a_stranger(one: History) -> None:
    """Coordinators may have forgotten it."""
    one.cluster.append(SINK, 2, (555, 0))
    one.cluster.low[STATES, 0] = 1


def a_position_that_was_removed(one: History) -> None:
    one.cluster.send("a", ("orders", 0), None, None)
    one.apps[0].write(SINK, 3)
    one.apps[0].move(("orders", 0), 3)
    one.apps[0].end("COMMIT")


def a_position_behind_the_end(one: History) -> None:
    one.apps[0].write(SINK, 1)
    for position in (1000, 3):
        one.apps[0].move(("orders", 0), position)
        one.apps[0].end("COMMIT")


@pytest.mark.parametrize(
    "plant",
    [
        rows_of_others,
        a_sink_that_is_gone,
        a_sink_without_markers,
        an_open_transaction_of_a_stranger,
        a_position_that_was_removed,
        a_position_behind_the_end,
    ],
)
def test_each_doubt_is_told_in_words(plant, snapshot):
    """Why nothing is certain, and where."""
    one, app = plain()
    one.warm(app)
    plant(one)

    finding = checked(one, Transactions())

    assert (finding.verdict, finding.count) == (Verdict.UNKNOWN, 0)
    assert finding.note == snapshot


def test_a_first_transaction_with_too_few_rows_is_told(snapshot):
    """With how many it has, and of how many records."""
    one, app = plain()
    app.write(SINK, 10)
    app.move(("orders", 0), 100)
    app.end("COMMIT")

    finding = checked(one)

    assert finding.verdict is Verdict.UNKNOWN
    assert finding.note == snapshot


def test_a_first_position_that_was_set_from_outside_is_told(snapshot):
    """With the place where it was set."""
    one, app = plain()
    one.cluster.send("a", ("orders", 0), 90, None)
    app.at["orders", 0] = 90
    one.go_on(2)

    finding = checked(one, Transactions())

    assert finding.verdict is Verdict.UNKNOWN
    assert finding.note == snapshot


def test_others_that_may_write_to_a_sink_are_told(snapshot):
    """Their rows then cause no doubt."""
    one, app = plain()
    one.warm(app)
    one.cluster.append(SINK, 2, None)

    finding = checked(one, Transactions(shared=frozenset({SINK[0]})))

    assert finding.verdict is Verdict.VALID
    assert finding.note == snapshot


def test_of_which_steps_the_records_are_known():
    log = ("orders", 0)
    content = Content(Extent(*log, 0, 100, 100), spans=[Span(0, 99, 100, None)])
    judged = replace(case(Logs.of(**{name: table(name, ()) for name in logs.SCHEMAS})), visible={log: Visible(content)})
    begins = step(None, 20)

    assert [counts.records_of(one, judged) for one in (step(10, 20), begins)] == [10, 20]
    unknown = (replace(begins, first=False), step(10, None), replace(step(10, 20), source=("returns", 0)))
    assert [counts.records_of(one, judged) for one in unknown] == [None] * 3


# as it is landed -------------------------------------------------------------------------------------------------------------


def test_all_columns_that_are_wrong_are_named():
    found = table("unfenced", [("a", 7, 9)]).rename_columns(["consumer_group", "producer", "sent_ms"])
    found = found.set_column(2, "sent_ms", found["sent_ms"].cast("int32"))

    with pytest.raises(logs.LogsError) as raised:
        Logs.of(**{name: table(name, ()) for name in logs.SCHEMAS} | {"unfenced": found})

    needed = "producer_id int64 (found: none), sent_ms int64 (found: int32)"
    assert str(raised.value) == f"unfenced: wrong or missing columns: {needed}; select and cast them"


def test_what_is_landed_again_takes_the_place_of_what_was(tmp_path):
    one, _, _ = small()
    logs.write(tmp_path, history(1).cluster.logs())
    logs.write(tmp_path, one.cluster.logs())

    assert logs.load(tmp_path) == one.cluster.logs()
