from unittest.mock import ANY

from syrupy.assertion import SnapshotAssertion

from tests.planted.log import BEGAN_MS, Judge, clean
from verifiers.base import Example, Finding, Verdict

NONE = {"not written": 0, "elsewhere": 0, "refused": 0, "recovered": 0, "absent": 0, "unplaced": 0}


def test_acknowledged_and_nowhere(judge: Judge) -> None:
    """The offset that was acknowledged is a hole."""
    log = clean().told(9, "ok", 0, 3).without(9)

    detail = "acknowledged at partition 0 offset 3, which holds no record"
    example = Example("not written", 0, None, 9, None, detail)
    assert judge("ledger", log) == Finding("ledger", "sink", Verdict.INVALID, 1, 24, NONE | {"not written": 1}, (example,))


def test_the_offset_was_given_to_another_record(judge: Judge) -> None:
    """A leader that did not have it gave its offset to id 24."""
    log = clean().told(9, "ok", 0, 3).changed(9, key="24")

    finding = judge("ledger", log)

    assert (finding.counts, finding.examples[0].words) == (
        NONE | {"not written": 1},
        "acknowledged at partition 0 offset 3, which holds key '24'",
    )


def test_acknowledged_elsewhere(judge: Judge) -> None:
    """It is there, but not where the acknowledgement says: the place shown is where it is."""
    log = clean().told(9, "ok", 0, 5)

    example = Example("elsewhere", 0, 3, 9, BEGAN_MS + 9, "acknowledged at partition 0 offset 5, which holds key '12'")
    assert judge("ledger", log) == Finding("ledger", "sink", Verdict.INVALID, 1, 24, NONE | {"elsewhere": 1}, (example,))


def test_the_same_offset_in_another_partition_is_elsewhere(judge: Judge) -> None:
    """Offsets of two partitions are not the same place."""
    assert judge("ledger", clean().told(0, "ok", 1, 0)).counts == NONE | {"elsewhere": 1}


def test_one_copy_at_its_place_is_enough(judge: Judge) -> None:
    """A retry wrote it again before or after: that is a duplicate, and the acknowledgement is true."""
    log = clean().again(9, 10).told(9, "ok", 0, 10).again(22, 99).told(22, "ok", 1, 108)

    assert judge("ledger", log) == Finding("ledger", "sink", Verdict.VALID, 0, 24, NONE)


def test_refused_and_there(judge: Judge, snapshot: SnapshotAssertion) -> None:
    """A refusal for good is a promise too."""
    log = clean().told(0, "fail", 0, None).told(23, "fail", 2, None).without(23)

    finding = judge("ledger", log)

    example = Example("refused", 0, 0, 0, BEGAN_MS, ANY)
    assert finding == Finding("ledger", "sink", Verdict.INVALID, 1, 24, NONE | {"refused": 1}, (example,))
    assert finding.examples[0].words == snapshot


def test_one_acknowledgement_with_an_offset_is_enough(judge: Judge) -> None:
    """That of id 0 says none; that of 1 is right, and that of 2 is not."""
    log = clean(3).told(0, "ok", 0, None)

    found = [judge("ledger", one) for one in (log, log.told(2, "ok", 2, 299))]

    assert [(one.counts, one.note) for one in found] == [
        (NONE | {"unplaced": 1}, ""),
        (NONE | {"unplaced": 1, "elsewhere": 1}, ""),
    ]


def test_examples_of_nowhere_are_in_the_order_of_their_ids(judge: Judge) -> None:
    """The writer was told no offset."""
    log = clean()
    for id_ in (21, 3, 15, 9, 12):
        log = log.told(id_, "ok", 0, None).without(id_)

    assert [one.id for one in judge("ledger", log).examples] == [3, 9, 12, 15, 21]


def test_unknown_outcomes_are_resolved(judge: Judge) -> None:
    """Both ways are allowed and told, and neither was compared."""
    log = clean().told(3, "unknown", None, None).told(4, "unknown", None, None).told(5, "unknown", None, None).without(3)

    assert judge("ledger", log) == Finding("ledger", "sink", Verdict.VALID, 0, 21, NONE | {"recovered": 2, "absent": 1})


def test_an_acknowledgement_without_an_offset(judge: Judge, snapshot: SnapshotAssertion) -> None:
    """The broker had it already: it must be there, anywhere."""
    log = clean().told(3, "ok", 0, None).told(6, "ok", None, None).without(6)

    finding = judge("ledger", log)

    assert (finding.verdict, finding.counts) == (Verdict.INVALID, NONE | {"not written": 1, "unplaced": 1})
    assert finding.examples == (Example("not written", -1, None, 6, None, ANY),)
    assert finding.examples[0].words == snapshot


def test_no_acknowledgement_says_an_offset(judge: Judge, snapshot: SnapshotAssertion) -> None:
    """Then nothing was compared by its place: that is not enough, whatever was refused."""
    log = clean(3).told(0, "ok", 0, None).told(1, "ok", 1, None).told(2, "fail", 2, None).without(2)

    finding = judge("ledger", log)

    assert finding.verdict is Verdict.UNKNOWN
    assert finding.note == snapshot


def test_one_offset_is_enough_to_know_them(judge: Judge) -> None:
    """Records found elsewhere were compared by their place."""
    log = clean(2).told(0, "ok", 0, None).told(1, "ok", 1, 77)

    finding = judge("ledger", log)

    assert (finding.verdict, finding.note) == (Verdict.INVALID, "")


def test_first_last_and_beside_a_marker(judge: Judge) -> None:
    """Every line is looked up; what the ledger does not list is not its business."""
    log = clean().told(0, "ok", 0, 9).told(23, "ok", 2, 209).told(10, "ok", 1, 104).told(13, "ok", 1, 104)

    finding = judge("ledger", replace_lines(log, without=5))

    assert (finding.checked, finding.counts) == (23, NONE | {"elsewhere": 4})
    assert [one.id for one in finding.examples] == [0, 10, 13, 23]


def test_more_than_can_be_shown(judge: Judge) -> None:
    """All are counted, the first 32 by the acknowledged place are shown."""
    log = clean(120)
    for id_ in range(120):
        log = log.told(id_, "ok", id_ % 3, 1000 + id_)

    finding = judge("ledger", log)

    assert (finding.count, [one.id for one in finding.examples]) == (120, list(range(0, 96, 3)))


def replace_lines(log, without):
    """The ledger has no line for this id."""
    return type(log)(**{**vars(log), "lines": tuple(line for line in log.all_lines() if line.id != without)})
