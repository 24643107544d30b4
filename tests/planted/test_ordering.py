from dataclasses import replace
from unittest.mock import ANY

import pytest
from pyspark.sql import SparkSession

from tests.planted.log import BEGAN_MS, Judge, Log, Record, clean
from verifiers.base import Example, Finding, Verdict
from verifiers.ordering import Ordering, not_asked


def test_two_neighbours_swapped(judge: Judge) -> None:
    """The lower one is the inversion: it comes after one that should follow it."""
    example = Example("inversion", 0, 2, 3, BEGAN_MS + 3, "1 too late: id 6 precedes it in this partition")

    finding = judge("ordering", clean().swapped(3, 6))

    note = "inversions: partition 0 has 1, at most 1 too late"
    assert finding == Finding("ordering", "sink", Verdict.INVALID, 1, 24, {"inversion": 1}, (example,), note)


def test_what_is_doubtful_is_told_first(judge: Judge) -> None:
    """And then what was found."""
    finding = judge("ordering", clean().swapped(3, 6).with_open_transaction(2))

    assert finding.note == (
        "an open transaction hides the end of partition 2 (read to offset 209 of 210); "
        "inversions: partition 0 has 1, at most 1 too late"
    )


def test_across_a_marker(judge: Judge) -> None:
    """Two records with a marker between them; partitions are judged apart."""
    finding = judge("ordering", clean().swapped(10, 13))

    assert [(one.partition, one.offset, one.id, one.words[:10]) for one in finding.examples] == [(1, 105, 10, "1 too late")]


def test_the_first_record_last(judge: Judge) -> None:
    """One record is late by all the others."""
    finding = judge("ordering", clean().changed(0, offset=9))

    assert [(one.offset, one.id, one.words) for one in finding.examples] == [
        (9, 0, "7 too late: id 21 precedes it in this partition")
    ]


def test_the_last_record_first(judge: Judge) -> None:
    """One record is early: all others are below it, and none of them is out of place."""
    example = Example("inversion", 1, 99, 22, BEGAN_MS + 22, "7 too early: id 1 follows it in this partition")

    finding = judge("ordering", clean().changed(22, offset=99))

    note = "inversions: partition 1 has 1, at most 7 too early"
    assert finding == Finding("ordering", "sink", Verdict.INVALID, 1, 24, {"inversion": 1}, (example,), note)


def test_early_and_late_in_one_partition(judge: Judge) -> None:
    """Both are told, with how far at most."""
    finding = judge("ordering", clean(48).changed(45, offset=-1).changed(3, offset=99).changed(6, offset=98))

    assert [(one.offset, one.id, one.words) for one in finding.examples] == [
        (-1, 45, "15 too early: id 0 follows it in this partition"),
        (98, 6, "12 too late: id 42 precedes it in this partition"),
        (99, 3, "13 too late: id 42 precedes it in this partition"),
    ]
    assert finding.note == "inversions: partition 0 has 3, at most 13 too late and 15 too early"


@pytest.mark.parametrize("key", ["3000", "24"])
def test_a_phantom_has_no_place(judge: Judge, key: str) -> None:
    """Nothing demands it, so neither it nor what comes after it is out of order; it is no record that was compared."""
    finding = judge("ordering", clean().plus(Record(0, -1, BEGAN_MS, key, "x")))

    assert finding == Finding("ordering", "sink", Verdict.VALID, 0, 24, {"inversion": 0})


def test_phantoms_alone_are_nothing(judge: Judge) -> None:
    """A log without demanded records has no order to compare."""
    finding = judge("ordering", clean().without(*range(24)).plus(Record(0, 1, BEGAN_MS, "99", "x")))

    assert (finding.verdict, finding.checked) == (Verdict.UNKNOWN, 0)


def test_the_largest_displacement_of_each_partition_is_told(judge: Judge) -> None:
    """Which partition, how many, how far: 0 is seven too late in one, two neighbours are swapped in another."""
    finding = judge("ordering", clean().changed(0, offset=9).swapped(5, 8).swapped(17, 20))

    assert (finding.count, finding.note) == (
        3,
        "inversions: partition 0 has 1, at most 7 too late, partition 2 has 2, at most 1 too late",
    )


def test_a_record_repeated_at_once_is_no_inversion(judge: Judge) -> None:
    """5, 5 is a duplicate, and readers still see the numbers rise."""
    assert judge("ordering", clean().again(9, 4).again(21, 9)) == Finding(
        "ordering", "sink", Verdict.VALID, 0, 26, {"inversion": 0}
    )


def test_a_batch_written_again(judge: Judge) -> None:
    """15, 18, 21, 15, 18, 21: the second 15 and 18 come after 21, the second 21 does not."""
    finding = judge("ordering", clean().again(15, 10).again(18, 11).again(21, 12))

    assert [(one.offset, one.id) for one in finding.examples] == [(10, 15), (11, 18)]


def test_more_than_can_be_shown(judge: Judge) -> None:
    """All are counted, the first 32 by place are shown."""
    log = clean(120)
    turned = Log(log.expected, tuple(one._replace(offset=-one.offset) for one in log.observed), log.bounds, log.positions)

    finding = judge("ordering", turned)

    places = [(one.partition, one.offset) for one in finding.examples]
    assert (finding.count, len(places), places) == (117, 32, sorted(places))


def test_source_partitions_are_not_ordered_among_each_other(judge: Judge) -> None:
    """Number 1 of source partition 1 after number 7 of source partition 0: misrouted, but Kafka never promised that order."""
    assert judge("ordering", clean().changed(4, partition=0, offset=9)).verdict is Verdict.VALID


@pytest.mark.parametrize("partitions", [1, 2, 4])
def test_partitions_are_counted_by_the_bounds(judge: Judge, partitions: int) -> None:
    """The highest id before the late one is named rightly for any number of partitions."""
    late, early = 0, partitions
    finding = judge("ordering", clean(24, partitions).swapped(late, early))

    assert [(one.id, one.words) for one in finding.examples] == [(0, f"1 too late: id {early} precedes it in this partition")]


def test_keys_that_are_no_ids_have_no_order(judge: Judge) -> None:
    """They are left to the verifier of values."""
    finding = judge("ordering", clean().changed(21, key="021").changed(3, key=None))

    assert (finding.verdict, finding.checked) == (Verdict.VALID, 22)


@pytest.mark.parametrize(("other", "inversions"), [(6, []), (9, [(3, "3 too late: id 9 precedes it in this partition")])])
def test_ids_are_dealt_out_to_the_partitions_of_the_source(spark: SparkSession, other: int, inversions: list[object]) -> None:
    """The source has two partitions, the log three: ids 3 and 6 are of different ones, so only 3 and 9 have an order."""
    evidence = replace(clean().swapped(3, other).evidence(spark), anywhere=True, source_partitions=2)

    finding = Ordering().check(evidence)

    assert [(one.id, one.words) for one in finding.examples] == inversions


@pytest.mark.parametrize("anywhere", [False, True])
def test_no_order_is_asked_where_none_is_known(spark: SparkSession, anywhere: bool) -> None:  # noqa: FBT001
    """It is said why, and that nothing was compared."""
    evidence = replace(clean().swapped(3, 6).evidence(spark), unordered="two writers", anywhere=anywhere)

    finding = not_asked(evidence)

    assert finding == Finding("ordering", "sink", Verdict.VALID, 0, 0, {"inversion": 0}, note=ANY, asked=False)
    assert str(finding.note).endswith(": two writers")
    assert ("partitions" in str(finding.note)) is anywhere
