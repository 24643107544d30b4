"""A sink that is a state: the last value of each key, tombstones, and a key in two partitions, with exact counts."""

import pytest

from chaos.expectation.base import ModelError, view
from chaos.expectation.definitions import Query
from chaos.expectation.forms import State
from chaos.expectation.model import Model
from chaos.judging.judge import check
from chaos.matching.row_ids import OF_STATE, last_of_each
from tests.planted.test_sql_models import AMOUNT, BOUNDS, ENDS, LINES, NAMES, ORDERS, TOTALS, frame, verdicts
from verifiers import evidence
from verifiers.base import Evidence, Verdict

BY_KEY = Model(Query(TOTALS), form=State())
SUM = f"sum(CAST({AMOUNT} AS BIGINT))"
WITH_COUNT = Model(
    Query(f"SELECT key, to_json(named_struct('total', {SUM}, 'orders', count(*))) AS value FROM orders GROUP BY key"),  # noqa: S608 - a constant
    form=State(),
)
OF_LARGE = Model(
    Query(f"SELECT key, IF({SUM} >= 38, CAST(count(*) AS STRING), NULL) AS value FROM orders GROUP BY key"),  # noqa: S608 - a constant
    form=State(),
)


def updates(total=lambda amount: amount):
    """The rows of a pipeline of running totals: one row for each order, in the partition of its key."""
    totals = {}
    for number, (key, _, _) in enumerate(ORDERS):
        totals[key] = totals.get(key, 0) + total(number % 6)
        yield key, str(totals[key]), int(key[2:]) % 2


UPDATES = list(updates())
LAST = {key: value for key, value, _ in UPDATES}


@pytest.fixture
def judged(spark, tmp_path):
    """Land a sink as a run does, read it again and judge it as a state; the findings by verifier."""

    def ask(sink, model=BY_KEY, positions=ENDS, names=NAMES):
        sources = {"orders": view(frame(spark, ORDERS))}
        observed = frame(spark, sink)
        found = model.numbering(spark, sources, positions, LINES, anywhere=False)(observed)
        told = {"unordered": found.unordered, "unsaid": found.unsaid, "anywhere": found.anywhere, "state": found.state}
        evidence.write(tmp_path, Evidence("sink", found.expected, observed, BOUNDS, positions, **found.views, **told))
        one = evidence.load(spark, tmp_path, "sink")
        return {name: check(name, one, LINES) for name in names}

    return ask


def test_running_totals(judged):
    """Sixty updates come to four values: these are compared, whatever was written before them."""
    findings = judged(UPDATES)

    assert verdicts(findings) == {}
    assert {name: one.checked for name, one in findings.items() if one.asked} == dict.fromkeys(
        ("duplicates", "gaps", "values", "offsets"), 4
    )
    assert OF_STATE in findings["ordering"].note


def test_updates_that_are_written_again(judged):
    """A batch that is replayed from its begin comes to the same state; one whose last rows are old does not."""
    assert verdicts(judged([*UPDATES, *UPDATES[40:]])) == {}

    findings = judged([*UPDATES, *UPDATES[48:52]])

    assert verdicts(findings) == {"values": ("INVALID", 4)}
    assert findings["values"].counts["wrong value"] == 4


def test_a_wrong_total_says_by_how_much(judged):
    """A batch that was counted twice makes every total too high."""
    twice = list(updates(lambda amount: amount + (1 if amount == 5 else 0)))

    findings = judged(twice)

    there = {key: value for key, value, _ in twice}
    assert verdicts(findings) == {"values": ("INVALID", sum(there[key] != LAST[key] for key in LAST))}
    for one in findings["values"].examples:
        more = int(there[one.id]) - int(LAST[one.id])
        assert one.words == f"value {there[one.id]}, expected {LAST[one.id]}: {more} too high"


