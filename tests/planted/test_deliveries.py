from dataclasses import replace
from itertools import count
from unittest.mock import ANY

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from syrupy.assertion import SnapshotAssertion

from tests.planted.examples import EXAMPLES
from tests.planted.log import BEGAN_MS, Delivery, Judge, Log, clean
from verifiers import VERIFIERS
from verifiers.base import Bounds, Example, Finding, Verdict

NONE = {"skipped": 0, "repeated": 0, "backwards": 0, "not in the log": 0}
START = "start"


def reading(*offsets: int | str, partition: int = 0, instance: str = "reader", log: Log | None = None) -> Log:
    """One consumer reads these offsets; readable are 0 to 3 and 5 to 8 of partition 0, and those from 100 and 200 on.

    It says a start where one stands, and says none at the begin: some are only assigned a partition before any is said.
    """
    before = (log.delivered if log else None) or ()
    said = tuple(
        Delivery(instance, len(before) + seq, *((START, partition, None) if isinstance(one, str) else ("got", partition, one)))
        for seq, one in enumerate(offsets)
    )
    return replace(log or clean(), delivered=before + said)


@pytest.mark.parametrize(
    ("offsets", "anomalies"),
    [
        ((0, 1, 2, 3, 5, 6, 7, 8), {}),
        ((2, 3, 5), {}),
        ((0,), {}),
        ((0, 2), {"skipped": 1}),
        ((0, 8), {"skipped": 6}),
        ((0, 3, 6, 8), {"skipped": 4}),
        ((0, 1, 1, 2), {"repeated": 1}),
        ((0, 1, 2, 0, 1, 2, 3), {"repeated": 3}),
        ((0, 0, 0), {"repeated": 2}),
        ((0, 2, 1, 3), {"backwards": 1}),
        ((3, 2, 1), {"backwards": 2}),
        ((0, 3, 1), {"backwards": 1, "skipped": 1}),
        ((0, 1, 2, 3, 4, 5), {"not in the log": 1}),
        ((3, 4, 4, 5), {"not in the log": 2}),
        ((0, 2, 2, 1, 4, 8), {"skipped": 4, "repeated": 1, "backwards": 1, "not in the log": 1}),
    ],
)
def test_one_stretch(judge: Judge, offsets: tuple[int, ...], anomalies: dict) -> None:
    """A marker has offset 4, which is no record; where the stretch begins and ends is the application's choice."""
    finding = judge("deliveries", reading(*offsets))

    assert finding.counts == NONE | anomalies
    assert (finding.count, finding.checked) == (sum(anomalies.values()), len(offsets) + anomalies.get("skipped", 0))
    assert finding.verdict is (Verdict.INVALID if anomalies else Verdict.VALID)


@pytest.mark.parametrize(
    ("offsets", "anomalies"),
    [
        ((START, 0, 1, START, 0, 1, 2), {}),
        ((0, 1, START, 7, 8), {}),
        ((0, 1, 2, START, START, 0, 1, 1), {"repeated": 1}),
        ((0, 2, START, 1, 2), {"skipped": 1}),
        ((0, 2, START, 0, 2), {"skipped": 2}),
    ],
)
def test_from_a_start_on_everything_may_come_again(judge: Judge, offsets: tuple[int | str, ...], anomalies: dict) -> None:
    """A batch that was aborted is read again; what one stretch skipped, another does not make good."""
    assert judge("deliveries", reading(*offsets)).counts == NONE | anomalies


def test_a_start_is_of_one_partition(judge: Judge) -> None:
    """The other one goes on as it was, and its repeat is one."""
    other = reading(START, 100, partition=1, log=reading(0, 1))

    assert judge("deliveries", reading(1, log=other)).counts == NONE | {"repeated": 1}


def test_instances_know_nothing_of_each_other(judge: Judge) -> None:
    """One is restarted, another takes over: each has its own stretches; and their lines come in any order."""
    first = reading(0, 1, 2, 7)
    second = reading(1, 2, 3, instance="reader-2", log=first)

    assert judge("deliveries", second).counts == NONE | {"skipped": 3}


def test_the_same_offsets_of_two_partitions_are_two_places(judge: Judge) -> None:
    """In turn from both, as a consumer gives them."""
    log = clean()
    log = replace(log, observed=tuple(row._replace(offset=row.offset % 100) for row in log.observed))
    log = replace(log, bounds={home: Bounds(0, 10, 10) for home in log.bounds})
    for offset in (0, 1, 2, 3, 5):
        log = reading(offset, partition=2, log=reading(offset, partition=1, log=log))

    assert judge("deliveries", log).counts == NONE


