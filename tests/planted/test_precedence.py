"""Positions that were committed before their rows were there, and those that only look so.

Histories are made at random: a program writes batches of rows, and commits after each or before it, outside of transactions or
in them, while somebody looks at the ends of the sink. They are judged without Spark.
"""

import os
from dataclasses import dataclass, replace
from random import Random

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from tests.planted.log import BEGAN_MS, Batch, Judge, clean
from verifiers.base import Finding, Verdict
from verifiers.precedence import EARLY, Windows, compare

HISTORIES = max(20, 4 * int(os.environ.get("PLANTED_EXAMPLES", "25")))
ROWS = ("id", "source", "position", "partition", "offset", "timestamp_ms")
LOOKS = ("partition", "seq", "end", "asked_at_ms", "answered_at_ms")
REACHED = ("partition", "position", "committed_at_ms", "producer_id")
BATCHES = ("partition", "first_offset", "last_offset", "producer_id", "transactional", "control")


def columns(names, rows):
    """As the verifier has them."""
    return {name: np.array([row[at] for row in rows], np.int64) for at, name in enumerate(names)}


@dataclass
class History:
    """A history in milliseconds: rows are readable from a time on, and looks see the end of that moment."""

    rows: list
    ends: dict  # partition -> list of (when, end)
    looks: list
    reached: list
    batches: list
    commits: list

    def judged(self) -> Windows:
        """The finding of `precedence`."""
        batches = columns(BATCHES, [(*row[:-1], row[-1] != "") for row in self.batches])
        commits = np.array([row[-1] == "COMMIT" for row in self.batches], np.bool_)
        return compare(columns(ROWS, self.rows), columns(LOOKS, self.looks), columns(REACHED, self.reached), batches, commits)


def history(rng, *, commit, transactional, positions_within):
    """A program that reads one source partition, and writes to one or two.

    Args:
        commit: ``before`` or ``after`` the rows of a batch are readable.
        transactional: whether its rows are in transactions.
        positions_within: whether the positions are, too.
    """
    made = History([], {0: [], 1: []}, [], [], [], [])
    ends, now, position = {0: 0, 1: 0}, 1000, 0
    for _ in range(rng.randrange(1, 12)):
        size, homes = rng.randrange(1, 6), rng.choice([(0,), (0, 1)])
        early_ms = now + rng.randrange(0, 5)
        now = early_ms + rng.randrange(1, 150)
        for home in homes:
            first = ends[home]
            ids = [position + step for step in range(size) if len(homes) == 1 or step % 2 == home]
            if not ids:
                continue
            # A program may give its rows any time.
            made.rows += [(id_, 0, id_, home, first + at, rng.randrange(9**9)) for at, id_ in enumerate(ids)]
            ends[home] += len(ids)
            made.batches.append((home, first, ends[home] - 1, 7, transactional, ""))
            if transactional:
                made.ends[home].append((early_ms, ends[home]))  # the rows are there, and their marker is not
                made.batches.append((home, ends[home], ends[home], 7, True, "COMMIT"))
                ends[home] += 1
            made.ends[home].append((now, ends[home]))
        position += size
        committed_ms = early_ms if commit == "before" else now + rng.randrange(0, 3)
        made.reached.append((0, position, committed_ms, 7 if positions_within else -1))
        made.commits.append((position, committed_ms))
        now = max(now, committed_ms) + rng.randrange(0, 20)
    look(rng, made, now)
    return made


def look(rng, made, until):
    """At random moments; answers take a while, and the end is that of a moment in between."""
    for home, ends in made.ends.items():
        at, seen = 990, []
        while at < until + 100:
            there_ms = at + rng.randrange(0, 4)
            end = max([0, *(end for when, end in ends if when <= there_ms)])
            answered_ms = there_ms + rng.randrange(0, 4)
            if seen and seen[-1][2] == end:
                seen[-1] = (*seen[-1][:3], at, seen[-1][4])
            else:
                seen.append((home, len(seen), end, at, answered_ms))
            at = answered_ms + rng.randrange(1, 60)
        made.looks += seen


