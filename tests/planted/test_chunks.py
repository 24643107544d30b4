"""Copies that executors compare: the findings are those of joins, and only rows of chunks that differ may be doubtful."""

import venv
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from chaos.audit import logs as audit_logs
from chaos.matching.fast import alignment, copies, on_executors
from tests.planted.both_ways import require_findings_of_joins
from tests.planted.damaged import planted
from tests.planted.examples import EXAMPLES
from tests.planted.log import land, table
from verifiers import arrow
from verifiers.base import Bounds
from verifiers.single_scan.groups import Limits

COLUMNS = "partition int, offset long, key string, value string"
TIMED = f"{COLUMNS}, timestamp_ms long"
CHUNKED = Limits(driver_rows=0, chunk_bits=1)
LARGE_FIRST = replace(CHUNKED, first_chunks=20, small_rows=30)
NO_ROOM = replace(CHUNKED, small_rows=0)
PROCESSED = {0: 10_000, 1: 10_000}
SOURCE = [(number % 2, number // 2, f"k{number % 30}", str(number)) for number in range(400)]
COPY = [(partition, offset + offset // 9, key, value) for partition, offset, key, value in SOURCE]


@pytest.fixture
def compared(spark):
    """Both logs, compared on executors; the keys that are doubtful, and what is found."""

    def ask(source, sink, positions=PROCESSED, limits=CHUNKED):
        logs = [arrow.frame(spark, table(rows, COLUMNS)) for rows in (source, sink)]
        found = on_executors.compare(*logs, positions, len(source) + len(sink), limits, doubles=True)
        if found is None:
            return None, None
        return {row["key"] for one in logs for row in alignment.of_doubtful_keys(one, found).collect()}, found

    return ask


def test_a_copy_has_nothing_doubtful(compared):
    """With other holes in its offsets; its rows are known with the records that they answer, in few runs."""
    doubtful, found = compared(SOURCE, COPY)

    assert (doubtful, found.rows, found.aligned.records) == (set(), 400, 400)
    assert len(found.aligned) == 2 * -(-200 // 9)
    runs = found.aligned
    places = zip(runs.partition, runs.first, runs.last, runs.offset, strict=True)
    there = {(home, one, at + one - first) for home, first, last, at in places for one in range(first, last + 1)}
    assert there == {(partition, offset, offset + offset // 9) for partition, offset, *_ in SOURCE}


@pytest.mark.parametrize(
    ("sink", "doubtful"),
    [
        pytest.param([row for row in COPY if row[3] != "77"], {"k17"}, id="lost"),
        pytest.param([*COPY, (0, 999, "k5", "5")], {"k5"}, id="there again, far away"),
        pytest.param([(*row[:3], "x") if row[3] == "77" else row for row in COPY], {"k17"}, id="another value"),
        pytest.param([*COPY, (3, 0, "k1", "x")], {"k1"}, id="in a partition of its own"),
        pytest.param([(*row[:2], None, row[3]) if row[3] == "77" else row for row in COPY], {"k17", None}, id="without a key"),
    ],
)
@pytest.mark.parametrize("few", [True, False])
def test_what_is_doubtful(compared, monkeypatch, sink, doubtful, few):
    """The keys of rows that differ; if those are many, also the keys of few others near them. All other rows are known."""
    if not few:
        monkeypatch.setattr(on_executors, "_ROWS_FOR_A_GROUP", 10**9)

    found_doubtful, found = compared(SOURCE, sink)

    assert found_doubtful == doubtful if few else found_doubtful >= doubtful
    assert len(found_doubtful) < 20
    known = found.aligned.without(*_places(sink, found_doubtful))
    assert known.records == sum(row[2] not in found_doubtful for row in sink)


def test_a_row_is_no_copy_of_a_record_beyond_what_is_alike(compared):
    """Two of the same in each other's place, and a copy between them: one order would contradict the other."""
    source = [(0, number, f"k{number}", "v") for number in range(60)]
    there = [*range(10), 40, *range(11, 40), 10, *range(41, 60)]

    doubtful, _ = compared(source, [(0, offset, f"k{number}", "v") for offset, number in enumerate(there)])

    assert doubtful == {"k10", "k40"}


def _places(sink, doubtful):
    rows = [row[:2] for row in sink if row[2] in doubtful]
    return tuple(np.array(column, np.int64) for column in zip(*rows, strict=True))


def test_records_that_the_group_is_not_past_are_doubtful(compared):
    doubtful, _ = compared(SOURCE, COPY, {0: 195, 1: 200})

    assert doubtful == {row[2] for row in SOURCE if row[0] == 0 and row[1] >= 195}


@pytest.mark.parametrize("doubles", [0, 1, 7])
def test_doubles_of_the_source(compared, doubles):
    """Those that are far from the first one, in another partition, or there thrice."""
    again = [SOURCE[0], SOURCE[399], SOURCE[5], SOURCE[5], SOURCE[20], SOURCE[21], SOURCE[22]][:doubles]
    source = [*SOURCE, *((0, 900 + at, *row[2:]) for at, row in enumerate(again))]

    assert compared(source, COPY)[1].doubles == doubles


@pytest.mark.parametrize(
    ("source", "sink"),
    [
        pytest.param([*SOURCE, (0, 900, None, "x")], COPY, id="a record without a key"),
        pytest.param(SOURCE, [*COPY, COPY[-1]], id="landed twice"),
        pytest.param(SOURCE, [*COPY, (0, 1 << 48, "k1", "1")], id="an offset that is too large"),
        pytest.param(SOURCE, [*COPY, (1 << 15, 0, "k1", "1")], id="a partition that is too large"),
        pytest.param(SOURCE, [*COPY, (0, -1, "k1", "1")], id="an offset below 0"),
    ],
)
def test_what_is_not_said_here(compared, source, sink):
    """The driver looks at it, and says so, too."""
    assert compared(source, sink) == (None, None)


@pytest.mark.parametrize("lost", [0, 1])
def test_few_different_records_have_few_places_to_cut(compared, lost):
    """A copy is one all the same; of others the driver finds out more."""
    source = [(0, number, "k", "v") for number in range(400)]

    found = compared(source, source[lost:], {0: 400}, replace(NO_ROOM, chunk_bits=4))

    assert (found[1] is None) is bool(lost)


@pytest.mark.parametrize("has", ["no Python", "no packages"])
def test_executors_without_python_or_its_packages(spark, compared, monkeypatch, tmp_path, has):
    """The driver compares, and finds the same."""
    if has == "no packages":
        venv.create(tmp_path, symlinks=True)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(tmp_path / "bin" / "python3"))

    assert compared(SOURCE, COPY[1:]) == (None, None)


def test_too_many_parts_are_not_held(compared):
    assert compared(SOURCE, COPY, limits=replace(CHUNKED, most_groups=20, chunk_bits=0)) == (None, None)


def test_many_doubtful_rows_are_not_looked_for(compared):
    """All rows are joined then."""
    _, found = compared(SOURCE, [(*row[:3], "x") for row in COPY], limits=NO_ROOM)

    assert found.aligned is None


def test_chunks_are_larger_in_larger_logs():
    """So that there are not more of them than may be held, or than are made at first."""
    limits = Limits()

    for most, bits in ((limits.first_chunks, [5, 6, 9, 12]), (limits.most_groups, [4, 4, 6, 9])):
        assert [on_executors._bits(records, most, limits) for records in (10**7, 2 * 10**7, 2 * 10**8, 2 * 10**9)] == bits


@pytest.mark.parametrize("apart", [400, 10])
def test_smaller_chunks_are_cut_if_too_many_rows_differ(compared, monkeypatch, apart):
    """Not if few do; the doubles are counted once."""
    cut = []
    split = on_executors.chunks.splitter
    monkeypatch.setattr(on_executors.chunks, "splitter", lambda bits: cut.append(bits) or split(bits))
    sink = [(*row[:3], "x") if int(row[3]) % apart == 0 else row for row in COPY]

    _, found = compared([*SOURCE, (0, 900, *SOURCE[0][2:])], sink, limits=replace(CHUNKED, small_rows=150, first_chunks=30))

    assert (found.doubles, found.aligned is None) == (1, False)
    assert cut == ([5] if apart == 400 else [5, 1, 1])


@pytest.mark.parametrize("records", [9, 10])
def test_who_compares(monkeypatch, records):
    """Executors, from so many records on."""
    asked = []
    monkeypatch.setattr(on_executors, "compare", lambda *_asked, **_how: asked.append("executors"))
    monkeypatch.setattr(alignment, "compare", lambda *_asked, **_how: asked.append("driver"))

    copies.compare(None, None, {}, records, Limits(driver_rows=10))

    assert asked == (["driver"] if records == 9 else ["executors", "driver"])


# the same findings as by joins ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(EXAMPLES.max_examples // 2))
def test_the_findings_are_those_of_joins(spark, tmp_path, seed):
    """To the letter, whatever is wrong, also with the positions of a group in the middle of the source."""
    rng = Random(1000 + seed)
    source, sink = planted(rng)
    limits = rng.choice([CHUNKED, LARGE_FIRST, replace(CHUNKED, chunk_bits=0), replace(CHUNKED, chunk_bits=3), NO_ROOM])
    positions = {number: rng.choice([20, 45, 99]) for number in range(2)} | {2: 99} if seed % 2 else None
    ends = {number: Bounds(0, 99, 99 + (rng.randrange(9) == 0)) for number in range(4)}
    for name, rows, columns in (("source", source, COLUMNS), ("sink", sink, TIMED)):
        land(tmp_path / name, rows, columns)
    logs = audit_logs.landed(spark, str(tmp_path))
    logs = replace(logs, fixed=replace(logs.fixed, positions=positions, sink=ends))

    require_findings_of_joins(logs, limits, len(sink))
    spark.catalog.clearCache()
