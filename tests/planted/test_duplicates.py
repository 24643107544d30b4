from tests.planted.log import BEGAN_MS, Judge, clean
from verifiers.base import Example, Finding, Verdict


def test_a_record_written_twice(judge: Judge) -> None:
    """The second in the log is the one too many, and it says where the first is."""
    log = clean().again(9, 10)

    example = Example("duplicate", 0, 10, 9, BEGAN_MS + 9, "also at offset 3")
    assert judge("duplicates", log) == Finding("duplicates", "sink", Verdict.INVALID, 1, 25, {"duplicate": 1}, (example,))


def test_the_first_and_the_last_record_of_a_partition(judge: Judge) -> None:
    """The ends of a log are where a check by ranges would miss one; offset 109 is a marker's."""
    finding = judge("duplicates", clean().again(0, 10).again(22, 109))

    assert (finding.count, [(one.id, one.offset, one.detail) for one in finding.examples]) == (
        2,
        [(0, 10, "also at offset 0"), (22, 109, "also at offset 108")],
    )


def test_three_copies_are_two_too_many(judge: Judge) -> None:
    """Each surplus record is counted and names both others."""
    finding = judge("duplicates", clean().again(9, 10, 12))

    assert (finding.count, finding.checked) == (2, 26)
    assert [one.detail for one in finding.examples] == ["also at offset 3, offset 12", "also at offset 3, offset 10"]


def test_a_copy_in_another_partition(judge: Judge) -> None:
    """It is a duplicate wherever it is, and the other partition is named."""
    finding = judge("duplicates", clean().again(9, 110, partition=1))

    assert [(one.partition, one.offset, one.detail) for one in finding.examples] == [(1, 110, "also at partition 0 offset 3")]


def test_the_lower_partition_comes_first(judge: Judge) -> None:
    """Offsets of two partitions cannot be compared: of 0 at 200 and 1 at 100, the one in partition 1 is the surplus."""
    finding = judge("duplicates", clean().again(1, 200, partition=0))

    assert [(one.partition, one.offset, one.detail) for one in finding.examples] == [(1, 100, "also at partition 0 offset 200")]


def test_a_record_there_very_often(judge: Judge) -> None:
    """The detail stays one short line however often the record is there."""
    finding = judge("duplicates", clean().again(9, *range(10, 30)))

    assert finding.count == 20
    assert finding.examples[0].detail == "also at offset 3, offset 11, offset 12, offset 13, offset 14 and 15 more"
    assert finding.examples[-1].detail == "also at offset 25, offset 26, offset 27, offset 28 and 16 more"


def test_a_whole_log_written_again(judge: Judge) -> None:
    """All are counted; the examples are the first 32 by place."""
    log = clean(60)
    again = (record._replace(offset=record.offset + 40) for record in log.observed)

    finding = judge("duplicates", log.plus(*again))

    assert (finding.count, finding.checked, len(finding.examples)) == (60, 120, 32)
    places = [(one.partition, one.offset) for one in finding.examples]
    assert (places[0], places[20], places[31]) == ((0, 40), (1, 140), (1, 153))
    assert places == sorted(places)


def test_the_same_value_twice_is_no_duplicate(judge: Judge) -> None:
    """The square of 3 and of -3 is the same: only a key identifies."""
    finding = judge("duplicates", clean().changed(3, value="36"))

    assert finding == Finding("duplicates", "sink", Verdict.VALID, 0, 24, {"duplicate": 0})


def test_keys_that_are_no_ids_are_nobodys_copies(judge: Judge) -> None:
    """Two records without a key have no identity that could be there twice."""
    log = clean().changed(3, key=None).changed(6, key=None).changed(9, key="x").changed(12, key="x")

    assert judge("duplicates", log) == Finding("duplicates", "sink", Verdict.VALID, 0, 20, {"duplicate": 0})
