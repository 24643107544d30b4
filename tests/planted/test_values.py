import pytest

from tests.planted.log import BEGAN_MS, Judge, Record, clean, ledger
from verifiers.base import Example, Finding, Verdict

NONE = {"wrong value": 0, "phantom": 0, "misrouted": 0, "undecodable": 0}


def test_a_wrong_value(judge: Judge) -> None:
    """Its id is expected, with another value."""
    example = Example("wrong value", 0, 3, 9, BEGAN_MS + 9, "value 82, expected 81")

    finding = judge("values", clean().changed(9, value="82"))

    assert finding == Finding("values", "sink", Verdict.INVALID, 1, 24, NONE | {"wrong value": 1}, (example,))


def test_no_value(judge: Judge) -> None:
    """A tombstone is a wrong value too, not one that cannot be compared."""
    finding = judge("values", clean().changed(9, value=None))

    assert finding.counts == NONE | {"wrong value": 1}


def test_a_phantom(judge: Judge) -> None:
    """Nobody asked for id 24: the first that is not expected."""
    finding = judge("values", clean().plus(Record(0, 9, BEGAN_MS, "24", "576")))

    assert (finding.checked, finding.counts) == (25, NONE | {"phantom": 1})
    assert finding.examples == (Example("phantom", 0, 9, 24, BEGAN_MS, "value 576; nothing demands it"),)


def test_a_misrouted_record(judge: Judge) -> None:
    """It is right and in another partition."""
    finding = judge("values", clean().changed(9, partition=1, offset=109))

    assert finding.counts == NONE | {"misrouted": 1}
    assert finding.examples == (Example("misrouted", 1, 109, 9, BEGAN_MS + 9, "expected in partition 0"),)


def test_a_record_has_one_kind(judge: Judge) -> None:
    """Wrong and misrouted at once is a wrong value: counts must add up to records."""
    finding = judge("values", clean().changed(9, partition=1, offset=109, value="x"))

    assert (finding.count, finding.counts) == (1, NONE | {"wrong value": 1})


@pytest.mark.parametrize("last", ["9223372036854775808", "1e3"])
def test_keys_that_are_no_ids(judge: Judge, last: str) -> None:
    """Only a decimal as the loader writes it is an id; a cast alone would take most of these for one."""
    keys = [None, "", " 3", "3 ", "3\n", "+3", "-3", "03", "00", "3.0", "3x", last]
    records = (Record(0, 20 + place, BEGAN_MS, key, "9") for place, key in enumerate(keys))

    finding = judge("values", clean().plus(*records))

    assert finding.counts == NONE | {"undecodable": 12}
    assert {one.id for one in finding.examples} == {None}
    assert finding.examples[0].words == "key None, value '9'"
    assert finding.examples[4].words == "key '3\\n', value '9'"


def test_the_largest_id(judge: Judge) -> None:
    """An id may be as large as a long."""
    finding = judge("values", clean().plus(Record(0, 20, BEGAN_MS, "9223372036854775807", "9")))

    assert [(one.anomaly, one.id) for one in finding.examples] == [("phantom", 2**63 - 1)]


def test_first_last_and_beside_a_marker(judge: Judge) -> None:
    """Every record is compared, wherever it is."""
    finding = judge("values", clean().changed(23, value="x").changed(0, value="x").changed(9, value="x").changed(12, value="x"))

    assert [(one.partition, one.offset) for one in finding.examples] == [(0, 0), (0, 3), (0, 5), (2, 208)]


def test_more_than_can_be_shown(judge: Judge) -> None:
    """All are counted, the first 32 by place are shown."""
    log = clean(120)
    wrong = (one._replace(value="x") for one in log.observed)

    finding = judge("values", log.without(*range(120)).plus(*wrong))

    places = [(one.partition, one.offset) for one in finding.examples]
    assert (finding.count, len(places), places) == (120, 32, sorted(places))


def test_each_copy_is_compared(judge: Judge) -> None:
    """Two records with one id can differ: one right, one wrong."""
    record = clean().record(9)._replace(offset=10, value="x")

    finding = judge("values", clean().plus(record))

    assert (finding.checked, [(one.offset, one.anomaly) for one in finding.examples]) == (25, [(10, "wrong value")])


def test_a_write_of_unknown_outcome_is_no_phantom(judge: Judge) -> None:
    """The writer did ask for it, so it may be there, with the right value."""
    finding = judge("values", ledger().demanding(3, 9, required=False).changed(9, value="x"))

    assert (finding.counts, finding.examples[0].id) == (NONE | {"wrong value": 1}, 9)
