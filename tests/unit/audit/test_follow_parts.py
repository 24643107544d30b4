"""The parts of a follower: what waits, the window, prints, gaps, doubts and anomalies, each by itself."""

from random import Random

import pytest

from chaos.audit.follow.doubts import Doubts
from chaos.audit.follow.gaps import End, Gaps
from chaos.audit.follow.memory import Prints, Waiting, Window
from chaos.audit.follow.rows import EXAMPLES, Anomalies, Comparison, Demand, Seen

OVERDUE_MS = Comparison().overdue_ms


# what waits ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_waiting_is_a_queue_for_each_print(seed):
    """Whatever is added, taken and removed: it holds what a plain list would hold, and nothing of what has gone."""
    random, waiting, plain = Random(seed), Waiting[tuple[int, str]](), list[tuple[int, tuple[int, str]]]()
    for number in range(300):
        key, one = random.randrange(6), (number, "x")
        act = random.choice(["add", "add", "take", "remove"])
        if act == "add":
            waiting.add(key, one)
            plain.append((key, one))
        elif act == "take":
            first = next((pair for pair in plain if pair[0] == key), None)
            assert waiting.take(key) == (first and first[1])
            if first:
                plain.remove(first)
        elif plain:
            gone = random.choice(plain)
            waiting.remove(*gone)
            plain.remove(gone)

        assert len(waiting) == len(plain)
        assert sorted(waiting.items()) == sorted(plain)
        assert sorted(waiting) == sorted(one for _, one in plain)
        assert waiting.held.keys() == {key for key, _ in plain}


def test_one_that_waits_alone_takes_no_list():
    """Millions may wait, most of them with a print of their own."""
    waiting = Waiting[tuple[int]]()
    waiting.add(7, (1,))

    assert waiting.held == {7: (1,)}


# the window ----------------------------------------------------------------------------------------------------------------


def test_the_window_holds_the_last_prints():
    """A print that was never put in is not in it, not even 0, which fills an empty ring."""
    window = Window(3)
    for content in (5, 2**64 - 1):
        window.add(content)
    assert window.within([0, 5, 2**64 - 1]) == {5, 2**64 - 1}

    for content in (6, 5, 7):
        window.add(content)

    assert window.within([0, 5, 6, 7, 8, 2**64 - 1, 7]) == {5, 6, 7}
    assert (list(window.prints), window.written) == ([5, 7, 6], 5)


# prints --------------------------------------------------------------------------------------------------------------------


def test_rows_that_differ_have_other_prints():
    """Null is not empty, and it matters where the identity ends."""
    rows = [(None, None), (None, b""), (b"", None), (b"", b""), (b"a", b"bc"), (b"ab", b"c"), (b"abc", None), (b"1:a", b"")]

    prints = Prints(Comparison("row"))

    assert len({prints.content(*row) for row in rows}) == len(rows)


def test_an_identity_is_compared_without_its_value():
    """And a value with its identity."""
    by_identity, by_value = Prints(Comparison("identity")), Prints(Comparison("value"))

    assert by_identity.content(b"a", b"1") == by_identity.content(b"a", b"2") != by_identity.content(b"b", b"1")
    assert by_value.content(b"a", b"1") != by_value.content(b"a", b"2")


def test_salts():
    """Each partition has its own, unless a row may be in any partition."""
    own, none = Prints(Comparison()), Prints(Comparison(anywhere=True))

    assert len({own.salt(one) for one in (0, 1, 10, 2)}) == 4
    assert own.salt(1) == own.salt(1) == Prints(Comparison()).salt(1)
    assert {none.salt(one) for one in range(4)} == {0}


def test_prints_are_those_of_earlier_versions():
    """State files hold them."""
    prints = Prints(Comparison())

    assert prints.content(b"k", b"v") == 14_496_378_663_073_370_935
    assert prints.content(None, b"") == 915_639_657_411_700_646
    assert Prints(Comparison("identity")).content(b"k", b"v") == 7_193_521_810_918_036_140
    assert prints.salt(3) == 112_266_347_804_173_726


# gaps ----------------------------------------------------------------------------------------------------------------------


def outstanding(*demands):
    waiting = Waiting[Demand]()
    for number, demand in enumerate(demands):
        waiting.add(number, demand)
    return waiting


def test_the_time_up_to_which_the_sink_was_read_does_not_go_back():
    """The positions are those of the last answer."""
    gaps, demand = Gaps(Comparison()), Demand(1000, 0, 5, b"a")
    gaps.seen(1000 + OVERDUE_MS, {0: 6})
    gaps.seen(1000, {0: 6})
    assert gaps.is_overdue(demand)

    gaps.seen(1000, {0: 5})
    assert not gaps.is_overdue(demand)


