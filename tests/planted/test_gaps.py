from dataclasses import replace
from unittest.mock import ANY

import pytest
from pyspark.sql import SparkSession

from tests.planted.log import Judge, clean, ledger
from verifiers.base import NO_PLACE, Example, Finding, Verdict
from verifiers.details import Detail, Partition, Place
from verifiers.gaps import Gaps

NONE = {"lost": 0, "pending": 0, "recovered": 0, "absent": 0}


def test_a_record_that_will_never_come(judge: Judge) -> None:
    """The pipeline's position is past its input."""
    example = Example("lost", 0, None, 9, None, "its input is at source partition 0 offset 3")

    finding = judge("gaps", clean().without(9))

    assert finding == Finding("gaps", "sink", Verdict.INVALID, 1, 24, NONE | {"lost": 1}, (example,))


def test_first_last_and_beside_a_marker(judge: Judge) -> None:
    """First and last of the log, and both neighbours of a marker, which make no hole in the numbers but in the offsets."""
    finding = judge("gaps", clean().without(0, 9, 23, 10, 13))

    assert finding.counts == NONE | {"lost": 5}
    ranges = (
        "source partition 0 has 2 between offsets 0 and 3, source partition 1 has 2 at offsets 3 to 4, "
        "source partition 2 has 1 at offset 7"
    )
    assert finding.note == f"lost: {ranges}"
    assert [(one.partition, one.id) for one in finding.examples] == [(0, 0), (0, 9), (1, 10), (1, 13), (2, 23)]


def test_more_than_can_be_shown(judge: Judge) -> None:
    """All are counted, the first 32 by input are shown."""
    finding = judge("gaps", clean(120).without(*range(3, 120)))

    assert (finding.count, finding.checked) == (117, 120)
    assert [one.id for one in finding.examples] == list(range(3, 99, 3))


def test_an_empty_log(judge: Judge) -> None:
    """Nothing was observed, but something was demanded: all of it is lost, and the run is not vacuous."""
    finding = judge("gaps", clean().without(*range(24)))

    assert (finding.verdict, finding.count, finding.checked) == (Verdict.INVALID, 24, 24)
    assert finding.note == f"lost: {', '.join(f'source partition {home} has 8 at offsets 0 to 7' for home in range(3))}"


@pytest.mark.parametrize(
    ("reached", "passed_ms"),
    [
        ([(0, 3, 100, -1), (0, 5, 200, -1), (0, 8, 300, -1), (1, 9, 50, -1)], 200),
        ([(0, 8, 300, 7), (0, 2, 400, -1), (0, 8, 500, 7)], 300),
        ([(1, 9, 50, -1)], None),
        (None, None),
    ],
)
def test_when_a_position_past_its_input_was_committed(
    spark: SparkSession, reached: list[tuple[int, int, int, int]] | None, passed_ms: int | None
) -> None:
    """The first one past offset 3, of its own partition; not known where nobody saw the positions."""
    log = replace(clean().without(9), reached=None if reached is None else tuple(reached))

    finding = Gaps().check(log.evidence(spark, () if reached is None else ("reached",)))

    assert (finding.count, finding.note) == (1, "")
    assert finding.examples == (Example("lost", 0, None, 9, passed_ms, ANY),)
    (detail,) = (one.detail for one in finding.examples)
    assert isinstance(detail, Detail)
    assert list(detail.of_kind(Place)) == [Place(3, Partition(0, "source"))]


@pytest.mark.parametrize(("position", "verdict", "kind"), [(3, Verdict.UNKNOWN, "pending"), (4, Verdict.INVALID, "lost")])
def test_the_committed_position_decides(judge: Judge, position: int, verdict: Verdict, kind: str) -> None:
    """A position is the next offset to be read: at 3, the input at offset 3 was not taken yet; at 4 it was."""
    finding = judge("gaps", clean().without(9).with_positions({0: position, 1: 8, 2: 8}))

    assert (finding.verdict, finding.counts) == (verdict, NONE | {kind: 1})
    assert [(one.anomaly, one.id) for one in finding.examples] == [(kind, 9)]
    assert ("1" in str(finding.note)) is (kind == "pending")


