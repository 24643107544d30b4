"""A fault that takes its course in the background: it ends, or is ended, and what it could not do is said."""

from threading import Event

import pytest

from chaos.common.errors import DeadlineError, InjectionError
from chaos.faults.background import Course, until


def test_a_course_that_is_through_says_so():
    """Its proof waits for that."""
    done = []
    course = Course(lambda _stop: done.append("step"))
    assert not course.through()

    course.begin()

    assert course.missing(120) == {}
    assert course.through()
    assert done == ["step"]


def test_a_course_that_is_healed_ends_early():
    """A heal does not wait for the rounds that are left."""
    course = Course(lambda stop: stop.wait(600))
    course.begin()
    assert course.missing(0.05) == {"problem": "not through after 0.05 s"}

    course.end()
    course.end()

    assert course.through()


def test_what_a_step_waited_for_in_vain_is_a_fact_of_its_proof():
    """A fault that did not bite says why."""
    course = Course(raising(DeadlineError("nobody took over")))
    course.begin()

    assert course.missing(120) == {"problem": "nobody took over"}
    course.end()


def test_any_other_error_of_a_step_is_raised():
    """The nemesis writes it into the history."""
    course = Course(raising(InjectionError("refused")))
    course.begin()

    with pytest.raises(InjectionError, match="refused"):
        course.missing(120)
    with pytest.raises(InjectionError, match="refused"):
        course.through()
    course.end()


def test_a_course_that_never_began_can_be_ended():
    """An injection may fail before its course begins, and is healed then."""
    Course(lambda _stop: None).end()


def test_between_two_steps_who_does_not_answer_is_asked_again():
    """A broker that is down is the point of it."""
    answers = iter([ConnectionRefusedError(), LookupError(), True])

    def ask():
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert until(ask, Event(), 5, "an answer")


def test_a_wait_between_two_steps_ends_with_the_course():
    """It says that it was not the condition that ended it."""
    stop = Event()
    stop.set()

    assert not until(lambda: False, stop, 5, "what never comes")


def raising(error):
    """Steps of which the first fails."""

    def fails(_stop):
        raise error

    return fails
