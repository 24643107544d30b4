from threading import Event

import pytest
from confluent_kafka import KafkaError, KafkaException

from pipelines import patience
from pipelines.patience import HungError, within


def test_a_call_that_comes_back_is_told_its_limit():
    """In a thread, and its end is waited for."""
    told = []

    within(7.0, told.append, "call")

    assert told == [7.0]


def test_what_the_call_raises_is_raised():
    """As if there were no thread."""

    def fails(_limit_s):
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    with pytest.raises(KafkaException, match="TIMED_OUT"):
        within(7.0, fails, "call")


def test_a_call_that_does_not_come_back_is_given_up(monkeypatch):
    """And may come back later."""
    monkeypatch.setattr(patience, "_GRACE_S", 0.01)
    never = Event()

    with pytest.raises(HungError, match=r"send_offsets did not come back within 0.06 s, its limit was 0.05 s"):
        within(0.05, lambda _limit_s: never.wait(30), "send_offsets")

    never.set()
