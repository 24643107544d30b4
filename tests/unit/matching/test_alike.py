"""At which places two sequences go on alike."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.matching.fast import alike

NUMBERS = st.lists(st.integers(0, 5), max_size=40)


def found(ours, theirs):
    """The pairs, as lists."""
    here, there = alike.pairs(*(np.array(side, np.uint64) for side in (ours, theirs)))
    return here.tolist(), there.tolist()


@given(NUMBERS, NUMBERS)
def test_pairs_are_alike_and_rise(ours, theirs):
    """Whatever recurs."""
    here, there = found(ours, theirs)

    assert [ours[place] for place in here] == [theirs[place] for place in there]
    assert all(one == sorted(set(one)) for one in (here, there))


@pytest.mark.parametrize(
    ("theirs", "pairs"),
    [
        pytest.param(range(9), 9, id="the same"),
        pytest.param([0, 1, 2, 4, 5, 6, 7, 8], 8, id="one is lost"),
        pytest.param([0, 1, 2, 2, 3, 4, 5, 6, 7, 8], 9, id="one is there again"),
        pytest.param([0, 1, 2, 9, 4, 5, 6, 7, 8], 8, id="another one"),
        pytest.param([8, 0, 1, 2, 3, 4, 5, 6, 7], 8, id="the last comes first"),
        pytest.param([*range(4, 9), *range(4)], 5, id="in two parts, the wrong way round"),
        pytest.param([], 0, id="nothing"),
        pytest.param([9, 9], 0, id="nothing in common"),
    ],
)
def test_what_is_not_paired(theirs, pairs):
    """As little as possible."""
    here, _ = found(range(9), theirs)

    assert len(here) == pairs


def test_numbers_that_recur_are_paired_beside_one_that_is_lost():
    """A log that repeats ten chunks for ever: only the one that is lost has no like."""
    ours = [number % 10 for number in range(200)]

    here, _ = found(ours, ours[:73] + ours[74:])

    assert len(here) == 199
