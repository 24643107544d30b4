"""Committed positions, each with the producer whose transaction moved it, and when it took effect."""

import pytest

from chaos.cluster.committed import Commit, Moved, Reached, in_transactions, with_producers
from chaos.cluster.protocol import Batch

MOVED = {10: Moved(12, 7, 500), 20: Moved(20, 8, 600)}


@pytest.mark.parametrize(
    ("seq", "at_ms", "producer"),
    [(9, 99, -1), (10, 500, 7), (11, 500, 7), (12, 500, 7), (13, 99, -1), (19, 99, -1), (20, 600, 8), (21, 99, -1)],
)
def test_a_position_is_that_of_the_batch_that_holds_it(seq, at_ms, producer):
    """Between the batches of transactions are positions of other clients."""
    assert list(with_producers([Commit(1, seq, 5, 99)], MOVED, 3)) == [Reached(4, 5, at_ms, producer)]


def batch(first, producer, control=None, timestamp_ms=0, *, transactional=True):
    return Batch(0, first, first + 1, producer, 0, transactional, control, timestamp_ms)


def test_positions_take_effect_with_the_marker_of_their_producer():
    """Transactions of several producers overlap. What was aborted moved nothing; of one that is open it is not known when."""
    batches = [
        *(batch(0, 7), batch(2, 8), batch(4, 7), batch(6, -1, transactional=False), batch(8, 9)),
        *(batch(10, 7, "COMMIT", 70), batch(12, 8, "ABORT", 80), batch(14, 8), batch(16, 8, "COMMIT", 90)),
    ]

    assert in_transactions(batches) == {0: Moved(1, 7, 70), 4: Moved(5, 7, 70), 14: Moved(15, 8, 90), 8: Moved(9, 9, None)}


def test_a_position_whose_marker_was_not_seen_is_left_out():
    """Others of the same group stay, also those that are outside of transactions."""
    commits = [Commit(0, 8, 5, 99), Commit(0, 9, 6, 99), Commit(0, 10, 7, 100)]

    assert list(with_producers(commits, {8: Moved(9, 9, None)}, 0)) == [Reached(0, 7, 100, -1)]


def test_what_was_removed_is_no_position():
    """And without any transaction all are outside of one."""
    commits = [Commit(0, 1, 5, 99), Commit(0, 2, None, -1), Commit(0, 3, 6, 100)]

    assert list(with_producers(commits, {}, 0)) == [Reached(0, 5, 99, -1), Reached(0, 6, 100, -1)]
