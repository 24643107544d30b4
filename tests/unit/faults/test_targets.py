"""Receiver and sender: the brokers at the ends of the frame that the trigger holds."""

from random import Random

import pytest

from chaos.common.errors import InjectionError
from chaos.faults.targets import resolve_brokers, resolve_links
from chaos.grammar.targets import broker_target, link_pattern
from tests.unit.faults.wire import FakeFrame, FakeRules, scene, trip


def aimed(text, known, **changes):
    """The brokers that a target means while this frame is held."""
    return resolve_brokers(broker_target(text), scene(FakeRules(), held=FakeFrame(known), **changes), Random(1))


def test_receiver_and_sender_are_the_ends_of_the_frame():
    """Whoever leads or coordinates: it is this very broker that has the request, or is about to."""
    marker = trip("broker-2->broker-1", "WriteTxnMarkers")

    assert aimed("receiver", marker) == ([1], "broker-1 (receiver)")
    assert aimed("sender", marker) == ([2], "broker-2 (sender)")
    assert aimed("receiver", trip("app->broker-2")) == ([2], "broker-2 (receiver)")


def test_a_client_is_no_broker_to_be_killed():
    """There is a fault for it."""
    with pytest.raises(
        InjectionError, match="the sender of EndTxn on app->broker-1 is no broker; to crash the client: crash_pipe"
    ):
        aimed("sender", trip())


@pytest.mark.parametrize("held", [FakeFrame(None), None])
def test_without_a_held_frame_there_is_no_receiver(held):
    """The trigger is not one of a request, or its frame has never come."""
    with pytest.raises(InjectionError, match="there is no receiver: no request is held"):
        resolve_brokers(broker_target("receiver"), scene(FakeRules(), held=held), Random(1))


def test_pipeline_is_whatever_is_under_test():
    """One matrix can be crossed with pipelines of different clients."""
    app, between = scene(FakeRules()), scene(FakeRules(), held=FakeFrame(trip("app->broker-2")))

    assert [link.name for link in resolve_links(link_pattern("pipeline->*"), app, Random(1))[0]] == [
        "app->broker-1",
        "app->broker-2",
    ]
    assert resolve_links(link_pattern("pipeline->receiver"), between, Random(1))[1] == "app->broker-2 (pipeline->receiver)"


def test_links_of_a_client_that_does_not_run_here():
    """The fake system has no Spark."""
    with pytest.raises(InjectionError, match=r"no link fits spark->\*"):
        resolve_links(link_pattern("spark->*"), scene(FakeRules()), Random(1))
