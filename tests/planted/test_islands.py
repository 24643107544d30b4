"""Islands find what the verifiers find, to the letter: in every planted log, and in random ones.

The tests of the four verifiers are imported and run again here, with islands in their place.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.planted.examples import EXAMPLES
from tests.planted.log import BEGAN_MS, Expected, Judge, Log, Record, clean, in_words, ledger
from tests.planted.test_against_reference import damaged
from tests.planted.test_duplicates import *  # noqa: F403 - each of its tests is asked of islands
from tests.planted.test_gaps import *  # noqa: F403
from tests.planted.test_ordering import *  # noqa: F403
from tests.planted.test_values import *  # noqa: F403
from verifiers import VERIFIERS, arrow, duplicates, findings
from verifiers.base import Evidence, Finding, Verdict
from verifiers.ordering import Ordering
from verifiers.single_scan import groups, islands, pieces
from verifiers.single_scan.groups import Groups, Limits

BY_OFFSET = Limits(block_bits=2, least_run=0)
WITHOUT = Limits(block_bits=1, least_run=10**9)


@pytest.fixture
def judge(spark: SparkSession) -> Judge:
    """Ask islands, with blocks of four numbers, so that most of a log is proved and the rest is read again."""

    def ask(verifier: str, log: Log) -> Finding:
        found = islands.check(log.evidence(spark), BY_OFFSET)
        return next(in_words(finding) for finding in found if finding.verifier == verifier)

    return ask


def directly(evidence: Evidence) -> tuple[Finding, ...]:
    """The findings of the verifiers themselves."""
    return tuple(VERIFIERS[name].check(evidence) for name in islands.NAMES)


@st.composite
def reordered(draw: st.DrawFn) -> Log:
    """A long log, cut into pieces that are lost, repeated, moved to another partition or put elsewhere in their own."""
    records, partitions = draw(st.integers(0, 160)), draw(st.integers(1, 4))
    log = clean(records, partitions)
    rows = {home: [row for row in log.observed if row.partition == home] for home in range(partitions)}
    for _ in range(draw(st.integers(0, 5))):
        here, there = (rows[draw(st.integers(0, partitions - 1))] for _ in range(2))
        begin, length, to = (draw(st.integers(0, limit)) for limit in (40, 6, 40))
        piece = here[begin : begin + length]
        if draw(st.booleans()):
            del here[begin : begin + length]
        there[to:to] = piece * draw(st.integers(0, 2))
    spoiled = draw(st.dictionaries(st.integers(0, 160), st.sampled_from([None, "", "x", "0"]), max_size=3))
    keys = draw(st.dictionaries(st.integers(0, 160), st.sampled_from([None, "07", "7", " 7", "170"]), max_size=3))
    every = draw(st.integers(1, 9))
    observed = tuple(
        Record(
            home,
            100 * home + place + place // every,
            BEGAN_MS + place // 7,
            keys.get(place, row.key),
            spoiled.get(place, row.value),
        )
        for home, kept in rows.items()
        for place, row in enumerate(kept)
    )
    unknown = draw(st.sets(st.integers(0, 160), max_size=2))
    return replace(log.demanding(*unknown, required=False), observed=observed)


LIMITS = st.builds(
    Limits,
    block_bits=st.integers(0, 5),
    least_run=st.sampled_from([0, 3, 10**9]),
    most_groups=st.sampled_from([10, 10_000]),
    most_rows=st.sampled_from([40, 10_000]),
    most_ids=st.sampled_from([10, 10_000]),
    small_rows=st.sampled_from([0, 10_000]),
)


@EXAMPLES
@given(log=st.one_of(reordered(), reordered(), damaged()), limits=LIMITS)
def test_islands_say_what_the_verifiers_say(spark: SparkSession, log: Log, limits: Limits) -> None:
    """Whatever the damage, the size of a block and the way that is chosen: counts, examples and notes are the same."""
    evidence = log.evidence(spark)

    assert islands.check(evidence, limits) == directly(evidence)


@EXAMPLES
@given(log=reordered(), twice=st.lists(st.tuples(st.integers(0, 160), st.integers(0, 3)), max_size=3), limits=LIMITS)
def test_islands_find_what_is_demanded_first(
    spark: SparkSession, log: Log, twice: list[tuple[int, int]], limits: Limits
) -> None:
    """The first demand of a repeated id is found, whatever its partitions in the source."""
    rows = dict(enumerate(log.expected))
    more = [rows[row]._replace(partition=home, position=1000 + at) for at, (row, home) in enumerate(twice) if row in rows]
    evidence = replace(log, expected=(*log.expected, *more)).evidence(spark)

    found = islands.check(evidence, limits, unique=False)

    assert found == directly(replace(evidence, expected=islands.demanded(evidence.expected)))


@pytest.mark.parametrize("limits", [BY_OFFSET, WITHOUT])
def test_the_only_partition(spark: SparkSession, limits: Limits) -> None:
    """A line is all of it."""
    log = clean(32, 1).without(9).again(21, 40).changed(2, offset=4).changed(5, value="x").changed(28, key="028")
    evidence = log.swapped(13, 14).evidence(spark)

    found = islands.check(evidence, limits)

    assert found == directly(evidence)
    assert [finding.count for finding in found] == [1, 2, 3, 2]


@pytest.mark.parametrize("limits", [BY_OFFSET, WITHOUT])
def test_one_record_that_need_not_be_there(spark: SparkSession, limits: Limits) -> None:
    """It is there, and its block is as expected: it is told all the same."""
    found = islands.check(clean(96).demanding(30, required=False).evidence(spark), limits)

    assert found[1].counts["recovered"] == 1


@pytest.mark.parametrize("limits", [Limits(), BY_OFFSET, WITHOUT])
def test_more_late_runs_than_can_be_shown(spark: SparkSession, limits: Limits) -> None:
    """Two runs of 17 late records each: 32 of the 34 are shown, as of any finding."""
    once = clean(18, 1).observed
    again = tuple(row._replace(offset=row.offset + 30 * turn) for turn in range(3) for row in once)
    evidence = replace(clean(18, 1), observed=again).evidence(spark)

    found = islands.check(evidence, limits)

    assert found == directly(evidence)
    assert (found[2].count, len(found[2].examples)) == (34, 32)


def test_rows_of_which_only_some_have_a_position(spark: SparkSession) -> None:
    """Those without are read again, too: the last one is lost."""
    log = clean(96).demanding(93, position=None).without(93)

    found = islands.check(log.evidence(spark), BY_OFFSET)

    assert found == directly(log.evidence(spark))
    assert [(finding.count, finding.checked) for finding in found] == [(0, 95), (1, 96), (0, 95), (0, 95)]


def test_a_run_that_holds_an_offset_twice(spark: SparkSession) -> None:
    """As many rows as numbers, but one is there twice and one is missing. No log is so; it was landed twice in part."""
    log = clean(11, 1)
    places = ((10, 0), (0, 1), (1, 2), (1, 2), (3, 4))
    log = replace(log, observed=tuple(log.record(id_)._replace(offset=offset) for id_, offset in places))

    found = islands.check(log.evidence(spark), BY_OFFSET)

    assert [finding.count for finding in found] == [1, 7, 1, 0]
    assert duplicates.LANDED_TWICE in found[0].examples[0].words


def test_order_is_judged_by_islands(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sorted, and not the whole log held, whether rows are read again or not."""
    monkeypatch.delattr(Ordering, "check")
    monkeypatch.delattr(pieces, "read")
    sound, damaged = clean(96), clean(96).without(9).swapped(13, 16)

    found = [islands.check(log.evidence(spark), BY_OFFSET)[2] for log in (sound, damaged)]

    assert [(one.verdict, one.count, one.checked) for one in found] == [(Verdict.VALID, 0, 96), (Verdict.INVALID, 1, 95)]


