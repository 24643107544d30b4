"""Judging without a full join: only rows of doubtful keys are joined, and the findings stay the same."""

from dataclasses import replace
from random import Random

import pytest

from chaos.audit import identity as audit_identity
from chaos.audit import logs as audit_logs
from chaos.audit import prepared
from chaos.matching.fast import alignment
from tests.planted.both_ways import asked_and_found, require_findings_of_joins
from tests.planted.damaged import planted
from tests.planted.examples import EXAMPLES
from tests.planted.log import land, table
from verifiers import arrow
from verifiers.base import Bounds
from verifiers.single_scan.groups import Limits

COLUMNS = "partition int, offset long, key string, value string"
TIMED = f"{COLUMNS}, timestamp_ms long"
SOURCE = [(number % 2, number // 2, f"k{number % 3}", None if number == 4 else str(number)) for number in range(20)]
COPY = [(partition, offset + offset // 3, key, value) for partition, offset, key, value in SOURCE]
LAST = COPY[-1]
PROCESSED = {0: 99, 1: 99}


@pytest.mark.parametrize(
    ("source", "sink", "is_copy"),
    [
        pytest.param(SOURCE, COPY, True, id="a copy with markers"),
        pytest.param(SOURCE, COPY[::-1], True, id="in files of another order"),
        pytest.param(SOURCE, COPY[:-1], False, id="the last is missing"),
        pytest.param(SOURCE, [*COPY, (1, 99, "k1", "x")], False, id="one more"),
        pytest.param(SOURCE, [*COPY, (2, 0, "k1", "x")], False, id="one more in a partition of its own"),
        pytest.param(SOURCE, [*COPY[:-1], (*LAST[:3], "x")], False, id="another value"),
        pytest.param(SOURCE, [*COPY[:-1], (*LAST[:2], "x", LAST[3])], False, id="another key"),
        pytest.param(SOURCE, [(*row[:3], row[3] or "") for row in COPY], False, id="an empty value for none"),
        pytest.param(SOURCE, [*COPY[:-1], (*LAST[:2], None, LAST[2])], False, id="no key, and the key for a value"),
        pytest.param(SOURCE, [(1 - row[0], *row[1:]) for row in COPY], False, id="in other partitions"),
        pytest.param(SOURCE, [(row[0], 99 - row[1], *row[2:]) for row in COPY], False, id="in another order"),
        pytest.param([*SOURCE, SOURCE[-1]], [*COPY, LAST], False, id="landed twice"),
        pytest.param([*SOURCE, (0, 50, None, "x")], [*COPY, (0, 50, None, "x")], False, id="without a key"),
    ],
)
@pytest.mark.parametrize("most", [3, 1000])
def test_what_is_a_copy(spark, source, sink, is_copy, most):
    """However the logs are cut into pieces."""
    logs = (arrow.frame(spark, table(rows, COLUMNS)) for rows in (source, sink))

    found = alignment.compare(*logs, PROCESSED, replace(Limits(), most_rows=most))

    assert (found is not None and not len(found.doubtful)) is is_copy
    assert not is_copy or found.rows == 20


def test_a_row_without_a_key_is_no_record(spark):
    """Spark's hash of a text is that of the text and nothing: a row of that value and no key has the same."""
    source = [(0, number, f"k{number}", None) for number in range(9)]
    sink = [(*row[:2], None, row[2]) if row[1] == 4 else row for row in source]

    found = alignment.compare(*(arrow.frame(spark, table(rows, COLUMNS)) for rows in (source, sink)), PROCESSED)

    assert found is not None
    assert len(found.doubtful) == 2
    assert found.aligned.records == 8


@pytest.mark.parametrize(
    ("sink", "doubtful"),
    [
        pytest.param([*range(10), *range(11, 60)], {"k10"}, id="one is lost"),
        pytest.param([*range(10), *range(30, 60)], {f"k{number}" for number in range(10, 30)}, id="a run is lost"),
        pytest.param([*range(30), *range(20, 60)], {f"k{number}" for number in range(20, 30)}, id="a run is there again"),
        pytest.param([*range(40), 7, *range(40, 60)], {"k7"}, id="one is there again, far away"),
        pytest.param([*range(20), 30, *range(21, 30), 20, *range(31, 60)], {"k20", "k30"}, id="two in each other's place"),
        pytest.param(range(50), {f"k{number}" for number in range(50, 60)}, id="the end is missing"),
    ],
)
@pytest.mark.parametrize("most", [24, 1000])
def test_what_is_doubtful(spark, sink, doubtful, most):
    """Where both logs go on alike, nothing is doubtful, also after a piece that is cut in the middle of a difference."""
    source = [(0, number, f"k{number}", "v") for number in range(60)]
    rows = [(0, offset, f"k{number}", "v") for offset, number in enumerate(sink)]
    logs = [arrow.frame(spark, table(one, COLUMNS)) for one in (source, rows)]

    found = alignment.compare(*logs, PROCESSED, replace(Limits(), most_rows=most))

    assert found is not None
    assert {row["key"] for one in logs for row in alignment.of_doubtful_keys(one, found).collect()} == doubtful


def test_a_log_that_has_too_little_in_common(spark):
    """More of it would have to be held than may be."""
    source = [(0, number, f"k{number}", "v") for number in range(60)]
    sink = [(0, number, f"x{number}", "v") for number in range(60)]

    found = alignment.compare(
        *(arrow.frame(spark, table(rows, COLUMNS)) for rows in (source, sink)), PROCESSED, Limits(most_rows=9)
    )

    assert found is None


# the same findings as by joins ---------------------------------------------------------------------------------------------

NARROW = Limits()
CUT = replace(NARROW, most_rows=40)
NO_ROOM = replace(NARROW, small_rows=0)


@pytest.fixture(scope="module")
def landed(spark, tmp_path_factory):
    """Land a source and a sink; what more is known of topics can be said."""

    def both(source, sink, /, **known):
        folder = tmp_path_factory.mktemp("logs")  # Spark may have kept what was at a place before
        for name, rows, columns in (("source", source, COLUMNS), ("sink", sink, TIMED)):
            land(folder / name, rows, columns)
        logs = audit_logs.landed(spark, str(folder))
        return replace(logs, fixed=replace(logs.fixed, **known))

    return both


@pytest.mark.parametrize("seed", range(EXAMPLES.max_examples // 2))
def test_the_findings_are_those_of_joins(spark, landed, seed):
    """To the letter, whatever is wrong, also with the positions of a group in the middle of the source."""
    rng = Random(seed)
    source, sink = planted(rng)
    limits = rng.choice([NARROW, NARROW, CUT, NO_ROOM])
    positions = {number: rng.choice([20, 45, 99]) for number in range(2)} | {2: 99} if seed % 2 else None
    ends = {number: Bounds(0, 99, 99 + (rng.randrange(9) == 0)) for number in range(4)}
    logs = landed(source, sink, positions=positions, sink=ends)

    require_findings_of_joins(logs, limits, len(sink))
    spark.catalog.clearCache()


def test_only_what_may_be_wrong_is_joined(spark, landed):
    """The record that is lost and the one that is there again; not those in each other's place, nor others of these keys."""
    source = [(0, number, f"k{number % 50}", str(number)) for number in range(200)]
    there = [*range(60), 7, *range(60, 90), *range(91, 120), 130, *range(121, 130), 120, *range(131, 200)]
    sink = [(0, offset, *source[number][2:], offset) for offset, number in enumerate(there)]

    asked, found = asked_and_found(landed(source, sink), NARROW)

    assert {row["value"] for row in asked.evidence.expected.collect()} == {"7", "90"}
    assert [row["value"] for row in asked.evidence.observed.collect()] == ["7", "7"]
    assert {one.verifier: (one.count, one.checked) for one in found} == {
        "duplicates": (1, 200),
        "gaps": (1, 200),
        "ordering": (3, 200),
        "values": (0, 200),
    }
    spark.catalog.clearCache()


@pytest.mark.parametrize(
    ("limits", "known", "is_narrow"),
    [
        pytest.param(NARROW, {}, True, id="few"),
        pytest.param(NO_ROOM, {}, False, id="most of the log, and too many"),
        pytest.param(replace(NARROW, most_rows=30), {}, False, id="more than may be held"),
        pytest.param(NARROW, {"compacted": {"sink": "is compacted"}}, False, id="compacted"),
        pytest.param(NARROW, {"positions": {0: 30}}, True, id="of a group"),
    ],
)
def test_where_the_logs_are_joined(spark, landed, limits, known, is_narrow):
    """Where most keys are doubtful, or compaction may have removed what answers them."""
    source = [(0, number, f"k{number % 40}", str(number)) for number in range(80)]
    sink = [(*row, 0) for row in source if row[1] % 2 or row[1] > 60]

    asked = prepared.by_key(landed(source, sink, **known), audit_identity.model("identity"), limits=limits)

    assert (asked.beyond is not None) is is_narrow
    spark.catalog.clearCache()
