"""The texts of gaps and of an order that is not judged; other tests of both compare facts alone."""

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession
from syrupy.assertion import SnapshotAssertion

from tests.planted.log import Judge, Log, clean, ledger
from verifiers.base import NO_PLACE
from verifiers.gaps import Gaps
from verifiers.ordering import not_asked


@pytest.mark.parametrize(
    "log",
    [
        clean().without(9),
        clean().without(9, 10, 11).with_positions({0: 8, 1: 2, 2: 2}),
        ledger().without(9),
        clean().without(9).demanding(9, position=NO_PLACE),
    ],
    ids=["lost", "lost and pending", "acknowledged", "of no one record"],
)
def test_what_is_said_of_a_gap(judge: Judge, log: Log, snapshot: SnapshotAssertion) -> None:
    """The text names what demands the record, and counts the rows that may still come."""
    finding = judge("gaps", log)

    assert [*(one.words for one in finding.examples), finding.note] == snapshot


def test_what_is_said_of_a_gap_whose_input_was_passed(spark: SparkSession, snapshot: SnapshotAssertion) -> None:
    """Its time is that of the position."""
    log = replace(clean().without(9), reached=((0, 5, 200, -1),))

    assert [one.words for one in Gaps().check(log.evidence(spark, ("reached",))).examples] == snapshot


@pytest.mark.parametrize("anywhere", [False, True])
def test_what_is_said_of_an_order_that_is_not_asked(
    spark: SparkSession,
    anywhere: bool,  # noqa: FBT001
    snapshot: SnapshotAssertion,
) -> None:
    """And of partitions, where a record may be in any."""
    evidence = replace(clean().evidence(spark), unordered="two writers", anywhere=anywhere)

    assert not_asked(evidence).note == snapshot