@pytest.mark.parametrize(("most", "held"), [(4, True), (3, False)])
def test_as_many_rows_as_may_be_held(spark: SparkSession, most: int, held: bool) -> None:  # noqa: FBT001
    """Those of one block, in which a record moved."""
    evidence = clean(96).changed(3, offset=4).evidence(spark)

    found = islands.runs_of(evidence, groups.summarize(evidence, BY_OFFSET), replace(BY_OFFSET, most_rows=most))

    assert (found is not None) is held


@pytest.mark.parametrize(("most", "held"), [(4, True), (3, False)])
def test_where_they_cannot_be_held_the_log_is_read_in_pieces(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, most: int, *, held: bool
) -> None:
    """Each piece has so many offsets."""
    asked, read = [], pieces.read
    monkeypatch.setattr(pieces, "read", lambda *words: asked.append(words) or read(*words))
    evidence = clean(96).changed(3, offset=4).evidence(spark)

    found = islands.check(evidence, replace(BY_OFFSET, most_rows=most))

    assert (found, [words[2].most_rows for words in asked]) == (directly(evidence), [] if held else [most])


@pytest.mark.parametrize("limits", [Limits(), BY_OFFSET, WITHOUT, Limits(most_groups=0)])
def test_each_way_says_the_same(spark: SparkSession, limits: Limits) -> None:
    """All anomalies at once, by islands, without offsets, and by the verifiers themselves."""
    log = clean(96).without(9).again(21, 40).swapped(13, 16).changed(5, value="x").changed(64, partition=0, offset=41)
    evidence = log.changed(33, key="033").demanding(30, required=False).evidence(spark)

    found = islands.check(evidence, limits)

    assert found == directly(evidence)
    assert [finding.count for finding in found] == [1, 2, 2, 3]


