"""A log without runs: its records are scattered over the partitions, as a hash of their key would have it.

The tests of `ordering` are imported, and asked again here of pieces of four offsets.
"""

from dataclasses import replace
from random import Random

import pytest
from pyspark.sql import SparkSession

from tests.planted.examples import nightly
from tests.planted.log import BEGAN_MS, Expected, Judge, Log, Record, clean, in_words
from tests.planted.test_islands import BY_OFFSET, WITHOUT, directly
from tests.planted.test_ordering import *  # noqa: F403 - each of its tests is asked of pieces
from verifiers.base import Finding, Verdict
from verifiers.ordering import Ordering
from verifiers.single_scan import groups, islands, pieces
from verifiers.single_scan.groups import Limits

FOOLED = replace(BY_OFFSET, block_bits=4, small_rows=0)  # groups by offset are made, and most of them are not islands


@pytest.fixture
def judge(spark: SparkSession) -> Judge:
    """Ask islands, which are told that there are none."""

    def ask(verifier: str, log: Log) -> Finding:
        found = islands.check(log.evidence(spark), replace(WITHOUT, most_rows=4))
        return next(in_words(finding) for finding in found if finding.verifier == verifier)

    return ask


def scattered(records: int) -> Log:
    """Each record in any of three partitions; there, by id."""
    draw, ends = Random(7), [0, 0, 0]
    expected, observed = [], []
    for id_ in range(records):
        home = draw.randrange(3)
        expected.append(Expected(id_, home, str(id_ * id_), required=True, position=id_))
        observed.append(Record(home, 100 * home + ends[home], BEGAN_MS + id_, str(id_), str(id_ * id_)))
        ends[home] += 1
    return replace(clean(records), expected=tuple(expected), observed=tuple(observed))


@pytest.mark.parametrize("limits", [FOOLED, WITHOUT, replace(WITHOUT, most_rows=5)])
def test_of_a_clean_log_nothing_is_sorted_or_read_again(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, limits: Limits
) -> None:
    """Though no one said that its ids are demanded only once."""
    monkeypatch.delattr(islands, "_narrowed")
    monkeypatch.delattr(islands, "_directly")
    monkeypatch.delattr(Ordering, "check")

    found = islands.check(scattered(96).evidence(spark), limits, unique=False)

    assert [(finding.verdict, finding.checked) for finding in found] == [(Verdict.VALID, 96)] * 4


@pytest.mark.parametrize(("lost", "unique"), [((), True), ((), False), ((9,), True), ((9,), False)])
def test_pieces_are_read_once(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, lost: tuple[int, ...], *, unique: bool
) -> None:
    """They tell of order and of what is there twice, of a damaged log as well."""
    asked, read = [], pieces.read
    monkeypatch.setattr(pieces, "read", lambda *words: asked.append(words) or read(*words))

    found = islands.check(scattered(96).without(*lost).evidence(spark), WITHOUT, unique=unique)

    assert ([finding.count for finding in found], len(asked)) == ([0, len(lost), 0, 0], 1)


