"""A source that a loader of the user's own has filled, judged by what the loader said of it."""

import pytest

from chaos.judging.judge import check
from chaos.matching import user_loader
from tests.planted.test_own_rows import BOUNDS, LINES, OF_LOGS, frame, shown, verdicts
from verifiers import evidence
from verifiers.base import Evidence

THERE = [("ann", "1", 0), ("bob", "2", 1), ("ann", "3", 0), (None, "4", 1), ("ann", "1", 0)]
SAID = ["0,ok,0,0,a,", "1,ok,1,0,b,", "2,ok,0,1,c,", "3,ok,1,1,d,", '4,ok,0,2,"e,""f""",']


@pytest.fixture
def judged(spark, tmp_path):
    """Land a source as a run does, read it again and judge it; the findings by verifier."""

    def ask(said, *records):
        ledger = tmp_path / "ledger.csv"
        ledger.write_text("\n".join(("id,outcome,partition,offset,name,error", *said, "")), encoding="utf-8")
        observed = frame(spark, *records)
        found = user_loader.of_source(spark, ledger, LINES)(observed)
        evidence.write(tmp_path, Evidence("source", found.expected, observed, BOUNDS, {}, **found.views))
        one = evidence.load(spark, tmp_path, "source")
        return {name: check(name, one, LINES) for name in (*OF_LOGS, "ledger")}

    return ask


def test_all_is_where_it_was_acknowledged(judged):
    """Every record was compared, whatever recurs."""
    findings = judged(SAID, *THERE)

    assert verdicts(findings) == {}
    assert {one.checked for one in findings.values()} == {5}


def test_a_ledger_that_claims_what_the_log_has_not(judged):
    """Behind the end of the log, and at a place that another acknowledgement has: each is named by the loader's own name."""
    findings = judged([*SAID, "5,ok,1,7,lie,", "6,ok,0,1,twice,"], *THERE)

    assert verdicts(findings) == {"gaps": ("INVALID", 2), "ledger": ("INVALID", 2)}
    assert sorted(shown(findings["ledger"])) == [("not written", "lie", 1, None), ("not written", "twice", 0, None)]
    details = {example.id: example.words for example in findings["ledger"].examples}
    assert details == {
        "lie": "acknowledged at partition 1 offset 7, which holds no record",
        "twice": "acknowledged at partition 0 offset 1, which holds key 'ann'",
    }


def test_a_record_that_nobody_sent(judged):
    """It is a phantom, named by its key."""
    findings = judged(SAID, *THERE, ("eve", "x", 1), (None, "y", 1))

    assert verdicts(findings) == {"values": ("INVALID", 2)}
    assert sorted(shown(findings["values"])) == [("phantom", "eve", 1, 2), ("phantom", "null", 1, 3)]


def test_a_retry_that_was_written_twice(judged):
    """A record that no acknowledgement names, and that is like one that was acknowledged."""
    findings = judged(SAID, *THERE, ("bob", "2", 1))

    assert verdicts(findings) == {"duplicates": ("INVALID", 1), "ordering": ("INVALID", 1)}
    assert shown(findings["duplicates"]) == [("duplicate", "bob", 1, 2)]


@pytest.mark.parametrize("there", [0, 1, 2])
def test_outcomes_that_are_not_known(judged, there):
    """They may be there, once each; those that are like no other come first, and the one too many is a duplicate."""
    more = [("bob", "2", 1), ("eve", "x", 0)][:there]

    findings = judged([*SAID, "5,unknown,,,f,"], *THERE, *more)

    assert verdicts(findings) == ({} if there < 2 else {"duplicates": ("INVALID", 1), "ordering": ("INVALID", 1)})
    gaps = findings["gaps"].counts
    assert (gaps["recovered"], gaps["absent"]) == ((1, 0) if there else (0, 1))


def test_an_acknowledgement_without_a_place(judged):
    """The record is somewhere in its partition, and must be there."""
    without = [line.replace("1,ok,1,0", "1,ok,1,") for line in SAID]

    assert verdicts(judged(without, *THERE)) == {}
    assert verdicts(judged(without, THERE[0], *THERE[2:3], (None, "4", 1, 1), THERE[4])) == {
        "gaps": ("INVALID", 1),
        "ledger": ("INVALID", 1),
    }


@pytest.mark.parametrize("there", [True, False])
def test_a_record_that_was_refused(judged, there):
    """It is no gap, and if it is there all the same, the refusal was none."""
    findings = judged([*SAID, "5,fail,,,poison,"], *THERE, *([("eve", "x", 0)] if there else []))

    assert verdicts(findings) == ({"values": ("INVALID", 1), "ledger": ("INVALID", 1)} if there else {})
    assert shown(findings["ledger"]) == ([("refused", "eve", 0, 3)] if there else [])


def test_the_order_is_that_in_which_they_were_sent(judged):
    """By the places that were acknowledged."""
    swapped = ["0,ok,0,1,a,", "1,ok,1,0,b,", "2,ok,0,0,c,", *SAID[3:]]

    assert verdicts(judged(swapped, *THERE)) == {"ordering": ("INVALID", 1)}