def readable_from(made, row):
    """When a row can be read: with its marker, where it has one."""
    batch = next(one for one in made.batches if one[0] == row[3] and one[1] <= row[4] <= one[2])
    needed = row[4] + 1 + (batch[2] - row[4] + 1 if batch[4] else 0)
    return min(when for when, end in made.ends[row[3]] if end >= needed)


@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("positions_within", [False, True])
def test_a_program_that_commits_after_its_rows(transactional, positions_within):
    """However seldom anybody looks, and whatever times the rows have: nothing is early."""
    for seed in range(HISTORIES):
        rng = Random(seed)
        made = history(rng, commit="after", transactional=transactional, positions_within=positions_within and transactional)

        found = made.judged()

        assert not found.early.any(), seed
        assert found.asked.all()


def test_positions_in_the_transaction_of_their_rows():
    """They are sent before the marker is there, and take effect with it."""
    for seed in range(HISTORIES):
        found = history(Random(seed), commit="before", transactional=True, positions_within=True).judged()

        assert not found.early.any()


def test_a_marker_that_comes_after_a_later_position():
    """Two producers take turns. The first one's transaction is decided, and its marker waits; the second one's takes effect."""
    rows = [(0, 0, 0, 0, 0, 0), (1, 0, 1, 0, 1, 0)]
    batches = [(0, 0, 0, 7, True, ""), (0, 1, 1, 8, True, ""), (0, 2, 2, 8, True, "COMMIT"), (0, 3, 3, 7, True, "COMMIT")]
    looks = [(0, 0, 0, 1400, 1000), (0, 1, 2, 1900, 1450), (0, 2, 4, 2100, 2000)]

    def early(*reached):
        made = History(rows, {}, looks, list(reached), batches, [])
        return made.judged().early.tolist()

    assert early((0, 1, 1950, 7), (0, 2, 1500, 8)) == [False, False]
    assert early((0, 2, 1500, 8)) == [True, False]  # nothing shows that the first one has its position, too
    assert early((0, 1, 1950, 8), (0, 2, 1500, 8)) == [True, False]
    assert early((1, 1, 1950, 7), (0, 2, 1500, 8)) == [True, False]  # of another source partition


def test_positions_in_the_transaction_before_that_of_their_rows():
    """One producer commits positions in one transaction, and writes their rows in the next."""
    rows, batches = [(0, 0, 0, 0, 0, 0)], [(0, 0, 0, 7, True, ""), (0, 1, 1, 7, True, "COMMIT")]

    def early(*looks):
        return History(rows, {}, list(looks), [(0, 1, 1500, 7)], batches, []).judged().early.tolist()

    nothing, without_marker, whole = (0, 0, 0, 1600, 1000), (0, 1, 1, 1900, 1700), (0, 2, 2, 2100, 2000)
    assert early(nothing, without_marker, whole) == [True]
    assert early(nothing, whole) == [True]
    assert early((0, 0, 0, 1400, 1000), without_marker, whole) == [False]  # it was there before the position took effect
    assert early((0, 0, 0, 1400, 1000), whole) == [False]  # nobody looked in between


@pytest.mark.parametrize("transactional", [False, True])
def test_a_program_that_commits_before_its_rows(transactional):
    """Each record is early that a look did not find after its commit; no window is longer than it was."""
    found_some = 0
    for seed in range(HISTORIES):
        made = history(Random(seed), commit="before", transactional=transactional, positions_within=False)

        found = made.judged()

        for at, id_ in enumerate(found.rows["id"].tolist()):
            row = next(one for one in made.rows if one[0] == id_)
            committed_ms = next(when for position, when in made.commits if position > id_)
            readable_ms = readable_from(made, row)
            assert found.committed_ms[at] == committed_ms
            assert found.missing_ms[at] < readable_ms <= found.seen_ms[at]
            assert found.early[at] == (found.missing_ms[at] > committed_ms)
        found_some += int(found.early.sum())
    assert found_some > HISTORIES


