"""The early audit says of a log in parts what the verifiers say of the whole, and says it as soon as it is there."""

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.planted.examples import EXAMPLES
from tests.planted.log import Log, clean, in_words
from tests.planted.test_islands import reordered
from verifiers import VERIFIERS, findings
from verifiers.base import Bounds, Example, Finding, Verdict
from verifiers.single_scan import groups, runs
from verifiers.single_scan.groups import Limits
from verifiers.single_scan.stream import Stream, TooScatteredError

BY_ROWS = Limits()
BY_GROUPS = Limits(block_bits=2, least_run=0, small_rows=-1)
Place = tuple[int, int, int, int]


def parts(log: Log, cuts: list[int]) -> list[Log]:
    """A log cut at these offsets above the low end of each partition."""
    ends = {home: max([0, *(row.offset for row in log.observed if row.partition == home)]) + 1 for home in log.bounds}
    begins = {home: bounds.low for home, bounds in log.bounds.items()}
    found = []
    for cut in [*sorted(cuts), max(ends.values()) + 1]:
        bounds = {
            home: Bounds(begin, to := max(begin, min(ends[home], log.bounds[home].low + cut)), to)
            for home, begin in begins.items()
        }
        rows = tuple(row for row in log.observed if bounds[row.partition].low <= row.offset < bounds[row.partition].lso)
        found.append(replace(log, observed=rows, bounds=bounds))
        begins = {home: one.lso for home, one in bounds.items()}
    return found


def told(spark: SparkSession, log: Log, cuts: list[int], limits: Limits) -> list[tuple[Finding, Finding]]:
    """What is said after each part."""
    stream = Stream("sink", len(log.bounds), limits, len(log.expected))
    return [stream.add(part.evidence(spark)) for part in parts(log, cuts)]


@EXAMPLES
@given(log=reordered(), cuts=st.lists(st.integers(0, 60), max_size=3), limits=st.sampled_from([BY_ROWS, BY_GROUPS]))
def test_the_last_part_is_told_as_the_whole_is(spark: SparkSession, log: Log, cuts: list[int], limits: Limits) -> None:
    """Wherever it was cut; and what was counted once stays counted."""
    evidence = log.evidence(spark)
    wanted = [VERIFIERS[name].check(evidence) for name in ("duplicates", "ordering")]

    said = told(spark, log, cuts, limits)

    assert [(one.count, one.checked) for one in said[-1]] == [(one.count, one.checked) for one in wanted]
    for verifier in zip(*said, strict=True):
        counts = [finding.count for finding in verifier]
        assert counts == sorted(counts)
        assert [finding.verdict for finding in verifier] == [Verdict.INVALID if count else Verdict.UNKNOWN for count in counts]


@pytest.mark.parametrize("limits", [BY_ROWS, BY_GROUPS])
def test_a_batch_that_is_written_again_is_told_at_once(spark: SparkSession, limits: Limits) -> None:
    """With both places of its first record; before that there is nothing to tell."""
    log = clean(24).again(9, 12).again(12, 13)
    before, after = told(spark, log, [11], limits)

    assert [(finding.count, finding.verdict) for finding in before] == [(0, Verdict.UNKNOWN)] * 2
    assert [(finding.count, finding.verdict) for finding in after] == [(2, Verdict.INVALID)] * 2
    assert [(finding.verifier, finding.counts) for finding in after] == [
        ("duplicates", {"duplicate": 2}),
        ("ordering", {"inversion": 2}),
    ]
    duplicate, inversion = (finding.examples[0] for finding in after)
    assert (duplicate.id, duplicate.partition, duplicate.offset, duplicate.words) == (9, 0, 12, "also at partition 0 offset 3")
    assert (inversion.id, inversion.offset, inversion.words) == (9, 12, "4 too late: id 21 precedes it in this partition")


def test_what_is_told(spark: SparkSession) -> None:
    """Id 10 is number 3 of line 1, and 22 number 7."""
    found = told(spark, clean(24).again(10, 112), [], BY_ROWS)

    copy = Example("duplicate", 1, 112, 10, None, "also at partition 1 offset 103")
    late = Example("inversion", 1, 112, 10, None, "4 too late: id 22 precedes it in this partition")
    assert [tuple(map(in_words, part)) for part in found] == [
        (
            Finding("duplicates", "sink", Verdict.INVALID, 1, 25, {"duplicate": 1}, (copy,), "so far"),
            Finding("ordering", "sink", Verdict.INVALID, 1, 25, {"inversion": 1}, (late,), "so far"),
        )
    ]


def test_more_than_can_be_shown(spark: SparkSession) -> None:
    """Of either kind the first ones are."""
    copies = range(110, 110 + findings.EXAMPLES + 2)

    found = told(spark, clean(24).again(10, *copies), [], BY_ROWS)[0]

    assert [one.count for one in found] == [len(copies)] * 2
    assert [len(one.examples) for one in found] == [findings.EXAMPLES] * 2
    assert [one.offset for one in found[1].examples] == list(copies)[: findings.EXAMPLES]