SCATTERED = clean(96).demanding(9, partition=1).changed(9, partition=1, offset=141)


@pytest.mark.parametrize(("log", "limits"), [(clean(96), BY_OFFSET), (clean(96), WITHOUT), (SCATTERED, WITHOUT)])
def test_of_a_clean_log_nothing_is_read_again(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, log: Log, limits: Limits
) -> None:
    """Its blocks are sound and its groups islands, if they are asked for: no row is given to a verifier."""
    monkeypatch.delattr(islands, "_narrowed")
    monkeypatch.delattr(islands, "_directly")
    evidence = log.evidence(spark)

    found = islands.check(evidence, limits)

    assert found == directly(evidence)
    assert [(finding.verdict, finding.checked) for finding in found] == [(Verdict.VALID, 96)] * 4


def test_a_record_that_moved_within_its_block(spark: SparkSession) -> None:
    """The block has what is expected, but order is not judged by its groups; a record of another block is lost."""
    evidence = clean(96).changed(3, offset=4).without(90).evidence(spark)

    found = islands.check(evidence, BY_OFFSET)

    assert found == directly(evidence)
    assert [finding.count for finding in found] == [0, 1, 1, 0]


def test_a_block_that_lacks_a_record_and_has_another_twice(spark: SparkSession) -> None:
    """As many records as are expected, so only a fingerprint tells."""
    found = islands.check(clean(96).changed(9, key="12", value="144").evidence(spark), BY_OFFSET)

    assert [finding.count for finding in found] == [1, 1, 0, 0]


