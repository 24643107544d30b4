"""Runs of rows that are known one by one: what is out of place, what repeats a number, what is left without some rows."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planted.disordered import out_of_place, rising
from tests.planted.examples import EXAMPLES
from verifiers.disorder import Misplaced
from verifiers.single_scan import runs
from verifiers.single_scan.runs import Runs

MANY = settings(EXAMPLES, max_examples=100)  # they cost no Spark job


class Place(NamedTuple):
    """A row."""

    partition: int
    offset: int
    line: int
    number: int


@st.composite
def logs(draw: st.DrawFn) -> list[Place]:
    """In any order: partitions of runs, with holes between them or without, of lines and numbers that recur."""
    rows = []
    for partition in range(draw(st.integers(1, 3))):
        offset = draw(st.integers(0, 3))
        for _ in range(draw(st.integers(0, 6))):
            line, number = draw(st.integers(0, 1)), draw(st.integers(0, 9))
            for step in range(draw(st.integers(1, 4))):
                rows.append(Place(partition, offset, line, number + step))
                offset += 1
            offset += draw(st.integers(0, 1))
    return draw(st.permutations(rows))


@st.composite
def moved(draw: st.DrawFn) -> list[Place]:
    """One line, each number once; pieces of it have been moved."""
    numbers = list(range(draw(st.integers(1, 30))))
    for _ in range(draw(st.integers(0, 4))):
        begin, length, to = (draw(st.integers(0, limit)) for limit in (29, 8, 29))
        piece = numbers[begin : begin + length]
        del numbers[begin : begin + length]
        numbers[to:to] = piece
    return [Place(0, at, 0, number) for at, number in enumerate(numbers)]


def one_by_one(rows: list[Place]) -> Runs:
    """Each row as a run."""
    partition, offset, line, number = (np.array([row[field] for row in rows], np.int64) for field in range(4))
    return Runs(partition, line, number, number, offset)


def cut(rows: list[Place]) -> Runs:
    """As runs."""
    return runs.of_rows(*(np.array([row[field] for row in rows], np.int64) for field in range(len(Place._fields))))


def rows_in(found: Runs) -> list[Place]:
    """As rows again, by place."""
    columns = zip(*(getattr(found, name).tolist() for name in Runs.__slots__), strict=True)
    return sorted(
        Place(partition, offset + step, line, first + step)
        for partition, line, first, last, offset in columns
        for step in range(last - first + 1)
    )


@MANY
@given(rows=logs())
def test_rows_are_cut_into_as_few_runs_as_can_be(rows: list[Place]) -> None:
    """By place."""
    found = cut(rows)

    assert rows_in(found) == sorted(rows)
    assert found.records == len(rows)
    begins = [
        row
        for before, row in pairwise([None, *sorted(rows)])
        if before != row._replace(offset=row.offset - 1, number=row.number - 1)
    ]
    assert list(zip(found.partition, found.offset, found.line, found.first, strict=True)) == begins


def misplaced(rows: list[Place]) -> list[Misplaced]:
    """By (partition, offset)."""
    found = []
    for home, line in {(row.partition, row.line) for row in rows}:
        mine = sorted(row for row in rows if (row.partition, row.line) == (home, line))
        found += [Misplaced(*mine[at], rival) for at, rival in out_of_place([row.number for row in mine])]
    return sorted(found, key=lambda one: (one.partition, one.offset))


@MANY
@given(rows=st.one_of(logs(), moved()), count=st.integers(0, 9), whole=st.booleans())
def test_the_rows_out_of_place(rows: list[Place], count: int, *, whole: bool) -> None:
    """Those that the definition names, whether runs are cut or each row is one; the first ones, and how many by partition."""
    wanted = misplaced(rows)
    runs_ = cut(rows) if whole else one_by_one(rows)

    found = runs.disorder_of(runs_)

    assert found.shown(count) == tuple(wanted[:count])
    assert found.shown(len(rows)) == tuple(wanted)
    late = [one for one in wanted if one.rival > one.number]
    totals = found.totals()
    assert sum(one.count for one in totals) == len(wanted)
    assert sum(one.late for one in totals) == len(late)
    assert max((one.latest for one in totals), default=0) == max((one.rival - one.number for one in late), default=0)
    assert [one.partition for one in totals] == sorted({one.partition for one in wanted})


@pytest.mark.parametrize(
    ("numbers", "wanted"),
    [
        pytest.param([0, 1, 2, 3], [], id="in order"),
        pytest.param([5, 5, 6], [], id="repeated at once"),
        pytest.param([90, *range(60)], [(0, 0)], id="one early row"),
        pytest.param([*range(1, 60), 0], [(59, 59)], id="one late row"),
        pytest.param([5, 6, 7, 5, 6, 7], [(3, 7), (4, 7)], id="a batch again"),
        pytest.param([3, 4, 5, 0, 1, 2, 6], [(3, 5), (4, 5), (5, 5)], id="two batches in each other's place"),
        pytest.param([3, 4, 5, 3, 3, 3, 3], [(3, 5), (4, 5), (5, 5), (6, 5)], id="one record over and over"),
        pytest.param([*range(9), *range(5, 9), *range(3, 12)], None, id="set back twice"),
        pytest.param([2**63 - 1, 2**63 - 2, 1], None, id="the largest longs"),
    ],
)
def test_what_a_person_would_blame(numbers: list[int], wanted: list[tuple[int, int]] | None) -> None:
    """By one cause, one count: where each row stands and what shows it."""
    rows = [Place(0, at, 0, number) for at, number in enumerate(numbers)]

    found = [(one.offset, one.rival) for one in runs.disorder_of(cut(rows)).shown(99)]

    assert found == (wanted if wanted is not None else found)
    if len(numbers) > 20:
        highest = [max(numbers[:at], default=-1) for at in range(len(numbers))]
        assert wanted is not None or len(found) == sum(map(int.__lt__, numbers, highest))


@MANY
@given(rows=moved())
def test_rows_that_are_each_there_once_are_blamed_as_few_as_can_be(rows: list[Place]) -> None:
    """Without those, the others rise; and no sequence that rises has more rows."""
    found = runs.disorder_of(cut(rows)).shown(len(rows))

    left = sorted(set(rows) - {Place(one.partition, one.offset, one.line, one.number) for one in found})
    assert [row.number for row in left] == sorted({row.number for row in left})
    assert len(left) == len(rising([row.number for row in sorted(rows)]))


@MANY
@given(rows=logs(), data=st.data())
def test_runs_without_some_rows(rows: list[Place], data: st.DataObject) -> None:
    """Also of places that no row has."""
    partitions = {row.partition for row in rows}
    places = data.draw(st.sets(st.tuples(st.sampled_from([*partitions, 7]), st.integers(0, 40)), max_size=12))

    found = cut(rows).without(*(np.array([one[field] for one in places], np.int64) for field in range(2)))

    assert rows_in(found) == sorted(row for row in rows if row[:2] not in places)


@pytest.mark.parametrize("hole", range(6))
def test_a_run_without_one_of_its_rows(hole: int) -> None:
    """The first, the last, one between, and none of it on either side."""
    one = cut([Place(0, offset, 0, offset + 5) for offset in range(1, 5)])

    found = one.without(np.array([0]), np.array([hole]))

    assert rows_in(found) == [Place(0, offset, 0, offset + 5) for offset in range(1, 5) if offset != hole]
