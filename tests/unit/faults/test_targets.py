"""Receiver and sender: the brokers at the ends of the request that the trigger holds."""

from dataclasses import dataclass
from random import Random
from types import SimpleNamespace

import pytest

from chaos.common.errors import DeadlineError, InjectionError
from chaos.faults import targets
from chaos.faults.broker_processes import resolve_running
from chaos.faults.targets import partition_of, resolve_brokers, resolve_links
from chaos.grammar.targets import broker_target, link_pattern
from tests.unit.faults.wire import FakeHeldRequest, FakeRules, context, interception
from tests.unit.wording import keep


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
        match=r"EndTxn on app->broker-1 .*kind: crash_pipeline",
    ) as caught:
        aimed("sender", interception())
    keep(str(caught.value))


@pytest.mark.parametrize("held", [FakeHeldRequest(None), None])
def test_without_a_held_request_there_is_no_receiver(held):
    """The trigger is not one of a request, or its request has never come."""
    with pytest.raises(InjectionError, match="receiver") as caught:
        resolve_brokers(broker_target("receiver"), context(FakeRules(), held=held), Random(1))
    keep(str(caught.value))


def test_pipeline_is_the_client_under_test():
    """One matrix can be crossed with pipelines of different clients."""
    app, between = context(FakeRules()), context(FakeRules(), held=FakeHeldRequest(interception("app->broker-2")))

    assert [link.name for link in resolve_links(link_pattern("pipeline->*"), app, Random(1))[0]] == [
        "app->broker-1",
        "app->broker-2",
    ]
    assert resolve_links(link_pattern("pipeline->receiver"), between, Random(1))[1] == "app->broker-2 (pipeline->receiver)"


def test_a_broker_sends_requests_to_itself():
    """Markers, if it coordinates transactions of its own partitions; faults of links leave that link alone."""
    wire = context(FakeRules())

    def names(**options):
        return [link.name for link in resolve_links(link_pattern("broker-*->broker-2"), wire, Random(1), **options)[0]]

    assert names() == ["broker-1->broker-2"]
    assert names(to_itself=True) == ["broker-1->broker-2", "broker-2->broker-2"]


def test_links_of_a_client_that_does_not_run_here():
    """The fake system has no Spark."""
    with pytest.raises(InjectionError, match=r"no link fits spark->\*"):
        resolve_links(link_pattern("spark->*"), context(FakeRules()), Random(1))


def coordinators(seen, declared=(), text="transaction_coordinator"):
    """The broker that coordinates, where ``orders-N`` is in partition N, which broker N leads; and the partition."""
    one = context(FakeRules(seen_ids=seen), transactional_ids=declared)
    one.system.kafka.transaction_partition = lambda id_: ("__transaction_state", int(id_.removeprefix("orders-")))
    one.system.kafka.leader = lambda _topic, partition: partition
    target = broker_target(text)
    return resolve_brokers(target, one, Random(1))[0], partition_of(target, one)[1]


def test_without_declared_ids_the_one_that_was_on_the_wire_counts():
    """The id comes from the links under test, unless ids are declared."""
    seen = {"loader->broker-1": "orders-1", "app->broker-2": "orders-2"}

    assert coordinators(seen) == ([2], 2)
    assert coordinators(seen, ("orders-1", "orders-2")) == ([1], 1)
    assert coordinators(seen, ("orders-1", "orders-2"), "transaction_coordinator(1)") == ([2], 2)


def test_no_transactional_id_was_on_the_wire(monkeypatch):
    """It is waited for, and the error says what was looked for, and where."""
    monkeypatch.setattr(targets, "_WITHIN_S", 0.1)

    with pytest.raises(DeadlineError, match=r"app->\*") as caught:
        coordinators({"loader->broker-1": "orders-1"})
    keep(str(caught.value))


def test_which_id_is_that_of_a_partition_must_be_declared():
    """The wire does not say it."""
    with pytest.raises(InjectionError, match=r"partition 1 .*transactional_ids") as caught:
        coordinators({"app->broker-2": "orders-2"}, text="transaction_coordinator(1)")
    keep(str(caught.value))


def led_by(*leaders, ended):
    """The broker that ``leader(orders, 0)`` means, while the metadata name these, one after the other."""
    one = context(FakeRules())
    one.topics["orders"] = "orders-1"
    names = list(leaders)
    one.system.kafka.leader = lambda _topic, _partition: names.pop(0) if len(names) > 1 else names[0]
    one.system.kafka.brokers.ended = ended
    return resolve_brokers(broker_target("leader(orders, 0)"), one, Random(1))[0]


def test_a_broker_that_is_down_leads_nothing_whatever_the_metadata_say():
    """Until its session has expired they name the one that was killed; the next one is meant."""
    assert led_by(1, 1, 2, ended=[1]) == [2]


def test_a_partition_whose_leader_is_down_and_is_not_replaced_has_none(monkeypatch):
    """Nobody is killed a second time."""
    monkeypatch.setattr(targets, "_WITHIN_S", 0.05)

    with pytest.raises(DeadlineError, match=r"broker-1 \(leader\(orders, 0\)\) does not run"):
        led_by(1, ended=[1])


def test_any_broker_is_one_that_runs():
    """The other one is down."""
    one = context(FakeRules())
    one.system.kafka.brokers.ended = [2]

    assert {tuple(resolve_brokers(broker_target("any"), one, Random(seed))[0]) for seed in range(20)} == {(1,)}


@pytest.mark.parametrize("target", ["broker-2", "all"])
def test_to_a_broker_that_is_down_nothing_can_be_done(target):
    """Its exit code, and that it refuses connections, would prove the second of two faults."""
    one = context(FakeRules())
    one.system.kafka.brokers.processes = {1: Ended("broker-1", ended=False), 2: Ended("broker-2", ended=True)}

    with pytest.raises(InjectionError, match=r"^broker-2 is down already") as caught:
        resolve_running(broker_target(target), one, Random(1))
    keep(str(caught.value))


@dataclass
class Ended:
    """A process, or what is left of it."""

    name: str
    ended: bool

    @property
    def spec(self):
        return SimpleNamespace(name=self.name)

    def alive(self):
        return not self.ended
