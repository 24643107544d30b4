"""Runs of rows that are known one by one: what is late, what repeats a number, and what is left of them without some rows."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planted.examples import EXAMPLES
from verifiers.single_scan import runs
from verifiers.single_scan.runs import Late, Runs

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
    """By place; joined, they are the same."""
    found = cut(rows)

    assert rows_in(found) == sorted(rows)
    assert found.records == len(rows)
    begins = [
        row
        for before, row in pairwise([None, *sorted(rows)])
        if before != row._replace(offset=row.offset - 1, number=row.number - 1)
    ]
    for one in (found, found.joined()):
        assert list(zip(one.partition, one.offset, one.line, one.first, strict=True)) == begins


@MANY
@given(rows=logs(), count=st.integers(0, 9))
def test_the_late_rows(rows: list[Place], count: int) -> None:
    """Those below the highest number before them in their partition and line; the first ones, and how many by partition."""
    highest: dict[tuple[int, int], int] = {}
    late = []
    for row in sorted(rows):
        before = highest.get((row.partition, row.line), -1)
        if row.number < before:
            late.append(Late(*row, before))
        highest[row.partition, row.line] = max(row.number, before)
    by_partition = {row.partition: [one for one in late if one.partition == row.partition] for row in late}

    found = runs.late(cut(rows))

    assert list(found.first(count)) == late[:count]
    assert list(found.totals()) == [
        (partition, len(those), max(one.highest - one.number for one in those)) for partition, those in by_partition.items()
    ]
    assert bool(len(found.runs)) is bool(late)


@MANY
@given(rows=logs())
def test_the_rows_that_repeat_a_number(rows: list[Place]) -> None:
    """All but one of those with the same line and number; each run that is named holds a number that recurs."""
    numbers = {(row.line, row.number) for row in rows}

    count, where = runs.repeated(cut(rows))

    assert count == len(rows) - len(numbers)
    recur = [row for row in rows if sum(row[2:] == other[2:] for other in rows) > 1]
    for line, first, last in zip(where.line, where.first, where.last, strict=True):
        assert any(row.line == line and first <= row.number <= last for row in recur)


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