def test_records_of_the_end():
    """Before the end, a record that the group was past is lost; one from after the end is not judged, even if it is overdue."""
    gaps = Gaps(Comparison())
    gaps.seen(OVERDUE_MS, None)
    gaps.end = End({0: 8, 1: 8}, past={0: 4})
    demands = [Demand(5, 0, 3, b"lost"), Demand(5, 0, 4, b"pending"), Demand(5, 1, 7, b"pending"), Demand(0, 0, 8, b"later")]

    found = gaps.standing(outstanding(*demands), {0: 5})

    assert (found.lost, found.gaps, found.overtaken, found.pending, found.later, found.lag) == (1, 1, 1, 2, 1, 2)
    assert found.first == (demands[0],)


@pytest.mark.parametrize(("anywhere", "missing"), [(False, [b"b"]), (True, [])])
def test_rows_that_an_open_transaction_may_hide(anywhere, missing):
    """They are not missing: those of its partition, or all of them if a row may be in any partition."""
    gaps = Gaps(Comparison(anywhere=anywhere))
    gaps.seen(OVERDUE_MS, None)
    gaps.end = End({0: 8, 1: 8}, hidden=frozenset({0}))

    found = gaps.standing(outstanding(Demand(0, 0, 1, b"a"), Demand(0, 1, 1, b"b")), {})

    assert ([one.identity for one in found.first], found.pending) == (missing, 2 - len(missing))


# doubts --------------------------------------------------------------------------------------------------------------------


def test_a_doubt_is_about_its_partition():
    """Unless it is about the whole log, or a row may be in any partition."""
    doubts, anywhere = Doubts(Comparison()), Doubts(Comparison(anywhere=True))
    assert not doubts.may_answer_unread(1, 1)
    for those in (doubts, anywhere):
        assert those.add("source", "1", "begins at offset 7")
        assert those.add("source", "1", "another reason")
        assert not those.add("sink", "0", "begins at offset 9")

    assert [doubts.may_answer_unread(one, 1) for one in (0, 1)] == [False, True]
    assert [anywhere.may_answer_unread(one, 1) for one in (0, 1)] == [True, True]
    assert doubts.why == {"source": {"1": "begins at offset 7"}, "sink": {"0": "begins at offset 9"}}

    assert not doubts.add("source", "compacted", "is compacted")
    assert doubts.may_answer_unread(0, 1)


def test_a_doubt_ends():
    """When the sink was read for `overdue_ms` beyond the first answer since, for later rows; a new doubt begins anew."""
    doubts = Doubts(Comparison())
    doubts.answered(0, 500)
    assert doubts.answered_ms == {}  # there is no doubt that it could end
    doubts.add("source", "0", "begins at offset 7")
    doubts.seen(500 + OVERDUE_MS, rows=3)
    doubts.answered(0, 1000)
    doubts.answered(0, 2000)
    doubts.seen(999 + OVERDUE_MS, rows=4)
    assert doubts.may_answer_unread(0, 9)

    doubts.seen(1000 + OVERDUE_MS, rows=5)
    doubts.seen(2000 + OVERDUE_MS, rows=8)
    assert [doubts.may_answer_unread(0, number) for number in (5, 6)] == [True, False]

    doubts.add("source", "0", "was truncated")
    doubts.seen(9000 + OVERDUE_MS, rows=9)
    assert doubts.may_answer_unread(0, 10)


def test_rows_that_may_be_there_again():
    """Those of a partition that was truncated, or all of them if a row may be in any partition."""
    doubts, anywhere = Doubts(Comparison()), Doubts(Comparison(anywhere=True))
    assert not anywhere.may_be_written_again(0)
    for those in (doubts, anywhere):
        those.rewritten.add(1)

    assert [doubts.may_be_written_again(one) for one in (0, 1)] == [False, True]
    assert anywhere.may_be_written_again(0)


def test_offsets_that_were_never_read_add_up():
    """In each partition."""
    doubts = Doubts(Comparison())
    for partition, offsets in ((0, 3), (1, 1), (0, 4)):
        doubts.skip(partition, offsets)

    assert doubts.unread == {0: 7, 1: 1}


# anomalies -----------------------------------------------------------------------------------------------------------------


def test_the_first_of_each_kind_are_kept():
    """News begins anew when it was told; examples do not."""
    anomalies = Anomalies()
    for number in range(EXAMPLES + 5):
        anomalies.add(Seen("duplicate", 0, number, b"a"))
    anomalies.add(Seen("unexpected", 0, 99, b"b"))
    assert [one.offset for one in anomalies.news] == [*range(EXAMPLES), 99]

    anomalies.news.clear()
    anomalies.add(Seen("duplicate", 0, 100, b"a"))

    assert [one.offset for one in anomalies.news] == [100]
    assert [one.offset for one in anomalies.examples] == [*range(EXAMPLES), 99]
