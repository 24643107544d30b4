"""Whether a transaction was torn cannot always be told by the log alone: then others have to see it, or it is UNKNOWN."""

from types import SimpleNamespace

import pytest

from chaos.judging.judge import _undecided
from tests.unit.wording import keep
from verifiers.base import Finding, Verdict

KEPT = "one may be torn"


def of_atomicity(verdict, undecided):
    return Finding("atomicity", "sink", verdict, 0, 9, {"torn": 0, "undecided": undecided}, note=KEPT if undecided else "")


@pytest.mark.parametrize("left_out", ["gaps", "duplicates"])
def test_a_transaction_that_may_be_torn_is_unknown_where_nobody_else_would_see_it(left_out):
    scenario = SimpleNamespace(verify=("atomicity",), leave_out={left_out: "a reason"})

    (finding,) = _undecided(scenario, (of_atomicity(Verdict.VALID, 1),))

    assert finding.verdict is Verdict.UNKNOWN
    assert keep(finding.note).startswith(f"{KEPT}; ")


@pytest.mark.parametrize(
    ("verify", "left_out", "verdict", "undecided"),
    [
        (("atomicity", "gaps", "duplicates"), {}, Verdict.VALID, 1),
        (("atomicity", "transactions"), {"gaps": "a reason"}, Verdict.VALID, 1),
        (("atomicity",), {"gaps": "a reason"}, Verdict.VALID, 0),
        (("atomicity",), {"gaps": "a reason"}, Verdict.INVALID, 1),
    ],
    ids=["others are asked", "the coordinators' logs are asked", "nothing is undecided", "it is invalid anyway"],
)
def test_what_others_decide_is_left_as_it_is(verify, left_out, verdict, undecided):
    found = (of_atomicity(verdict, undecided),)

    assert _undecided(SimpleNamespace(verify=verify, leave_out=left_out), found) == found