def test_a_log_most_of_which_is_wrong_is_not_read_in_pieces(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verifiers are asked directly, whatever its order."""
    monkeypatch.delattr(pieces, "read")
    log = scattered(96)
    wrong = tuple(row._replace(value="x") for row in log.expected)
    evidence = replace(log, expected=wrong).evidence(spark)

    assert islands.check(evidence, replace(WITHOUT, small_rows=0)) == directly(evidence)


@pytest.mark.parametrize("most_rows", [4, *nightly(1, 7, 10_000)])
def test_order_is_the_same_however_large_a_piece_is(spark: SparkSession, most_rows: int) -> None:
    """Late by a place, by the whole log, and for another partition's sake not at all; records without an id are left out."""
    log = scattered(48).changed(1, offset=450, partition=2).again(5, 490, 491).changed(30, key="x").changed(40, offset=1)
    evidence = log.changed(20, offset=150, partition=1).evidence(spark)
    wanted = Ordering().check(evidence)

    found = islands.check(evidence, replace(WITHOUT, most_rows=most_rows))[2]

    assert found == wanted
    assert wanted.count > 3


def test_no_more_late_records_are_shown_than_of_any_finding(spark: SparkSession) -> None:
    """All records but the first are late, in two partitions."""
    log = scattered(96)
    turned = tuple(row._replace(offset=row.partition * 100 + 99 - row.offset % 100) for row in log.observed)
    evidence = replace(log, observed=turned).evidence(spark)
    wanted = Ordering().check(evidence)

    found = islands.check(evidence, replace(WITHOUT, most_rows=50))[2]

    assert (found, len(found.examples)) == (wanted, 32)


@pytest.mark.parametrize("limits", [FOOLED, WITHOUT, replace(WITHOUT, most_rows=4), replace(WITHOUT, most_ids=0)])
@pytest.mark.parametrize("home", [0, *nightly(1, 2)])
def test_an_id_that_is_demanded_twice_and_there_twice(spark: SparkSession, limits: Limits, home: int) -> None:
    """In the same piece, in another one, in another partition; a block of both sides is alike."""
    log = scattered(96).again(50, 90 + 100 * home, partition=home)
    twice = replace(log, expected=(*log.expected, Expected(50, home, "2500", required=True, position=96)))
    evidence = twice.evidence(spark)

    found = islands.check(evidence, limits, unique=False)

    assert found == directly(replace(evidence, expected=islands.demanded(evidence.expected)))
    assert found[0].count == 1


@pytest.mark.parametrize("repeated", [(), (50,), (50, 51), (50, 90, 91)])
@pytest.mark.parametrize("most_rows", [4, *nightly(10_000)])
def test_the_blocks_that_hold_an_id_twice(spark: SparkSession, repeated: tuple[int, ...], most_rows: int) -> None:
    """A block of two numbers, of three lines: that of 50 holds 50 and 53, the next one 51 and 48."""
    log = scattered(96)
    for place, id_ in enumerate(repeated):
        log = log.again(id_, 90 + place)
    evidence = log.evidence(spark)
    limits = replace(WITHOUT, most_rows=most_rows)

    found = pieces.read(evidence, groups.summarize(evidence, limits), limits)

    assert found.repeated is not None
    assert found.repeated.tolist() == sorted({id_ // 3 // 2 * 3 + id_ % 3 for id_ in repeated})
    assert found.checked == 96 + len(repeated)


@pytest.mark.parametrize(("most", "told"), [(96, True), (95, False)])
def test_as_many_ids_as_may_be_ticked_off(spark: SparkSession, most: int, told: bool) -> None:  # noqa: FBT001
    """The 96 of 48 blocks of two numbers; the record without an id has no block to be ticked off in."""
    evidence = scattered(96).plus(Record(0, 99, BEGAN_MS, "x", "")).evidence(spark)
    limits = replace(WITHOUT, most_ids=most)

    found = pieces.read(evidence, groups.summarize(evidence, limits), limits)

    assert (found.repeated is not None) is told


@pytest.mark.parametrize("most_rows", [4, *nightly(10_000)])
@pytest.mark.parametrize(
    ("apart", "repeated", "rise"), [(0, (), True), (1, (), False), (30, (), False), (0, (50,), False), (0, (50, 95), False)]
)
def test_whether_the_ids_of_a_log_rise(
    spark: SparkSession,
    apart: int,
    repeated: tuple[int, ...],
    rise: bool,  # noqa: FBT001
    most_rows: int,
) -> None:
    """Within a piece, from one piece to the next, of one line or of two, and in each partition for itself."""
    log = scattered(96)
    home = sorted((one for one in log.observed if one.partition == 0), key=lambda one: one.offset)
    first, other = home[0], home[apart]
    swapped = [one._replace(key={first.key: other.key, other.key: first.key}.get(one.key, one.key)) for one in log.observed]
    log = replace(log, observed=tuple(swapped))
    for place, id_ in enumerate(repeated):
        log = log.again(id_, 90 + place)
    evidence, limits = log.evidence(spark), replace(WITHOUT, most_rows=most_rows)
    blocks = groups.summarize_expected(evidence, limits).ids(3)

    assert pieces.rise(evidence.observed, blocks, 3, limits) is rise
    assert pieces.rise(evidence.observed, blocks, 3, replace(limits, most_ids=95)) is (None if rise else False)


@pytest.mark.parametrize("most_rows", [3, 4])
def test_the_same_id_twice_in_a_row(spark: SparkSession, most_rows: int) -> None:
    """Whether a piece ends between the two or not: told without ticking any id off."""
    evidence = clean(3, 1).again(2, 3).evidence(spark)
    blocks = groups.summarize_expected(evidence, WITHOUT).ids(1)

    assert pieces.rise(evidence.observed, blocks, 1, replace(WITHOUT, most_rows=most_rows, most_ids=0)) is False


def test_groups_that_are_no_islands_are_made_blocks(spark: SparkSession) -> None:
    """As if offsets had been left out of account from the first."""
    evidence = scattered(96).evidence(spark)
    fooled, blocks = (groups.summarize(evidence, replace(limits, block_bits=4)) for limits in (FOOLED, WITHOUT))

    made = fooled.without_offsets()

    assert len(made["delta"]) < len(fooled["delta"])
    assert (made.by_offset, made.placed) == (blocks.by_offset, blocks.placed) == (False, False)
    assert all((made[name] == blocks[name]).all() for name in blocks.columns)
