"""Faults that need more brokers than replicas: a ring of majorities, and a replica that moves to a spare broker."""

from random import Random

import pytest

from chaos.faults.base import FaultContext
from chaos.scenario.system import KafkaSpec, SystemSpec
from tests.integration.conftest import declared, proved_and_healed

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

TOPIC = "wide"
WIDE = SystemSpec(kafka=KafkaSpec(brokers=5))


@pytest.fixture(scope="module")
def scene(chaos_session):
    """Five brokers, with a topic of theirs."""
    system = chaos_session.system(WIDE)
    system.kafka.create([TOPIC], 3)
    yield FaultContext(system, {"datasink": TOPIC})
    system.wait_until_healthy()
    system.kafka.delete([TOPIC])


def proved(scene, fault):
    """Inject a fault, and heal it twice; what it aimed at, and what proves it."""
    injection = declared(fault).prepare(scene, Random(1))
    proof = proved_and_healed(injection)
    scene.system.wait_until_healthy(180)
    return injection.target, proof


def test_the_auditor_outlives_a_system_that_is_rebuilt(chaos_session):
    """Another system is declared: the one that runs is ended, and the auditor's JVM is not a part of it."""
    narrow, spark = chaos_session.system(SystemSpec()), chaos_session.spark()

    wide = chaos_session.system(WIDE)

    assert (len(narrow.kafka.broker_ids), len(wide.kafka.broker_ids)) == (3, 5)
    assert chaos_session.system(WIDE) is wide
    assert chaos_session.spark() is spark
    assert spark.range(3).count() == 3


@pytest.mark.parametrize(
    ("how", "seen", "lost"), [("blackhole", "unanswered", 10), pytest.param("cut", "refused", 20, marks=pytest.mark.nightly)]
)
def test_in_a_ring_every_broker_loses_two_of_four_peers(scene, how, seen, lost):
    """Five cables are pulled, of two links each; a link has two proxies, one for the brokers and one for the controllers."""
    target, proof = proved(scene, {"kind": "partition_network", "shape": "ring", "how": how, "for": "5s"})

    assert proof.effective, proof.facts
    assert sorted(target.removeprefix("ring of ").split(", ")) == [f"broker-{number}" for number in range(1, 6)]
    assert len(proof.facts[seen]) == lost


def test_a_replica_moves_to_a_broker_that_had_none(scene):
    """As many replicas as before, one of them elsewhere."""
    _target, proof = proved(scene, {"kind": "reassign_partition", "target": "leader(datasink, 0)", "for": "1s"})

    assert proof.effective, proof.facts
    assert (len(proof.facts["now"]), len(set(proof.facts["now"]) - set(proof.facts["before"]))) == (3, 1)
