"""A storm of rebalances counts only what it takes from the pipeline's own members."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from chaos.cluster.members import Member, Members
from chaos.faults import kafka_state
from chaos.faults.base import FaultContext
from chaos.faults.kafka_state import Storm
from tests.unit.wording import keep


@dataclass
class FakeGroup:
    """A group, and a consumer that joins it.

    Attributes:
        members: client ids of those that are there; an exception is raised instead.
        gives: how many partitions each new member is given, in order; the last of them for ever.
    """

    members: object
    gives: list = field(default_factory=lambda: [1])
    joined: int = 0

    def described(self, group):
        assert group == "g"
        if isinstance(self.members, Exception):
            raise self.members
        return Members(True, tuple(Member(name, None, name, frozenset()) for name in self.members))  # noqa: FBT003

    def subscribe(self, _topics, on_assign):
        self.joined += 1
        on_assign(self, [None] * (self.gives.pop(0) if len(self.gives) > 1 else self.gives[0]))

    def poll(self, _within_s):
        return None

    def close(self):
        pass


def storm(monkeypatch, group, hold_s):
    """A storm in this group, a round every hundredth of a second."""
    monkeypatch.setattr(kafka_state, "_member", lambda _context: group)
    system = SimpleNamespace(kafka=group)
    return Storm("the group g", hold_s, 0.01, FaultContext(system, {}, group="g", source="source"))


def proved(injection):
    """Its proof, and what its heal reports."""
    injection.inject()
    proof = injection.proof()
    return proof, injection.heal()


def test_a_storm_is_proved_by_partitions_that_move_to_members_of_ours(monkeypatch):
    """Twice; a round in which ours was given none does not count."""
    proof, healed = proved(storm(monkeypatch, FakeGroup(["app", "app"], [1, 0, 2]), 120))

    assert proof.effective
    assert proof.facts["rounds"][:3] == [{"members": 2, "taken": taken} for taken in (1, 0, 2)]
    assert healed["partitions_taken"] >= 3


@pytest.mark.parametrize(
    ("members", "gives"),
    [
        ([], [3]),
        (["chaos-storm"], [3]),
        (["app"], [0]),
    ],
    ids=["nobody", "ours alone", "nothing given"],
)
def test_a_storm_that_takes_nothing_from_the_pipeline_is_not_effective(monkeypatch, members, gives):
    """A member of ours that is alone in the group is given everything, and nothing was rebalanced."""
    proof, healed = proved(storm(monkeypatch, FakeGroup(members, gives), 0.3))

    assert not proof.effective
    assert keep(proof.facts["problem"])
    assert healed == {"generations_joined": 0, "partitions_taken": 0}


def test_a_storm_that_cannot_ask_the_coordinator_says_so(monkeypatch):
    """It is not repeated against a broken cluster."""
    group = FakeGroup(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
    proof, _healed = proved(storm(monkeypatch, group, 120))

    assert not proof.effective
    assert "TIMED_OUT" in proof.facts["problems"][0]
    assert group.joined == 0
