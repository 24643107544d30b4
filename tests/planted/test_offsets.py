from unittest.mock import ANY

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.planted.log import BEGAN_MS, Judge, clean, ledger
from verifiers.base import NO_PLACE, Example, Finding, Verdict

NONE = {"behind": 0, "ahead": 0}


def test_output_without_its_position(judge: Judge) -> None:
    """The position is 7, the row of input 7 is there: a restart writes it again."""
    detail = "its input is at source partition 0 offset 7, the committed position is 7"
    example = Example("ahead", 0, 8, 21, BEGAN_MS + 21, detail)

    finding = judge("offsets", clean().with_positions({0: 7, 1: 8, 2: 8}))

    assert finding == Finding("offsets", "sink", Verdict.INVALID, 1, 24, NONE | {"ahead": 1}, (example,))


def test_a_position_without_its_output(judge: Judge) -> None:
    """The position is past the input, and what it demands is not there."""
    detail = "its input is at source partition 1 offset 3, the committed position is 8"
    example = Example("behind", 1, None, 10, None, detail)

    finding = judge("offsets", clean().without(10))

    assert finding == Finding("offsets", "sink", Verdict.INVALID, 1, 24, NONE | {"behind": 1}, (example,))


@pytest.mark.parametrize(
    ("position", "there", "kind"), [(3, True, "ahead"), (4, True, ""), (3, False, ""), (4, False, "behind")]
)
def test_the_position_is_the_next_to_be_read(judge: Judge, position: int, there: bool, kind: str) -> None:  # noqa: FBT001
    """Id 9 is input 3: at 3 it was not taken, at 4 it was; the ids after it are not there either way."""
    log = clean().without(*(() if there else (9,)), 12, 15, 18, 21).with_positions({0: position, 1: 8, 2: 8})

    assert judge("offsets", log).counts == NONE | ({kind: 1} if kind else {})


def test_first_and_last_and_both_kinds(judge: Judge) -> None:
    """The first input of one partition behind, the last of another ahead; one without a position stands at its begin."""
    finding = judge("offsets", clean().without(0).with_positions({0: 8, 1: 7}))

    assert finding.counts == {"behind": 1, "ahead": 1 + 8}
    assert [(one.anomaly, one.id) for one in finding.examples[:3]] == [("behind", 0), ("ahead", 22), ("ahead", 2)]
    assert "the committed position is 0" in finding.examples[2].words


def test_a_whole_transaction_without_its_position(judge: Judge) -> None:
    """A commit that came late: four rows in, the position is where it was."""
    finding = judge("offsets", clean().with_positions({0: 8, 1: 8, 2: 4}))

    assert [(one.id, one.offset) for one in finding.examples] == [(14, 205), (17, 206), (20, 207), (23, 208)]


def test_a_copy_elsewhere_is_there(judge: Judge) -> None:
    """Misrouted, with another value, twice: it is output; the first copy is shown."""
    log = clean().changed(9, partition=1, offset=110, value="x").again(21, 9).with_positions({0: 3, 1: 8, 2: 8})

    finding = judge("offsets", log)

    assert [(one.id, one.partition, one.offset) for one in finding.examples] == [
        (9, 1, 110),
        (12, 0, 5),
        (15, 0, 6),
        (18, 0, 7),
        (21, 0, 8),
    ]


def test_more_than_can_be_shown(judge: Judge) -> None:
    """All are counted, the first 32 by input are shown."""
    finding = judge("offsets", clean(120).with_positions({0: 0, 1: 0, 2: 0}))

    assert (finding.count, len(finding.examples), finding.examples[31].id) == (120, 32, 93)


def test_what_need_not_be_there_is_not_behind(judge: Judge) -> None:
    """A row that is only allowed may be absent past the position, but not be there before it."""
    log = clean().demanding(9, 21, required=False).without(9).with_positions({0: 7, 1: 8, 2: 8})

    assert judge("offsets", log).counts == NONE | {"ahead": 1}


def test_without_any_position_nothing_can_be_said(judge: Judge, snapshot: SnapshotAssertion) -> None:
    """A pipeline whose positions are not known is not one that stands at its begin."""
    finding = judge("offsets", clean().with_positions({}))

    assert finding == Finding("offsets", "sink", Verdict.UNKNOWN, 0, 0, note=ANY)
    assert finding.note == snapshot


def test_rows_without_an_input_are_not_compared(judge: Judge) -> None:
    """The ledger demands rows that no position speaks of."""
    finding = judge("offsets", ledger().with_positions({0: 1}))

    assert (finding.verdict, finding.note) == (Verdict.UNKNOWN, "nothing was compared")


def test_what_an_open_transaction_may_hide_is_not_behind(judge: Judge) -> None:
    """It may have been written above the last stable offset; of another partition it was not."""
    finding = judge("offsets", clean().without(3, 4).with_open_transaction(0))

    assert (finding.verdict, finding.counts) == (Verdict.INVALID, {"behind": 1, "ahead": 0})
    assert [(one.anomaly, one.id) for one in finding.examples] == [("behind", 4)]
    assert judge("offsets", clean().without(3).with_open_transaction(0)).verdict is Verdict.UNKNOWN


def test_a_record_that_no_one_input_demands(judge: Judge, snapshot: SnapshotAssertion) -> None:
    """The source as a whole demands it, so no partition is named."""
    example = Example("behind", NO_PLACE, None, 9, None, ANY)

    finding = judge("offsets", clean().without(9).demanding(9, position=NO_PLACE))

    assert finding == Finding("offsets", "sink", Verdict.INVALID, 1, 24, NONE | {"behind": 1}, (example,))
    assert finding.examples[0].words == snapshot
