from dataclasses import replace
from typing import Any
from unittest.mock import ANY

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.planted.log import BEGAN_MS, Judge, Log, Open, clean
from verifiers.base import Example, Finding, Verdict

NONE = {"hanging": 0, "ongoing": 0, "young": 0}
COMPLETE: dict[str, Any] = {"coordinator_state": "CompleteCommit", "listed": False}
UNKNOWN_ID: dict[str, Any] = {
    "transactional_id": None,
    "coordinator_state": None,
    "coordinator_producer_id": None,
    "coordinator_epoch": None,
    "listed": False,
}
GONE: dict[str, Any] = UNKNOWN_ID | {"transactional_id": "sink-1"}
OLD: dict[str, Any] = {"asked_at_ms": BEGAN_MS + 2001}


def holding(*found: Open) -> Log:
    """A log whose partitions hold these open; as any frame of a planted log it is given with the last row first."""
    return replace(clean(), open_transactions=found)


def test_nothing_is_open(judge: Judge) -> None:
    """Three partitions were looked at; one that holds nothing is not counted."""
    log = replace(clean(), bounds={**clean().bounds, 3: replace(clean().bounds[0], low=10)})

    assert judge("hanging", log) == Finding("hanging", "sink", Verdict.VALID, 0, 3, NONE)


@pytest.mark.parametrize(
    "changes",
    [
        COMPLETE,
        COMPLETE | {"coordinator_epoch": 4},
        {"coordinator_state": "CompleteAbort", "listed": False},
        {"coordinator_state": "Empty"},
        {"coordinator_state": "Dead"},
        {"listed": False},
        {"coordinator_state": "PrepareCommit", "listed": False},
        {"coordinator_producer_id": 8},
        GONE,
        UNKNOWN_ID,
    ],
    ids=[
        *("committed", "committed, of the next epoch", "aborted", "empty", "dead", "not listed", "prepared and not listed"),
        *("of another producer", "forgotten", "of no transactional id"),
    ],
)
def test_what_no_coordinator_will_end_hangs(judge: Judge, changes: dict[str, Any], snapshot: SnapshotAssertion) -> None:
    """Beyond its timeout, by one millisecond."""
    finding = judge("hanging", holding(Open(0)._replace(**OLD | changes)))

    example = Example("hanging", 0, 4, None, BEGAN_MS, ANY)
    assert finding == Finding("hanging", "sink", Verdict.INVALID, 1, 3, NONE | {"hanging": 1}, (example,))
    assert finding.examples[0].words == snapshot


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"coordinator_epoch": 4},
        {"coordinator_state": "PrepareCommit"},
        {"coordinator_state": "PrepareCommit", "coordinator_epoch": 4},
        {"coordinator_state": "PrepareAbort", "coordinator_epoch": 4},
        {"coordinator_state": "a state of a later Kafka"},
    ],
)
def test_what_its_coordinator_counts_does_not_hang(judge: Judge, changes: dict[str, Any], snapshot: SnapshotAssertion) -> None:
    """However long it has been open: its end will end it, also when the coordinator has raised the epoch to abort it."""
    one = Open(0, asked_at_ms=BEGAN_MS + 3_600_000)._replace(**changes)

    finding = judge("hanging", holding(one))

    assert (finding.verdict, finding.count, finding.counts) == (Verdict.UNKNOWN, 0, NONE | {"ongoing": 1})
    assert finding.note == snapshot


@pytest.mark.parametrize("changes", [COMPLETE, GONE, UNKNOWN_ID, {"listed": False}])
def test_what_is_young_is_not_judged(judge: Judge, changes: dict[str, Any], snapshot: SnapshotAssertion) -> None:
    """Open for exactly as long as it may be."""
    finding = judge("hanging", holding(Open(0, asked_at_ms=BEGAN_MS + 2000)._replace(**changes)))

    assert (finding.verdict, finding.count, finding.counts) == (Verdict.UNKNOWN, 0, NONE | {"young": 1})
    assert finding.note == snapshot


def test_several_partitions_and_producers(judge: Judge, snapshot: SnapshotAssertion) -> None:
    """Each is judged for itself; examples and the first of each kind are by place, whatever the order of the rows."""
    old, young = OLD | COMPLETE, COMPLETE
    log = holding(
        Open(0, first_offset=5)._replace(**old),
        Open(0, producer_id=9, first_offset=8)._replace(**old),
        Open(1, first_offset=104),
        Open(1, first_offset=105),
        Open(2, first_offset=203)._replace(**young),
        Open(2, first_offset=1)._replace(**old),
    )

    finding = judge("hanging", log)

    assert (finding.verdict, finding.count, finding.checked) == (Verdict.INVALID, 3, 3)
    assert finding.counts == {"hanging": 3, "ongoing": 2, "young": 1}
    assert [(one.partition, one.offset) for one in finding.examples] == [(0, 5), (0, 8), (2, 1)]
    assert finding.note == snapshot


def test_more_than_can_be_shown(judge: Judge) -> None:
    """All are counted."""
    finding = judge("hanging", holding(*(Open(0, first_offset=offset)._replace(**OLD | COMPLETE) for offset in range(33))))

    assert (finding.count, [one.offset for one in finding.examples]) == (33, list(range(32)))


def test_one_that_ended_before_the_brokers_were_asked(judge: Judge) -> None:
    """It hides the end of what was read, and hangs no more."""
    finding = judge("hanging", clean().with_open_transaction(1))

    assert (finding.verdict, finding.counts) == (Verdict.UNKNOWN, NONE)
    assert finding.note == "an open transaction hides the end of partition 1 (read to offset 109 of 110)"
