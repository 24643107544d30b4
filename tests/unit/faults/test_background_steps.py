"""The background steps of a fault: they end, or are ended, and what they could not do is reported."""

from threading import Event

import pytest

from chaos.common.errors import DeadlineError, InjectionError
from chaos.faults.base import BackgroundSteps, wait_unless_stopped
from tests.unit.wording import keep


def test_steps_that_are_done_say_so():
    """The proof waits for that."""
    done = []
    steps = BackgroundSteps(lambda _stop: done.append("step"))
    assert not steps.done()

    steps.begin()

    assert steps.unfinished(120) == {}
    assert steps.done()
    assert done == ["step"]


def test_steps_that_are_healed_end_early():
    """A heal does not wait for the steps that are left."""
    steps = BackgroundSteps(lambda stop: stop.wait(600))
    steps.begin()
    unfinished = steps.unfinished(0.05)
    assert list(unfinished) == ["problem"]
    assert "0.05 s" in keep(str(unfinished["problem"]))

    steps.end()
    steps.end()

    assert steps.done()


def test_what_a_step_waited_for_in_vain_is_a_fact_of_its_proof():
    """A fault that was not effective says why."""
    steps = BackgroundSteps(raising(DeadlineError("no broker took over")))
    steps.begin()

    assert steps.unfinished(120) == {"problem": "no broker took over"}
    steps.end()


def test_any_other_error_of_a_step_is_raised():
    """The nemesis writes it into the history."""
    steps = BackgroundSteps(raising(InjectionError("refused")))
    steps.begin()

    with pytest.raises(InjectionError, match="refused"):
        steps.unfinished(120)
    with pytest.raises(InjectionError, match="refused"):
        steps.done()
    steps.end()


def test_steps_that_never_began_can_be_ended():
    """An injection may fail before its steps begin, and is healed then."""
    BackgroundSteps(lambda _stop: None).end()


def test_between_two_steps_a_broker_that_does_not_answer_is_asked_again():
    """The fault itself took it down."""
    answers = iter([ConnectionRefusedError(), LookupError(), True])

    def ask():
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert wait_unless_stopped(ask, Event(), 5, "an answer")


def test_a_wait_between_two_steps_ends_with_the_steps():
    """Its answer says that the condition was not met."""
    stop = Event()
    stop.set()

    assert not wait_unless_stopped(lambda: False, stop, 5, "what never comes")


def raising(error):
    """Steps of which the first fails."""

    def fails(_stop):
        raise error

    return fails
