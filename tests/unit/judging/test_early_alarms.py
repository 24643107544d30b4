"""What an alarm of the early audit means for the verdict."""

import pytest

from tests.unit.judging.test_verdict import GOOD, judged
from verifiers.base import Finding, Verdict


def alarm(verifier, count):
    """The early audit has counted so many so far."""
    return "auditor", "info", "alarm", {"verifier": verifier, "count": count, "checked": 50, "example": {}}


def found(verdict, count, **more):
    """Duplicates in the sink, beside what is right."""
    rest = (Finding("gaps", "sink", Verdict.VALID, 0, 100), Finding("duplicates", "source", Verdict.VALID, 0, 100))
    counted = Finding("duplicates", "sink", verdict, count, 100, {"duplicate": count}, **more)
    return [*rest, counted, Finding("ordering", "sink", Verdict.VALID, 0, 100)]


@pytest.mark.parametrize(("alarms", "left"), [((1,), 0), ((1, 3), 0), ((2, 3), 2)])
def test_an_alarm_that_the_whole_log_does_not_confirm(alarms, left):
    """A reader was given what is not there any more: UNKNOWN with both numbers, or INVALID for what is left."""
    lines = (*GOOD[:-2], *(alarm("duplicates", count) for count in alarms), *GOOD[-2:])

    outcome = judged(lines, found(Verdict.INVALID if left else Verdict.VALID, left))

    assert outcome.verdict is (Verdict.INVALID if left else Verdict.UNKNOWN)
    assert len(outcome.problems) == 1
    assert f"the early audit saw {alarms[-1]} in the sink, and {left} are left in it" in outcome.problems[0]


def test_an_alarm_that_is_confirmed():
    """The log has at least as many, so nothing was cut off."""
    lines = (*GOOD[:-2], alarm("duplicates", 2), *GOOD[-2:])

    outcome = judged(lines, found(Verdict.INVALID, 5), expect={"duplicates": {"duplicate": 5}})

    assert (outcome.verdict, outcome.problems) == (Verdict.VALID, ())


def test_an_alarm_about_what_is_not_asked():
    """Where the scenario leaves a verifier out, there is nothing to compare its alarm with."""
    lines = (*GOOD[:-2], alarm("stability", 2), alarm("duplicates", 1), *GOOD[-2:])

    outcome = judged(lines, found(Verdict.VALID, 0, asked=False))

    assert (outcome.verdict, outcome.problems) == (Verdict.VALID, ())