def test_where_no_id_is_demanded_twice_no_first_is_looked_for(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would cost a shuffle."""
    monkeypatch.delattr(islands, "demanded")

    found = islands.check(clean(96).without(9).evidence(spark), BY_OFFSET)

    assert [finding.count for finding in found] == [0, 1, 0, 0]


@pytest.mark.parametrize("limits", [BY_OFFSET, WITHOUT])
@pytest.mark.parametrize(("id_", "value"), [(9, "82"), (9, "81"), (57, "3249")])
def test_an_id_that_is_demanded_twice(spark: SparkSession, limits: Limits, id_: int, value: str) -> None:
    """Its first row by place demands it; the log that holds it twice has a duplicate, though both logs are alike."""
    log = clean(96)
    row = Expected(id_, 0, value, required=True, position=40)
    evidence = replace(log, expected=(*log.expected, row)).again(id_, 40).evidence(spark)

    found = islands.check(evidence, limits, unique=False)

    assert found == directly(log.again(id_, 40).evidence(spark))
    assert [finding.count for finding in found] == [1, 0, 1, 0]


def rows_of(part: Groups) -> list[tuple[int, ...]]:
    """Groups as rows."""
    return list(zip(*(column.tolist() for column in part.columns.values()), strict=True))


@pytest.mark.parametrize("limits", [BY_OFFSET, WITHOUT])
def test_groups_are_merged_in_any_order(spark: SparkSession, limits: Limits) -> None:
    """Three parts of a log, cut anywhere and merged in any order and nesting, are the groups of the whole."""
    log = clean(96).again(21, 40).swapped(13, 16).changed(33, key="x")
    thirds = [replace(log, observed=log.observed[part::3]).evidence(spark) for part in range(3)]
    whole = groups.summarize(log.evidence(spark), limits)
    parts = [groups.summarize(third, limits) for third in thirds]

    merged = list(nested(parts))

    assert len(merged) == 12
    assert all((rows_of(one), one.by_offset, one.placed) == (rows_of(whole), whole.by_offset, whole.placed) for one in merged)


@EXAMPLES
@given(log=st.one_of(reordered(), damaged()), unplaced=st.sets(st.integers(0, 160), max_size=2), limits=LIMITS)
def test_few_rows_are_grouped_here_as_spark_groups_them(
    spark: SparkSession, log: Log, unplaced: set[int], limits: Limits
) -> None:
    """Both logs agree, whatever the limits, and also without positions of the expected rows."""
    rows = tuple(row._replace(position=None) if place in unplaced else row for place, row in enumerate(log.expected))
    evidence = replace(log, expected=rows).evidence(spark)

    by_spark, here = (islands.summarize(evidence, limits, few=few) for few in (False, True))

    for one, other in zip(by_spark, here, strict=True):
        assert (one is None) is (other is None)
        assert one is None or (rows_of(one), one.by_offset, one.placed) == (rows_of(other), other.by_offset, other.placed)


ENDS = [text for power in range(1, 19) for text in (str(10**power - 1), str(10**power))]
ODD = [
    "",
    "0",
    "-0",
    "+1",
    "01",
    " 7",
    "7 ",
    "1e3",
    "1.0",
    "-5",
    "\u0661",
    str(2**63 - 1),
    f"0{2**63 - 1}",
    str(2**63),
    "9" * 20,
    None,
]


def test_a_key_is_an_id_where_it_is_written_as_one(spark: SparkSession) -> None:
    """The quick way says what the verifiers say, at every number of digits."""
    keys = arrow.made(spark, [(key,) for key in (*ENDS, *ODD)], {"key": "string"})

    quick, slow = (decode(keys).selectExpr("key", "id").collect() for decode in (groups.decoded, findings.decoded))

    assert quick == slow
    assert [row["id"] for row in quick if row["id"] is not None] == [*map(int, ENDS), 0, 2**63 - 1]


def test_places_are_known_where_those_of_all_parts_are(spark: SparkSession) -> None:
    """The loader's records have no position, so a second read cannot be confined."""
    placed, unplaced = (groups.summarize_expected(log.evidence(spark), BY_OFFSET) for log in (clean(), ledger()))

    assert [one.placed for one in (placed, unplaced, placed.merge(unplaced), unplaced.merge(placed))] == [True, *[False] * 3]


def nested(parts: list[Groups]) -> Iterator[Groups]:
    """(a + b) + c and a + (b + c), for every order of the parts."""
    for a, b, c in permutations(parts):
        yield a.merge(b).merge(c)
        yield a.merge(b.merge(c))


@pytest.mark.parametrize(
    ("blocks", "small_rows", "directly"),
    [(1, 0, False), (12, 0, False), (13, 52, False), (13, 51, True), (24, 96, False)],
)
def test_the_verifiers_are_asked_where_most_would_be_read_again(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, blocks: int, small_rows: int, *, directly: bool
) -> None:
    """More than half of the records, of 24 blocks of four, and not few."""
    asked: list[Evidence] = []
    monkeypatch.setattr(islands, "_directly", asked.append)
    log = clean(96)
    for block in range(blocks):
        log = log.changed(12 * (block // 3) + block % 3, value="x")

    islands.check(log.evidence(spark), replace(BY_OFFSET, small_rows=small_rows))

    assert bool(asked) is directly


@pytest.mark.parametrize("few", [False, True])
def test_as_many_groups_as_may_be_held(spark: SparkSession, few: bool) -> None:  # noqa: FBT001
    """One more is too many, and then none is; whether Spark groups the rows or this process does."""
    evidence = clean(96).evidence(spark)

    found = [groups.summarize(evidence, replace(BY_OFFSET, most_groups=most), few=few) for most in (24, 23)]

    assert [one and len(rows_of(one)) for one in found] == [24, None]


@pytest.mark.parametrize("log", [clean(96).without(*range(48)), replace(clean(96), expected=clean(48).expected)])
def test_too_many_groups_on_one_side(spark: SparkSession, log: Log) -> None:
    """The other has few; the verifiers are asked."""
    evidence = log.evidence(spark)

    assert islands.check(evidence, replace(BY_OFFSET, most_groups=15)) == directly(evidence)


@pytest.mark.parametrize(("least_run", "by_offset"), [(4, True), (5, False)])
def test_runs_of_a_log_that_are_long_enough(spark: SparkSession, least_run: int, by_offset: bool) -> None:  # noqa: FBT001
    """All have four records, which is enough or not."""
    found = groups.summarize(clean(96).evidence(spark), Limits(block_bits=2, least_run=least_run))

    assert found.by_offset is by_offset


def test_a_log_without_runs_has_a_group_for_each_block(spark: SparkSession) -> None:
    """Not one for each run, of which it has as many as records: 96 in blocks of two, three lines of 32 numbers each."""
    found = groups.summarize(clean(96).evidence(spark), WITHOUT)

    assert (len(rows_of(found)), set(found["delta"].tolist()), found.by_offset) == (48, {0}, False)


def test_groups_that_were_made_otherwise_are_not_merged(spark: SparkSession) -> None:
    """Their differences of number and offset mean nothing to each other."""
    one, other = (groups.summarize(clean().evidence(spark), limits) for limits in (BY_OFFSET, WITHOUT))

    with pytest.raises(ValueError, match=r"^groups by offset and .+ cannot be merged: summarize both parts alike$"):
        one.merge(other)


@pytest.mark.parametrize("shift", [0, 10**12])
def test_a_second_read_is_confined_to_where_the_damage_is(spark: SparkSession, shift: int) -> None:
    """From the first record of the first doubtful block to the last of the last, wherever its partition begins.

    Number 8 is lost, 9 is at offset 11 and 23 at 28: a marker follows every fourth record.
    """
    log = clean(96).without(24, 63)
    moved = replace(log, observed=tuple(row._replace(offset=row.offset + shift) for row in log.observed))
    evidence = moved.evidence(spark)
    expected, observed = islands.summarize(evidence, BY_OFFSET)
    doubtful = islands._doubtful(expected, observed, 3)

    assert [(side.by_offset, side.placed) for side in (expected, observed)] == [(False, True), (True, True)]
    assert islands._span(expected, evidence, doubtful, "position") == "position BETWEEN 8 AND 23"
    assert islands._span(observed, evidence, doubtful, "offset") == f"offset BETWEEN {shift + 11} AND {shift + 28}"


@pytest.mark.parametrize(
    ("log", "plain"),
    [
        (clean(), True),
        (clean(0), True),
        (clean().without(6), True),
        (clean().changed(0, partition=1, offset=99), False),
        (replace(clean(24, 1), bounds=clean(24, 2).bounds), False),
        (clean().swapped(0, 3), False),
        (clean().swapped(0, 21), False),
        (clean().again(6, 99), False),
        (clean().again(6, 199, partition=1), False),
        (clean(2).swapped(0, 1).plus(Record(0, 1, BEGAN_MS, "3", "9")), False),
        (clean().swapped(0, 12).swapped(3, 15).swapped(6, 18).swapped(9, 21), False),
        (clean(36).swapped(12, 24).swapped(15, 27).swapped(18, 30).swapped(21, 33), False),
    ],
)
def test_where_it_is_plain_that_ids_are_dealt_in_turn(spark: SparkSession, log: Log, plain: bool) -> None:  # noqa: FBT001
    """Blocks of four numbers, as many as there are between two markers; in the last two logs, whole blocks are exchanged."""
    found = groups.summarize(log.evidence(spark), BY_OFFSET)

    assert groups.dealt_in_turn(found) is plain
    assert not groups.dealt_in_turn(found.without_offsets())


@pytest.mark.parametrize("places", [[], [(0, 2)], [(2, 0), (0, 2), (0, 0), (1, 9)]])
def test_rows_are_looked_up_by_place(spark: SparkSession, places: list[tuple[int, int]]) -> None:
    """A row at the same offset of another partition is another one, and a place may have none."""
    rows = arrow.made(
        spark, [(home, offset) for home in range(3) for offset in range(3)], {"partition": "int", "offset": "bigint"}
    )

    found = [tuple(row) for row in rows.where(findings.at(places)).collect()]

    assert sorted(found) == sorted({*places} - {(1, 9)})


def test_row_groups_that_have_no_such_place_are_not_read(spark: SparkSession, tmp_path: Path) -> None:
    """Both columns are asked of a file, so its statistics are: of a log that was landed, most is passed over."""
    spark.range(9).selectExpr("INT(id DIV 3) AS partition", "id % 3 AS offset").write.parquet(f"{tmp_path}/log")
    plan = spark.read.parquet(f"{tmp_path}/log").where(findings.at([(0, 2), (1, 0)]))._jdf.queryExecution().toString()

    pushed = plan[plan.index("PushedFilters") :].splitlines()[0]
    assert "Or(And(EqualTo(partition,0)" in pushed
    assert "EqualTo(offset,2)" in pushed or "In(offset" in pushed