def test_what_is_said(judge: Judge, snapshot: SnapshotAssertion) -> None:
    """The record, its input, and how long the window was."""
    looked = ((0, 0, 0, BEGAN_MS + 200, BEGAN_MS), (0, 1, 10, BEGAN_MS + 900, BEGAN_MS + 260))
    others = tuple((home, 0, 10**4, BEGAN_MS, BEGAN_MS) for home in (1, 2))
    reached = ((0, 1, BEGAN_MS + 140, -1), (0, 10**6, BEGAN_MS + 300, -1), (1, 99, BEGAN_MS + 1, -1), (2, 99, BEGAN_MS + 1, -1))
    log = replace(clean(), looked=(*looked, *others), reached=reached, batches=())

    finding = judge("precedence", log)

    assert (finding.verdict, finding.count, finding.checked) == (Verdict.INVALID, 1, 24)
    assert finding.counts == {EARLY: 1}
    assert [(one.anomaly, one.partition, one.offset, one.id, one.timestamp_ms) for one in finding.examples] == [
        (EARLY, 0, 0, 0, BEGAN_MS + 140)
    ]
    assert [finding.examples[0].words, finding.note] == snapshot


def test_a_row_outside_of_the_transaction_of_its_position(judge: Judge) -> None:
    """It is early if somebody looked for it after the marker, and did not find it; if nobody looked then, it may be right."""
    looked = tuple((home, 0, 0, BEGAN_MS + 9, BEGAN_MS + 5) for home in range(3))
    found = tuple((home, 1, 10**4, BEGAN_MS + 99, BEGAN_MS + 50) for home in range(3))
    apart = tuple(Batch(home, 0, 999, -1, -1, False, None) for home in range(3))  # noqa: FBT003
    log = replace(clean(), looked=(*looked, *found), batches=apart)

    def judged(marker_ms: int) -> Finding:
        return judge("precedence", replace(log, reached=tuple((home, 99, marker_ms, 7) for home in range(3))))

    assert [(one.verdict, one.count, one.checked) for one in map(judged, (BEGAN_MS + 8, BEGAN_MS + 9, BEGAN_MS + 60))] == [
        (Verdict.INVALID, 24, 24),
        (Verdict.VALID, 0, 24),
        (Verdict.VALID, 0, 24),
    ]


def test_a_lost_record_is_not_early(judge: Judge) -> None:
    """Its row never came; neither is one early that no position is past."""
    late = tuple((home, 0, 10**4, BEGAN_MS + 10**6, BEGAN_MS) for home in range(3))
    log = replace(clean().without(0), looked=late, reached=((0, 3, BEGAN_MS, -1),), batches=())

    finding = judge("precedence", log)

    assert (finding.verdict, finding.count, finding.checked) == (Verdict.VALID, 0, 2)


def test_the_first_copy_counts(judge: Judge) -> None:
    """A record that was there, and is written again after its commit, is not early."""
    first = ((0, 0, 9, BEGAN_MS, BEGAN_MS), (0, 1, 9, BEGAN_MS + 400, BEGAN_MS), (0, 2, 10, BEGAN_MS + 900, BEGAN_MS + 500))
    looked = (*first, (1, 0, 10**4, 0, 0), (2, 0, 10**4, 0, 0))
    reached = tuple((home, 99, BEGAN_MS + 10, -1) for home in range(3))
    log = replace(clean().again(0, 9), looked=looked, reached=reached, batches=())

    assert judge("precedence", log).verdict is Verdict.VALID


def test_what_no_single_record_demands_is_not_asked(judge: Judge) -> None:
    """A total has no record whose position could be early."""
    log = clean().demanding(*range(24), position=-1)

    finding = judge("precedence", log)

    assert (finding.verdict, finding.asked, finding.checked) == (Verdict.VALID, False, 0)
