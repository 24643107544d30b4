"""Committed positions that go back."""

from dataclasses import replace

import pytest

from tests.planted.log import BEGAN_MS, Commit, Judge, clean
from verifiers.base import Example, Verdict


def commits(*positions, partition=0):
    """These positions of one partition, one after the other."""
    return tuple(Commit(partition, 10 * seq, position, BEGAN_MS + seq) for seq, position in enumerate(positions))


@pytest.mark.parametrize(
    ("positions", "back", "removed"),
    [
        pytest.param((1, 3, 9), 0, 0, id="forwards"),
        pytest.param((3, 3, 9, 9), 0, 0, id="the same again"),
        pytest.param((3, 9, 8), 1, 0, id="by one"),
        pytest.param((9, 0), 1, 0, id="to the begin"),
        pytest.param((9, 2, 3, 9, 10), 1, 0, id="once, and on from there"),
        pytest.param((9, 2, 1, 5, 4), 3, 0, id="three times"),
        pytest.param((9, None, 2), 1, 1, id="after it was deleted"),
        pytest.param((9, None, 9), 0, 1, id="deleted, and put back"),
        pytest.param((9, None, None, 10), 0, 2, id="deleted twice"),
        pytest.param((None, 4), 0, 1, id="deleted before anything was committed"),
    ],
)
def test_positions_that_go_back(judge: Judge, positions, back, removed):
    """Each is compared with the one before it, whatever the order of the rows."""
    finding = judge("commits", replace(clean(), committed=commits(*positions)))

    assert finding.verdict is (Verdict.INVALID if back else Verdict.VALID)
    assert (finding.counts, finding.count) == ({"set back": back, "removed": removed}, back)
    assert finding.checked == len([one for one in positions if one is not None])


def test_each_partition_has_its_own_position(judge: Judge):
    """Commits in another partition do not count."""
    finding = judge("commits", replace(clean(), committed=(*commits(5, 9), *commits(1, 2, 3, partition=1))))

    assert (finding.verdict, finding.checked) == (Verdict.VALID, 5)


def test_the_example_names_the_moment(judge: Judge):
    """By partition and time: what is read again begins at the offset."""
    finding = judge("commits", replace(clean(), committed=(*commits(7, 9, 4, partition=2), *commits(8, 6))))

    assert finding.examples == (
        Example("set back", 0, 6, None, BEGAN_MS + 1, "the group committed position 6 after 8"),
        Example("set back", 2, 4, None, BEGAN_MS + 2, "the group committed position 4 after 9"),
    )
