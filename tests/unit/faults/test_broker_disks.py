"""A loss of power counts only where it threw away something of the log that was meant."""

from random import Random
from types import SimpleNamespace

import pytest

from chaos.cluster import broker_disk
from chaos.cluster.broker_disk import ThrownAway
from chaos.faults.base import FaultContext
from chaos.faults.broker_disks import PowerLoss
from tests.unit.faults.wire import FakeHeldRequest, interception

TOPICS = {"datasource": "source-1", "datasink": "sink-1"}


class Killed:
    """A broker's process."""

    spec = SimpleNamespace(name="broker-2")

    def alive(self):
        return True

    def kill(self):
        """It is dead at once."""

    def exit_code(self):
        return -9


def proof_of(monkeypatch, target, lost, flushed=(), spared=frozenset()):
    """The proof of a loss of power at broker 2, or at all three brokers, when each of them lost this."""

    def lose_power(_data, whole):
        assert whole == spared
        return dict.fromkeys(lost, ThrownAway(3, 7, 100))

    monkeypatch.setattr(broker_disk, "lose_power", lose_power)
    kafka = SimpleNamespace(
        broker_ids=(1, 2, 3),
        leader=lambda _topic, _partition: 2,
        followers=lambda _topic, _partition: [2],
        controller=lambda: 2,
        group_partition=lambda _group: ("__consumer_offsets", 5),
        transaction_partition=lambda name: ("__transaction_state", int(name[-1])),
        brokers=SimpleNamespace(processes=dict.fromkeys((1, 2, 3), Killed()), data=lambda number: number, down=list),
    )
    system = SimpleNamespace(kafka=kafka, hooks=None)
    held = FakeHeldRequest(interception("app->broker-2"))
    context = FaultContext(system, TOPICS, ("app-0", "app-1", "app-2"), group="g", held=held)
    fault = PowerLoss.model_validate(
        {"kind": "power_loss", "target": target, "flushed": flushed, "when": {"request": "EndTxn"}}
    )
    injection = fault.prepare(context, Random(1))
    injection.inject()
    return injection.proof()


@pytest.mark.parametrize(
    ("target", "lost", "effective"),
    [
        ("leader(datasink, 0)", ["sink-1-0", "__consumer_offsets-2"], True),
        ("leader(datasink, 0)", ["sink-1-1", "source-1-0", "__consumer_offsets-2"], False),
        ("follower(datasource, 2)", ["source-1-2"], True),
        ("follower(datasource, 2)", ["source-1-1"], False),
        ("transaction_coordinator(1)", ["__transaction_state-1"], True),
        ("transaction_coordinator(1)", ["__transaction_state-2", "sink-1-0"], False),
        ("group_coordinator", ["__consumer_offsets-5"], True),
        ("group_coordinator", ["__consumer_offsets-4"], False),
        ("broker-2", ["sink-1-1"], True),
        ("broker-2", ["__consumer_offsets-2", "other-0"], False),
        ("all", ["source-1-0"], True),
        ("controller", ["__transaction_state-1"], False),
        ("receiver", ["__transaction_state-1"], True),
        ("receiver", ["other-0"], False),
        ("leader(datasink, 0)", [], False),
    ],
)
def test_what_was_meant_must_be_lost(monkeypatch, target, lost, effective):
    """Records must be lost of the named partition, of a coordinator's state, or of the run's topics."""
    proof = proof_of(monkeypatch, target, lost)

    assert proof.effective is effective
    assert ("problem" in proof.facts) is not effective


@pytest.mark.parametrize(
    ("target", "lost", "effective"),
    [
        ("all", ["__transaction_state-7"], True),
        ("all", ["source-1-0"], True),
        ("all", ["__consumer_offsets-3"], False),
        ("leader(datasink, 0)", ["__transaction_state-7"], True),
        ("group_coordinator", ["__consumer_offsets-5"], False),
    ],
)
def test_what_is_flushed_is_not_meant(monkeypatch, target, lost, effective):
    """Nothing of the output and of the positions may be lost; the state of transactions is meant, whatever the target is."""
    spared = {"sink-1", "__consumer_offsets"}

    proof = proof_of(monkeypatch, target, lost, ["datasink", "__consumer_offsets"], spared)

    assert proof.effective is effective


def test_the_proof_names_the_log_that_was_meant_and_what_it_lost(monkeypatch):
    """And what was kept, where nothing of it was lost."""
    good = proof_of(monkeypatch, "leader(datasink, 0)", ["sink-1-0"])
    vain = proof_of(monkeypatch, "leader(datasink, 0)", ["__consumer_offsets-2"])

    assert good.facts["meant"] == ["sink-1-0"]
    assert good.facts["thrown_away"] == {"broker-2": {"sink-1-0": {"since": 3, "until": 7, "bytes": 100}}}
    assert vain.facts["problem"] == "broker-2 lost nothing of sink-1-0"