def test_what_was_not_read_of_the_log_is_not_compared(judge: Judge) -> None:
    """Retention removed its begin, and an open transaction hides its end: what was delivered from there may be right."""
    log = replace(clean().without(0, 3), bounds={**clean().bounds, 0: Bounds(2, 9, 12)})

    finding = judge("deliveries", reading(0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, log=log))

    assert (finding.verdict, finding.checked, finding.counts) == (Verdict.UNKNOWN, 6, NONE)


def test_records_of_one_key_are_told_apart_by_their_offsets(judge: Judge, snapshot: SnapshotAssertion) -> None:
    """Two records of a customer are two deliveries, and a record without a key is one."""
    log = clean().changed(3, key="customer-1").changed(6, key="customer-1").changed(9, key=None)

    finding = judge("deliveries", reading(0, 1, 2, 5, log=log))

    example = Example("skipped", 0, 3, None, BEGAN_MS + 9, ANY)
    assert finding == Finding("deliveries", "sink", Verdict.INVALID, 1, 5, NONE | {"skipped": 1}, (example,))
    assert finding.examples[0].words == snapshot


def test_examples_say_what_was_delivered_before(judge: Judge, snapshot: SnapshotAssertion) -> None:
    """In the order of their places."""
    finding = judge("deliveries", reading(0, 5, 2, 2, 4))

    assert [(one.anomaly, one.offset, one.id) for one in finding.examples] == [
        ("skipped", 1, 3),
        ("backwards", 2, 6),
        ("repeated", 2, 6),
        ("skipped", 3, 9),
        ("not in the log", 4, None),
    ]
    assert [one.words for one in finding.examples] == snapshot


def test_examples_of_one_place_are_by_instance(judge: Judge) -> None:
    """Records that one instance skipped come before repeats of the next one."""
    both = reading(0, 1, 1, instance="b", log=reading(0, 2, instance="a"))

    found = [(one.anomaly, one.offset, one.words[0]) for one in judge("deliveries", both).examples]
    assert found == [("skipped", 1, "a"), ("repeated", 1, "b")]


def test_more_than_can_be_shown(judge: Judge) -> None:
    """All are counted, the first 32 are shown."""
    finding = judge("deliveries", reading(0, 148, log=clean(360)))

    assert (finding.count, len(finding.examples), finding.examples[0].offset) == (118, 32, 1)


@st.composite
def sessions(draw: st.DrawFn) -> Log:
    """Consumers that read on from where they are, or start anywhere, and end anywhere, each in some partitions."""
    log = clean(36)
    said, seqs = [], count()
    for instance in range(draw(st.integers(1, 3))):
        for _ in range(draw(st.integers(1, 4))):
            home = draw(st.integers(0, 2))
            offsets = [row.offset for row in log.observed if row.partition == home]
            begin = draw(st.integers(0, len(offsets)))
            said.append(Delivery(f"reader-{instance}", next(seqs), START, home, draw(st.sampled_from([None, begin]))))
            some = offsets[begin : draw(st.integers(begin, len(offsets)))]
            said += [Delivery(f"reader-{instance}", next(seqs), "got", home, offset) for offset in some]
    return replace(log, delivered=tuple(said))


@EXAMPLES
@given(log=sessions())
def test_whatever_a_sound_client_does_is_no_alarm(spark: SparkSession, log: Log) -> None:
    """However often it starts again."""
    finding = VERIFIERS["deliveries"].check(log.evidence(spark, {"deliveries"}))

    assert finding.counts == NONE
    assert finding.verdict is (Verdict.VALID if finding.checked else Verdict.UNKNOWN)


@EXAMPLES
@given(read=st.lists(st.one_of(st.just(START), st.integers(0, 10)), max_size=14))
def test_counts_are_those_of_the_definitions(spark: SparkSession, read: list) -> None:
    """Anything may be read; counted a second time by plain Python."""
    readable = {row.offset for row in clean().observed if row.partition == 0}
    expected, stretch, before = dict(NONE), list[int](), -1
    for one in [*(each for each in read if each == START or each < 10), START]:
        if one == START:
            there = readable.intersection(stretch)
            expected["skipped"] += sum(min(there) < each < max(there) for each in readable - set(stretch)) if there else 0
            stretch, before = [], -1
            continue
        kind = (
            "not in the log" if one not in readable else "repeated" if one in stretch else "backwards" if one < before else ""
        )
        if kind:
            expected[kind] += 1
        stretch.append(one)
        before = one

    finding = VERIFIERS["deliveries"].check(reading(*read).evidence(spark, {"deliveries"}))

    assert finding.counts == expected
