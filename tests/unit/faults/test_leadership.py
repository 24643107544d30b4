"""Who leads is asked once: a moment later another broker answers, which may not know of the election yet."""

from types import SimpleNamespace

from chaos.cluster import broker_disk
from chaos.faults import leadership
from chaos.faults.base import prove
from chaos.faults.leadership import ReassignedPartition, UncleanlyElected
from tests.unit.faults.wire import UsedLink
from verifiers.base import Bounds

PARTITION = ("sink", 0)


class AskedByTurns:
    """A cluster of three brokers; `leaders` are what they answer one after the other, 0 for no leader."""

    def __init__(self, folder, leaders, in_sync):
        self.broker_ids = (1, 2, 3)
        dead = SimpleNamespace(kill=lambda: None)
        self.brokers = SimpleNamespace(processes=dict.fromkeys(self.broker_ids, dead), data=lambda number: folder / str(number))
        self._leaders = iter(leaders)
        self.in_sync = lambda *_partition: in_sync
        self.offsets = lambda _topic, partitions: [Bounds(0, 7, 7)] * partitions
        self.set_topic = self.reassign = self.elect = lambda *_order, **_options: None

    def leader(self, topic, partition):
        """The next answer."""
        found = next(self._leaders)
        if not found:
            raise LookupError(f"{topic}-{partition} has no leader now")
        return found


def test_an_unclean_election_is_proved_by_the_answer_that_showed_it(tmp_path, monkeypatch):
    """The first broker does not know the new leader yet, the second does, and the third would not."""
    kafka = AskedByTurns(tmp_path, [0, 1, 3, 0], in_sync=[1])
    monkeypatch.setattr(broker_disk, "log_end", lambda data, _topic, _partition: 9 if data.name == "1" else 5)
    system = SimpleNamespace(kafka=kafka)
    injection = UncleanlyElected("broker-1", 0.0, "unclean", system, PARTITION, 1, [2, 3], [UsedLink()])

    injection.inject()
    proof = prove(injection)
    injection.background.end()

    assert (proof.effective, proof.facts["elected"], proof.facts["records_behind"]) == (True, "broker-3", 4)


def test_a_leader_that_is_alone_for_a_while(tmp_path, monkeypatch):
    """It is killed after that time; an end meanwhile spares it."""
    kafka = AskedByTurns(tmp_path, [3, 3], in_sync=[1])
    deaths, waited = [], []
    kafka.brokers.processes = dict.fromkeys(kafka.broker_ids, SimpleNamespace(kill=lambda: deaths.append(list(waited))))
    monkeypatch.setattr(broker_disk, "log_end", lambda data, _topic, _partition: 9 if data.name == "1" else 5)
    system = SimpleNamespace(kafka=kafka)

    def isolated(*, ended):
        monkeypatch.setattr(leadership.clock, "pause", lambda seconds, _stop: waited.append(seconds) or ended)
        injection = UncleanlyElected("broker-1", 0.0, "unclean", system, PARTITION, 1, [2, 3], [UsedLink()], alone_for_s=8.0)
        injection.inject()
        proof = prove(injection)
        injection.background.end()
        return proof.effective

    assert not isolated(ended=True)
    assert not deaths
    assert isolated(ended=False)
    assert deaths == [[8.0, 8.0]]


def test_a_reassignment_is_proved_by_the_answer_that_showed_it(tmp_path):
    """Likewise."""
    kafka = AskedByTurns(tmp_path, [0, 2, 0], in_sync=[2, 3])
    injection = ReassignedPartition("sink-0", 0.0, kafka, PARTITION, [1, 2, 3], [2, 3], 1)

    injection.inject()
    proof = prove(injection)

    assert (proof.effective, proof.facts["leader"]) == (True, "broker-2")
