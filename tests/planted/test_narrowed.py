"""Narrowed queries: they read a part of the rows, and the findings equal those of all rows, to the letter."""

from dataclasses import replace
from random import Random

import pytest

from chaos.audit import logs as audit_logs
from chaos.audit import query as audit_expected
from chaos.audit.judge import judge
from chaos.matching.fast import PLAIN, sums
from tests.planted.damaged import planted
from tests.planted.examples import EXAMPLES
from tests.planted.log import land, table
from verifiers import arrow
from verifiers.single_scan.groups import Limits

COLUMNS = "partition int, offset long, key string, value string"
TIMED = f"{COLUMNS}, timestamp_ms long"
PLACED = "SELECT key, value, partition, offset FROM source"
SHARED = "SELECT key, value, partition, offset DIV 3 * 3 AS offset FROM source WHERE offset % 9 < 6"
UNPLACED = "SELECT key, value FROM source"
LAST = "SELECT key, max_by(value, struct(offset, partition)) AS value FROM source GROUP BY key"
FORMS = {
    "placed": (PLACED, {}),
    "an identity": (PLACED, {"identity": "right(coalesce(value, 'none'), 1)"}),
    "shared places": (SHARED, {}),
    "without places": (UNPLACED, {}),
    "any partition": (UNPLACED, {"anywhere": True}),
    "state": (LAST, {"state": True}),
}


@pytest.fixture(scope="module")
def landed(spark, tmp_path_factory):
    """Land a source and a sink."""

    def both(source, sink):
        folder = tmp_path_factory.mktemp("logs")  # Spark may have kept what was at a place before
        for name, rows, columns in (("source", source, COLUMNS), ("sink", sink, TIMED)):
            land(folder / name, rows, columns)
        return audit_logs.landed(spark, str(folder))

    return both


def asked_and_found(logs, query, *, identity="", anywhere=False, state=False):
    """The queries, and the findings."""
    asked = audit_expected.by_model(logs, audit_expected.model(query, identity, state=state), anywhere=anywhere)
    return asked, judge(logs, asked)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(max(1, EXAMPLES.max_examples // 3)))
def test_the_findings_are_those_of_all_rows(spark, landed, form, seed):
    """Whatever is wrong, also with the positions of a group in the middle of the source where rows have places."""
    rng = Random(f"{form} {seed}")
    source, sink = planted(rng)
    logs = landed(source, sink)
    query, options = FORMS[form]
    if query is PLACED and seed % 2:
        positions = {number: rng.choice([20, 45, 99]) for number in range(4)}
        logs = replace(logs, fixed=replace(logs.fixed, positions=positions))

    _, found = asked_and_found(logs, query, **options)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(PLAIN, "1")
        whole, expected = asked_and_found(logs, query, **options)

    assert whole.proved == 0
    assert found == expected
    spark.catalog.clearCache()


SOURCE = [(number % 2, number // 2, None if number % 40 == 7 else f"k{number % 40}", str(number)) for number in range(200)]
RIGHT = [(*row, 0) for row in SOURCE]


@pytest.mark.parametrize("query", [PLACED, UNPLACED])
@pytest.mark.parametrize(
    ("sink", "asked_about", "by"),
    [
        pytest.param(RIGHT, 0, None, id="a right sink"),
        pytest.param(RIGHT[1:], 4, "gaps", id="one is lost"),
        pytest.param([*RIGHT, (1, 900, "eve", "7", 0)], 1, "values", id="one that nothing demands"),
        pytest.param([*RIGHT, (1, 900, None, "7", 0)], 6, "duplicates", id="one without a key is there again"),
    ],
)
def test_only_what_may_be_wrong_is_asked_about(spark, landed, query, sink, asked_about, by):
    """All rows of a key, or none."""
    asked, found = asked_and_found(landed(SOURCE, sink), query)

    assert asked.evidence.observed.count() == asked_about
    assert asked.proved + asked_about == len(sink)
    wrong = {one.verifier: (one.count, one.checked) for one in found if one.count and one.verifier != "ordering"}
    assert wrong == ({} if by is None else {by: (1, 200 if by == "gaps" else 201)})
    spark.catalog.clearCache()


def test_many_doubtful_rows_are_asked_about_with_all_others(spark):
    """To take them out would cost more than it saves."""
    rows = [(0, number, f"k{number}", "v") for number in range(200)]
    due, sink = (
        arrow.frame(spark, table(one, COLUMNS)) for one in (rows, [*rows[:90], *((*row[:3], "x") for row in rows[90:])])
    )
    found = sums.Demanded(due, 200, "", placed=True)
    for few, is_narrow in ((0, False), (200, True)):
        limits = Limits(small_rows=few)
        by_sums = sums.by_sums(found, sink, anywhere=True, limits=limits)
        by_place = sums.by_place(found, sink, sums.compared(due, sink, {0: 200}, 400), limits)
        assert [by_sums.proved > 0, by_place.beyond is not None] == [is_narrow] * 2


def test_sums_tell_rows_that_recur_apart(spark):
    """Two of one row are not two of another, though the exclusive or of their prints is the same."""
    left, right = ([(0, number, "k", value) for number in range(2)] for value in ("a", "b"))
    due, sink = (arrow.frame(spark, table(one, COLUMNS)) for one in (left, right))

    assert sums.by_sums(sums.Demanded(due, 2, "", placed=True), sink, anywhere=True).proved == 0
