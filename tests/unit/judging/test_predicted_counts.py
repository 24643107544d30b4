"""The prediction of a control: a number, a range, or some; and further findings of its verifier."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from chaos.grammar.counts import Counts, fits
from tests.unit.judging.test_verdict import findings, judged
from verifiers.base import Finding, Verdict

COUNTS: TypeAdapter[dict[str, int | str]] = TypeAdapter(Counts)


def verdict(predicted, **found):
    """The verdict of a run whose only control finds this."""
    all_ = findings()
    said = Verdict.INVALID if any(found.values()) else Verdict.VALID
    all_[2] = Finding("duplicates", "sink", said, sum(found.values()), 100, found)
    return judged(found=all_, expect={"duplicates": predicted}).verdict


@pytest.mark.parametrize(
    ("predicted", "found", "expected"),
    [
        ("100..400", 99, Verdict.INVALID),
        ("100..400", 100, Verdict.VALID),
        ("100..400", 400, Verdict.VALID),
        ("100..400", 401, Verdict.INVALID),
        ("100..", 99, Verdict.INVALID),
        ("100..", 10**6, Verdict.VALID),
        ("1..", 0, Verdict.INVALID),
        ("7..7", 7, Verdict.VALID),
    ],
)
def test_a_range_has_both_its_ends(predicted, found, expected):
    """One duplicate of a control that makes hundreds is another run than the one that is declared."""
    assert verdict({"duplicate": predicted}, duplicate=found) is expected


@given(low=st.integers(1, 500), width=st.integers(0, 500), found=st.integers(0, 1200), other=st.integers(0, 2))
def test_a_control_is_as_predicted_only_within_its_range_and_without_other_anomalies(low, width, found, other):
    """Whatever the numbers are: an anomaly that is not named is never a part of what was predicted."""
    expected = low <= found <= low + width and not other

    assert (verdict({"duplicate": f"{low}..{low + width}"}, duplicate=found, other=other) is Verdict.VALID) is expected


@given(found=st.integers(0, 9), other=st.integers(0, 9))
def test_one_of_two_may_be_absent(found, other):
    """A range that begins at 0 names what may be there, beside what must."""
    is_valid = verdict({"duplicate": "1..", "other": "0..3"}, duplicate=found, other=other) is Verdict.VALID

    assert is_valid is (found > 0 and other <= 3)


@pytest.mark.parametrize("said", ["source", "sink"])
def test_no_prediction_excuses_another_verifier(said):
    """Some duplicates are predicted: lost records are none, and duplicates of the source are not those of the sink."""
    all_ = findings(**{f"{said}_gaps": Verdict.INVALID})
    all_[2] = Finding("duplicates", "sink", Verdict.INVALID, 9, 100, {"duplicate": 9})

    assert judged(found=all_, expect={"duplicates": {"duplicate": "some"}}).verdict is Verdict.INVALID


@pytest.mark.parametrize(
    "text", ["..5", "5..4", "a..b", "-1..3", "1...3", "1..3..5", "0..0", " 1..2", "1.. 2", 0, True, 1.5, "few"]
)
def test_what_is_no_count(text):
    """Each is refused when the file is read."""
    with pytest.raises(ValidationError):
        COUNTS.validate_python({"duplicate": text})


@pytest.mark.parametrize("counts", [{"a": "0..5"}, {"a": "0..", "b": "0..9"}])
def test_a_control_that_need_not_find_anything(counts):
    """It would be caught by finding nothing."""
    with pytest.raises(ValidationError, match="let at least one begin above 0"):
        COUNTS.validate_python(counts)


@pytest.mark.parametrize("wanted", [3, "3..3", "3..", "0..3", "some"])
def test_three_fit(wanted):
    """Each in its way."""
    assert COUNTS.validate_python({"a": wanted, "b": 1})["a"] == wanted
    assert fits(wanted, 3)


@pytest.mark.parametrize(
    ("absent", "expected"), [(0, Verdict.VALID), (10, Verdict.VALID), (11, Verdict.UNKNOWN), (99, Verdict.UNKNOWN)]
)
def test_a_workload_of_which_nobody_knows_and_that_is_nowhere(absent, expected):
    """A few unknown outcomes are the faults' own; a topic that most records never came into is another workload."""
    ledger = Finding("ledger", "source", Verdict.VALID, 0, 100, {"absent": absent})
    outcome = judged(found=[ledger, *findings()], workload={"records": 100})

    assert outcome.verdict is expected
    assert [f"{absent} of 100 records have an unknown outcome" in problem for problem in outcome.problems] == [True] * (
        absent > 10
    )