@pytest.mark.parametrize("positions", [{}, {1: 8, 2: 8}])
def test_a_position_never_committed(judge: Judge, positions: dict[int, int]) -> None:
    """A pipeline that never committed a position may still read from the begin; other partitions' positions do not matter."""
    finding = judge("gaps", clean().without(0).with_positions(positions))

    assert (finding.verdict, finding.counts) == (Verdict.UNKNOWN, NONE | {"pending": 1})


@pytest.mark.parametrize(("position", "verdict", "kind"), [(3, Verdict.VALID, "pending"), (4, Verdict.INVALID, "lost")])
def test_what_a_pipeline_that_had_to_end_left_undone(judge: Judge, position: int, verdict: Verdict, kind: str) -> None:
    """It is counted and not missed. What the pipeline is past is lost all the same."""
    finding = judge("gaps", clean().without(9).with_positions({0: position, 1: 8, 2: 8}).that_ended())

    assert (finding.verdict, finding.counts, finding.note) == (verdict, NONE | {kind: 1}, "")


@pytest.mark.parametrize("pending", [(10, 11), (10,)])
def test_lost_and_pending_together(judge: Judge, pending: tuple[int, ...]) -> None:
    """Lost records decide the verdict; pending ones are still reported, even in equal number."""
    finding = judge("gaps", clean().without(9, *pending).with_positions({0: 8, 1: 2, 2: 2}))

    counts = NONE | {"lost": 1, "pending": len(pending)}
    assert (finding.verdict, finding.count, finding.checked, finding.counts) == (Verdict.INVALID, 1, 24, counts)
    assert [(one.anomaly, one.id) for one in finding.examples] == [("lost", 9), *(("pending", id_) for id_ in pending)]
    assert str(len(pending)) in str(finding.note)


def test_an_acknowledged_write_that_is_not_in_the_source(judge: Judge) -> None:
    """The ledger knows no position: an acknowledgement is a promise at once."""
    finding = judge("gaps", ledger().without(9))

    assert (finding.verdict, finding.counts) == (Verdict.INVALID, NONE | {"lost": 1})
    assert finding.examples == (Example("lost", 0, None, 9, None, "its write was acknowledged"),)


def test_writes_of_unknown_outcome(judge: Judge) -> None:
    """They may be there or not; both is told, neither is wrong, and neither was compared."""
    log = ledger().demanding(3, 4, 5, required=False).without(3, 4)

    assert judge("gaps", log) == Finding("gaps", "sink", Verdict.VALID, 0, 21, NONE | {"recovered": 1, "absent": 2})


def test_a_loader_that_learned_nothing(judge: Judge) -> None:
    """No write was acknowledged, so nothing had to be there: that proves nothing."""
    finding = judge("gaps", ledger().demanding(*range(24), required=False))

    assert (finding.verdict, finding.checked, finding.note) == (Verdict.UNKNOWN, 0, "nothing was compared")


def test_a_record_in_the_wrong_place_is_no_gap(judge: Judge) -> None:
    """In another partition, with another value, twice: it is there."""
    log = clean().changed(9, partition=1, offset=110, value="x").again(12, 10)

    assert judge("gaps", log) == Finding("gaps", "sink", Verdict.VALID, 0, 24, NONE)


def test_a_key_that_is_no_id_fills_no_gap(judge: Judge) -> None:
    """``09`` and ``9`` with a line break are not the record 9."""
    finding = judge("gaps", clean().changed(9, key="09").changed(12, key="12\n"))

    assert [one.id for one in finding.examples] == [9, 12]


def test_what_an_open_transaction_may_hide_is_not_lost(judge: Judge) -> None:
    """It may have been written above the last stable offset; of another partition it is lost."""
    finding = judge("gaps", clean().without(3, 4).with_open_transaction(0))

    assert (finding.verdict, finding.count, finding.counts["pending"]) == (Verdict.INVALID, 1, 1)
    assert [(one.anomaly, one.id) for one in finding.examples] == [("pending", 3), ("lost", 4)]
    assert judge("gaps", clean().without(3).with_open_transaction(0)).verdict is Verdict.UNKNOWN


def test_a_record_that_no_one_input_demands(judge: Judge) -> None:
    """The source as a whole demands it, so no partition is named."""
    example = Example("lost", NO_PLACE, None, 9, None, ANY)

    finding = judge("gaps", clean().without(9).demanding(9, position=NO_PLACE))

    assert finding == Finding("gaps", "sink", Verdict.INVALID, 1, 24, NONE | {"lost": 1}, (example,))
