from dataclasses import replace
from unittest.mock import ANY

from syrupy.assertion import SnapshotAssertion

from tests.planted.log import BEGAN_MS, Judge, Log, clean
from verifiers.base import Example, Finding, Verdict

NONE = {"truncated": 0, "vanished": 0, "changed": 0, "appeared": 0}


def read_again(log: Log, seen: Log) -> Log:
    """The second read sees another log."""
    return replace(log, again_read=seen.observed)


def test_the_end_was_cut_off(judge: Judge, snapshot: SnapshotAssertion) -> None:
    """The last two of a partition, with a marker between them and the rest or not."""
    examples = tuple(Example("truncated", 1, 107 + place, id_, BEGAN_MS + id_, ANY) for place, id_ in enumerate([19, 22]))

    finding = judge("stability", read_again(clean(), clean().without(19, 22)))

    assert finding == Finding("stability", "sink", Verdict.INVALID, 2, 24, NONE | {"truncated": 2}, examples)
    assert [one.words for one in finding.examples] == snapshot


def test_a_whole_partition_is_gone(judge: Judge) -> None:
    """It ends before its first record; other partitions have greater offsets, which do not matter."""
    finding = judge("stability", read_again(clean(), clean().without(*range(0, 24, 3))))

    assert finding.counts == NONE | {"truncated": 8}


def test_a_record_vanished(judge: Judge, snapshot: SnapshotAssertion) -> None:
    """Later ones are still there, so the end was not cut off."""
    finding = judge("stability", read_again(clean(), clean().without(0)))

    assert finding.counts == NONE | {"vanished": 1}
    assert finding.examples == (Example("vanished", 0, 0, 0, BEGAN_MS, ANY),)
    assert finding.examples[0].words == snapshot


def test_an_offset_given_twice(judge: Judge, snapshot: SnapshotAssertion) -> None:
    """Another key, another value, another time: each is another record."""
    other = clean().changed(10, value=None).changed(9, key="10").changed(11, timestamp_ms=BEGAN_MS)

    finding = judge("stability", read_again(clean(), other))

    assert finding.counts == NONE | {"changed": 3}
    assert [one.id for one in finding.examples] == [9, 10, 11]
    assert [one.words for one in finding.examples] == snapshot


def test_the_first_read_left_one_out(judge: Judge, snapshot: SnapshotAssertion) -> None:
    """A record that appears between others was there all the time, or an offset was given late: both are wrong."""
    finding = judge("stability", read_again(clean().without(23), clean()))

    assert (finding.checked, finding.counts) == (24, NONE | {"appeared": 1})
    assert finding.examples == (Example("appeared", 2, 208, 23, BEGAN_MS + 23, ANY),)
    assert finding.examples[0].words == snapshot


def test_no_key_and_no_value_are_the_same_twice(judge: Judge) -> None:
    """Null is equal to null here."""
    log = clean().changed(9, key=None, value=None)

    assert judge("stability", log) == Finding("stability", "sink", Verdict.VALID, 0, 24, NONE)


def test_more_than_can_be_shown(judge: Judge) -> None:
    """All are counted, the first 32 by place are shown."""
    finding = judge("stability", read_again(clean(120), clean(120).without(*range(120))))

    places = [(one.partition, one.offset) for one in finding.examples]
    assert (finding.count, len(places), places) == (120, 32, sorted(places))