def test_numbers_in_json(judged):
    """Each that differs is named."""
    right = [(key, f'{{"total":{value},"orders":15}}', 0) for key, value in LAST.items()]
    assert verdicts(judged(right, WITH_COUNT)) == {}

    wrong = [("c-0", f'{{"total":{int(LAST["c-0"]) - 7},"orders":15.5}}', 0), *right[1:]]
    findings = judged(wrong, WITH_COUNT)

    assert verdicts(findings) == {"values": ("INVALID", 1)}
    assert findings["values"].examples[0].words.endswith(": total 7 too low; orders 0.5 too high")


@pytest.mark.parametrize("value", ["7", "[7]", "null"])
def test_a_value_that_is_no_object_where_one_is_demanded(judged, value):
    """Nothing is said of how much it is wrong by."""
    right = [(key, f'{{"total":{value},"orders":15}}', 0) for key, value in LAST.items()]

    findings = judged([("c-0", value, 0), *right[1:]], WITH_COUNT)

    assert [one.words for one in findings["values"].examples] == [f"value {value}, expected {right[0][1]}"]


def test_keys_that_are_missing_and_keys_that_nothing_demands(judged):
    """Missing is one that was never written, and one that was deleted; a phantom is one too many."""
    sink = [row for row in UPDATES if row[0] != "c-3"]

    findings = judged([*sink, ("c-1", None, 1), ("eve", "1", 0)])

    assert verdicts(findings) == {"gaps": ("INVALID", 2), "values": ("INVALID", 1), "offsets": ("INVALID", 2)}
    assert findings["values"].counts["phantom"] == 1
    assert {one.id for one in findings["gaps"].examples} == {"c-1", "c-3"}


def test_a_tombstone_is_right_where_the_model_demands_no_value(judged):
    """So is a key that was never written; a value there is a phantom."""
    without = [key for key, value in LAST.items() if int(value) < 38]
    assert 0 < len(without) < 4
    right = [(key, "15", 0) for key in LAST if key not in without]

    assert verdicts(judged(right, OF_LARGE)) == {}
    assert verdicts(judged([*((key, "1", 0) for key in without), *right, *((key, None, 0) for key in without)], OF_LARGE)) == {}
    findings = judged([*right, *((key, "15", 0) for key in without)], OF_LARGE)
    assert verdicts(findings) == {"values": ("INVALID", len(without))}
    assert findings["values"].counts["phantom"] == len(without)


def test_a_key_in_two_partitions(judged):
    """Readers see two values of it: the second is found, with the place of the first; if it is old, its value is wrong, too."""
    findings = judged([*UPDATES, ("c-0", LAST["c-0"], 1)])

    assert verdicts(findings) == {"duplicates": ("INVALID", 1)}
    (found,) = findings["duplicates"].examples
    assert (found.id, found.partition) == ("c-0", 1)
    assert found.words.startswith("also at partition 0 offset ")
    assert found.words.endswith("cause: other partition")
    assert verdicts(judged([("c-0", "0", 1), *UPDATES])) == {"duplicates": ("INVALID", 1), "values": ("INVALID", 1)}


def test_a_source_that_was_not_processed_to_its_end(judged, snapshot):
    """The expected state at that point is not known."""
    (note,) = {one.note for one in judged(UPDATES, positions={0: 30, 1: 29}).values()}

    assert "(1 records are left)" in note
    assert note == snapshot


def test_a_model_that_gives_a_key_twice(spark, judged, snapshot):
    """It is no state; the key is named."""
    model = Model(Query("SELECT key, value FROM orders"), form=State())

    with pytest.raises(ModelError, match=r" 15 .* key 'c-0'") as refused:
        model.demanded(spark, {"orders": view(frame(spark, ORDERS))})
    assert str(refused.value) == snapshot
    assert {one.verdict for one in judged(UPDATES, model).values()} == {Verdict.UNKNOWN}


def test_what_compaction_has_removed_is_not_missed(spark, judged):
    """The last of each key are left of it, and come to the same."""
    left = [UPDATES[number] for number in (0, 1, 7, 56, 57, 58, 59)]

    assert verdicts(judged(left)) == {}
    assert {(row["key"], row["value"]) for row in last_of_each(frame(spark, left)).collect()} == set(LAST.items())
