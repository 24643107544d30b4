"""The background steps of a fault: they end, or is ended, and what it could not do is said."""

from threading import Event

import pytest

from chaos.common.errors import DeadlineError, InjectionError
from chaos.faults.base import BackgroundSteps, until


def test_a_steps_that_is_through_says_so():
    """Its proof waits for that."""
    done = []
    steps = BackgroundSteps(lambda _stop: done.append("step"))
    assert not steps.done()

    steps.begin()

    assert steps.missing(120) == {}
    assert steps.done()
    assert done == ["step"]


def test_a_steps_that_is_healed_ends_early():
    """A heal does not wait for the rounds that are left."""
    steps = BackgroundSteps(lambda stop: stop.wait(600))
    steps.begin()
    assert steps.missing(0.05) == {"problem": "the steps of this fault were not done after 0.05 s"}

    steps.end()
    steps.end()

    assert steps.done()


def test_what_a_step_waited_for_in_vain_is_a_fact_of_its_proof():
    """A fault that did not bite says why."""
    steps = BackgroundSteps(raising(DeadlineError("nobody took over")))
    steps.begin()

    assert steps.missing(120) == {"problem": "nobody took over"}
    steps.end()


def test_any_other_error_of_a_step_is_raised():
    """The nemesis writes it into the history."""
    steps = BackgroundSteps(raising(InjectionError("refused")))
    steps.begin()

    with pytest.raises(InjectionError, match="refused"):
        steps.missing(120)
    with pytest.raises(InjectionError, match="refused"):
        steps.done()
    steps.end()


def test_a_steps_that_never_began_can_be_ended():
    """An injection may fail before its steps begins, and is healed then."""
    BackgroundSteps(lambda _stop: None).end()


def test_between_two_steps_who_does_not_answer_is_asked_again():
    """A broker that is down is the point of it."""
    answers = iter([ConnectionRefusedError(), LookupError(), True])

    def ask():
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert until(ask, Event(), 5, "an answer")


def test_a_wait_between_two_steps_ends_with_the_steps():
    """It says that it was not the condition that ended it."""
    stop = Event()
    stop.set()

    assert not until(lambda: False, stop, 5, "what never comes")


def raising(error):
    """Steps of which the first fails."""

    def fails(_stop):
        raise error

    return fails