def test_a_copy_in_another_partition(spark: SparkSession) -> None:
    """Is a duplicate, and names the partition where the record belongs."""
    (said, _), *_ = told(spark, clean(24).again(12, 140, partition=1), [], BY_ROWS)

    assert said.count == 1
    assert said.examples[0].words in {"also at partition 0 offset 5", "also at partition 1 offset 140"}


def test_all_places_of_a_record_are_named(spark: SparkSession) -> None:
    """In the order of the log."""
    (said, _), *_ = told(spark, clean(24).again(9, 12, 14), [], BY_ROWS)

    assert [one.words for one in said.examples] == [
        "also at partition 0 offset 3, partition 0 offset 14",
        "also at partition 0 offset 3, partition 0 offset 12",
    ]


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (Limits(most_groups=5), "12 runs in 48 records are too many to be held"),
        (Limits(most_groups=5, small_rows=-1), "a part of the log has too many runs to be held"),
        (Limits(least_run=10**9, small_rows=-1), "a part of the log has too many runs to be held"),
    ],
)
def test_a_log_without_runs_is_refused(spark: SparkSession, limits: Limits, message: str) -> None:
    """Rather than to take all of the driver's memory."""
    with pytest.raises(TooScatteredError, match=f"^{message}$"):
        told(spark, clean(48), [], limits)


def test_as_many_runs_as_may_be_held(spark: SparkSession) -> None:
    """Four to a partition, with a marker after each but the last."""
    (said, _), *_ = told(spark, clean(48), [], Limits(most_groups=12))

    assert said.checked == 48


def test_as_many_rows_as_may_be_held(spark: SparkSession) -> None:
    """Those of the one block in which a record moved, four."""
    log = clean(48).changed(3, offset=4)

    (_, said), *_ = told(spark, log, [], replace(BY_GROUPS, most_rows=4))

    assert said.count == 1
    with pytest.raises(TooScatteredError, match=r"^a part of the log has too many runs"):
        told(spark, log, [], replace(BY_GROUPS, most_rows=3))


def test_a_small_part_is_not_summarized(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """However far from the begin of its partition; the start of a second query takes longer than its rows."""
    monkeypatch.delattr(groups, "summarize")
    log = clean(24)
    rows = tuple(row._replace(offset=row.offset + 10**9) for row in log.observed)
    bounds = {home: Bounds(one.low + 10**9, one.lso + 10**9, one.hw + 10**9) for home, one in log.bounds.items()}

    (said, _), *_ = told(spark, replace(log, observed=rows, bounds=bounds), [], BY_ROWS)

    assert said.checked == 24


PLACES = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(0, 1), st.integers(0, 9)),
    max_size=25,
    unique_by=lambda row: row[:2],
)


@given(rows=PLACES, cut=st.integers(0, 25))
def test_runs_lose_nothing(rows: list[Place], cut: int) -> None:
    """However they are cut, merged and joined: each record is in one of them, and the surplus is what a set leaves over."""
    whole, *both = (runs.of_rows(*columns(part)) for part in (rows, rows[:cut], rows[cut:]))

    joined = both[0].merge(both[1]).joined()

    assert sorted(spread(joined)) == sorted(rows)
    assert spread(joined) == spread(whole.joined())
    assert len(joined) == len(whole)
    lines = Counter((line, number) for _, _, line, number in rows)
    count, where = runs.repeated(joined)
    assert count == sum(lines.values()) - len(lines)
    numbers = list(zip(where.line.tolist(), where.first.tolist(), strict=True))
    assert numbers == sorted(numbers)
    assert {(line, number) for _, _, line, number in spread(where)} & {
        key for key, times in lines.items() if times > 1
    } or not count


@pytest.mark.parametrize(("lost", "lengths"), [((), [8]), ((5,), [5, 2]), ((0, 3), [2, 4]), (range(8), [])])
def test_a_run_that_was_cut_is_whole_again(lost: Collection[int], lengths: list[int]) -> None:
    """And one that has a hole, in its offsets too, is two."""
    rows = [(0, place, 0, place) for place in range(8) if place not in lost]
    one, other = (runs.of_rows(*columns(part)) for part in (rows[:4], rows[4:]))

    joined = other.merge(one).joined()

    assert (joined.last - joined.first + 1).tolist() == lengths


def test_a_run_does_not_go_on_in_another_partition() -> None:
    """Though number and offset do."""
    rows = [(place // 4, place, 0, place) for place in range(8)]

    joined = runs.of_rows(*columns(rows)).joined()

    assert (joined.partition.tolist(), joined.first.tolist(), joined.last.tolist()) == ([0, 1], [0, 4], [3, 7])


def columns(rows: list[Place]) -> list[np.ndarray]:
    """Partition, offset, line, number."""
    return [np.array([row[place] for row in rows], np.int64) for place in range(4)]


def spread(some: runs.Runs) -> list[Place]:
    """Runs as rows again."""
    return [
        (int(some.partition[at]), int(some.offset[at]) + step, int(some.line[at]), int(some.first[at]) + step)
        for at in range(len(some))
        for step in range(int(some.last[at] - some.first[at]) + 1)
    ]
