"""Committed positions, each with the producer whose transaction moved it."""

import pytest

from chaos.cluster.committed import Commit, Reached, with_producers

TRANSACTIONS = {10: (12, 7), 20: (20, 8)}


@pytest.mark.parametrize(("seq", "producer"), [(9, -1), (10, 7), (11, 7), (12, 7), (13, -1), (19, -1), (20, 8), (21, -1)])
def test_a_position_is_that_of_the_batch_that_holds_it(seq, producer):
    """Between the batches of transactions are positions of other clients."""
    assert list(with_producers([Commit(1, seq, 5, 99)], TRANSACTIONS, 3)) == [Reached(4, 5, 99, producer)]


def test_what_was_removed_is_no_position():
    """And without any transaction all are outside of one."""
    commits = [Commit(0, 1, 5, 99), Commit(0, 2, None, -1), Commit(0, 3, 6, 100)]

    assert list(with_producers(commits, {}, 0)) == [Reached(0, 5, 99, -1), Reached(0, 6, 100, -1)]
