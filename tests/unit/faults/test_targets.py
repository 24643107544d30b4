"""Receiver and sender: the brokers at the ends of the request that the trigger holds."""

from random import Random

import pytest

from chaos.common.errors import InjectionError
from chaos.faults.targets import resolve_brokers, resolve_links
from chaos.grammar.targets import broker_target, link_pattern
from tests.unit.faults.wire import FakeHeldRequest, FakeRules, context, interception


def aimed(text, known, **changes):
    """The brokers that a target means while this request is held."""
    return resolve_brokers(broker_target(text), context(FakeRules(), held=FakeHeldRequest(known), **changes), Random(1))


def test_receiver_and_sender_are_the_ends_of_the_held_request():
    """Not the broker that leads or coordinates: the very one that sends this request, or is about to receive it."""
    marker = interception("broker-2->broker-1", "WriteTxnMarkers")

    assert aimed("receiver", marker) == ([1], "broker-1 (receiver)")
    assert aimed("sender", marker) == ([2], "broker-2 (sender)")
    assert aimed("receiver", interception("app->broker-2")) == ([2], "broker-2 (receiver)")


def test_a_client_is_not_a_broker_to_be_killed():
    """The message names the fault for it."""
    with pytest.raises(
        InjectionError,
        match="the sender of EndTxn on app->broker-1 is not a broker; to crash the client, write kind",
    ):
        aimed("sender", interception())


@pytest.mark.parametrize("held", [FakeHeldRequest(None), None])
def test_without_a_held_request_there_is_no_receiver(held):
    """The trigger is not one of a request, or its request has never come."""
    with pytest.raises(InjectionError, match="there is no receiver: no request is held"):
        resolve_brokers(broker_target("receiver"), context(FakeRules(), held=held), Random(1))


def test_pipeline_is_the_client_under_test():
    """One matrix can be crossed with pipelines of different clients."""
    app, between = context(FakeRules()), context(FakeRules(), held=FakeHeldRequest(interception("app->broker-2")))

    assert [link.name for link in resolve_links(link_pattern("pipeline->*"), app, Random(1))[0]] == [
        "app->broker-1",
        "app->broker-2",
    ]
    assert resolve_links(link_pattern("pipeline->receiver"), between, Random(1))[1] == "app->broker-2 (pipeline->receiver)"


def test_links_of_a_client_that_does_not_run_here():
    """The fake system has no Spark."""
    with pytest.raises(InjectionError, match=r"no link fits spark->\*"):
        resolve_links(link_pattern("spark->*"), context(FakeRules()), Random(1))
