"""Faults to which the system does not react: each of them says that it had no effect.

The processes here ignore every signal, leaders stay where they are, positions are kept, and Spark counts no task as lost.
docs/proofs.md says where the other faults have such a test.
"""

import os
import re
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

from chaos.cluster import protocol
from chaos.cluster.spark import Executor, ExecutorState
from chaos.faults import (
    broker_disks,
    broker_processes,
    kafka_state,
    leadership,
    spark_daemons,
    spark_executors,
    spark_python_workers,
)
from chaos.faults.base import FaultContext, prove
from chaos.faults.broker_disks import FullBrokers
from chaos.faults.broker_processes import ChasedLeader, KilledBrokers, PausedBrokers, RestartedInTurn, TerminatedBrokers
from chaos.faults.kafka_state import DeletedOffsets, DeleteGroupOffsets, HangingTransaction, OpenTransaction
from chaos.faults.leadership import PreferredLeader, ReassignedPartition, UncleanlyElected
from chaos.faults.links import BlackholedLinks, CutLinks, FlappingLinks
from chaos.faults.network_partitions import PartitionNetwork
from chaos.faults.registry import FAULTS
from chaos.faults.spark_daemons import CrashedMaster, CrashedWorkers
from chaos.faults.spark_executors import CrashedExecutors
from chaos.faults.spark_python_workers import CrashedPythonWorkers, PausedPythonWorkers, ZombieExecutors
from tests.unit.faults.wire import UsedLink
from tests.unit.wording import keep
from verifiers.base import Bounds

TESTS = Path(__file__).parents[2]
LOG = "sink", 0
WAITS = {
    broker_disks: ("_GIVES_UP_WITHIN_S",),
    broker_processes: ("_ENDS_WITHIN_S", "_STOPS_WITHIN_S", "_TAKEN_OVER_WITHIN_S"),
    kafka_state: ("_BLOCKS_WITHIN_S",),
    leadership: ("_WITHIN_S",),
    spark_daemons: ("_MISSED_WITHIN_S",),
    spark_executors: ("_COUNTED_WITHIN_S",),
    spark_python_workers: ("_COUNTED_WITHIN_S", "_COPIED_WITHIN_S", "_RETRIED_WITHIN_S"),
}


class Unmoved:
    """A process that ignores what is done to it; its pid is that of the test, which lives."""

    spec = SimpleNamespace(name="broker-1")
    pid = os.getpid()

    def alive(self):
        return True

    is_running = alive

    def status(self):
        return "sleeping"

    def exit_code(self):
        return None

    def paused(self):
        return False

    def kill(self):
        """Nothing happens."""

    pause = suspend = kill


class Busy(Executor):
    """An executor without Python."""

    def daemons(self):
        return []


def scene(folder):
    """A system that takes every order, and where nothing happens then."""
    (folder / "sink-0").mkdir()
    processes = dict.fromkeys((1, 2, 3), Unmoved())
    kafka = SimpleNamespace(
        broker_ids=(1, 2, 3),
        brokers=SimpleNamespace(processes=processes, data=lambda _number: folder),
        address=lambda _number: ("127.0.0.1", 1),
        leader=lambda _topic, _partition: 1,
        in_sync=lambda _topic, _partition: [1, 2, 3],
        offsets=lambda _topic, partitions: [Bounds(0, 7, 7)] * partitions,
        set_topic=lambda *_setting: None,
        reassign=lambda *_order: None,
        elect=lambda *_order: None,
    )
    spark = SimpleNamespace(
        master_process=Unmoved(), workers={1: Unmoved()}, worker_ids=(1,), registered=lambda: 1, executors=list
    )
    addresses = SimpleNamespace(client_port=lambda _client: 1)
    links = (UsedLink("broker-2->broker-1", source="broker-2"),)
    system = SimpleNamespace(kafka=kafka, spark=spark, addresses=addresses, links=links)
    context = FaultContext(system, {"datasink": "sink"}, sink="sink", positions=lambda: {0: 5})
    return SimpleNamespace(
        context=context,
        system=system,
        app=SimpleNamespace(
            executors=lambda: {"0": ExecutorState("0", active=True, active_tasks=1)},
            lost_tasks=lambda _executors: 0,
            failed_in_python=lambda _executors: 0,
            speculative_tasks=lambda: 0,
        ),
        executor=Busy("0", "app-1", Unmoved()),
        link=UsedLink(),
    )


def isolated(how):
    """Broker 1 without its peers."""
    declared = {"kind": "partition_network", "shape": "isolate", "target": "broker-1", "how": how, "for": "200ms"}
    return PartitionNetwork.model_validate(declared | {"when": {"after": "0s"}})


INJECTIONS = {
    "cut_link": lambda at: CutLinks("link", 0.2, "cut", [at.link]),
    "blackhole_link": lambda at: BlackholedLinks("link", 0.2, "blackhole", [(at.link, "both")]),
    "flapping_link": lambda at: FlappingLinks("link", 0.2, "flap", [at.link], 0.02),
    "partition_network": lambda at: isolated("cut").prepare(at.context, Random(1)),
    "partition_network, blackholed": lambda at: isolated("blackhole").prepare(at.context, Random(1)),
    "kill_broker": lambda at: KilledBrokers("broker-1", 0.0, at.system, [1]),
    "terminate_broker": lambda at: TerminatedBrokers("broker-1", 0.0, at.system, [1]),
    "pause_broker": lambda at: PausedBrokers("broker-1", 0.0, at.system, [1]),
    "rolling_restart": lambda at: RestartedInTurn("all", 0.0, at.system, [1, 2, 3], "kill", 0.0),
    "chase_leader": lambda at: ChasedLeader("broker-1", 0.0, at.system, lambda: 1, 1, 2, 0.0),
    "log_dir_full": lambda at: FullBrokers("broker-1", 0.0, at.system, [1]),
    "prefer_leader": lambda at: PreferredLeader("sink-0", 0.0, at.system.kafka, LOG, [1, 2, 3], 1, 2),
    "reassign_partition": lambda at: ReassignedPartition("sink-0", 0.0, at.system.kafka, LOG, [1, 2, 3], [2, 3], 1),
    "unclean_election": lambda at: UncleanlyElected("broker-1", 0.0, "unclean", at.system, LOG, 1, [2, 3], [at.link]),
    "crash_master": lambda at: CrashedMaster("the master", 0.0, at.context, at.app, forgets=False, pipeline=None),
    "crash_worker": lambda at: CrashedWorkers("worker-1", 0.0, at.context, at.app, [1], [at.executor], 1),
    "crash_executor": lambda at: CrashedExecutors("executor-0", 0.0, at.context, at.app, [at.executor], 1),
    "crash_python_worker": lambda at: CrashedPythonWorkers("executor-0", 0.0, at.app, [at.executor], 0),
    "pause_python_worker": lambda at: PausedPythonWorkers("executor-0", 0.1, at.context, at.app, [at.executor], None),
    "zombie_executor": lambda at: ZombieExecutors("executor-0", 0.1, at.context, at.app, [at.executor], 1),
    "pause_python_worker, no copy": lambda at: PausedPythonWorkers("executor-0", 0.1, at.context, at.app, [at.executor], 0),
}


@pytest.fixture
def at(tmp_path, monkeypatch):
    """The scene, without patience; every broker answers."""
    for module, names in WAITS.items():
        for name in names:
            monkeypatch.setattr(module, name, 0.2)
    monkeypatch.setattr(protocol, "refused", lambda _address: False)
    monkeypatch.setattr(protocol, "answers", lambda _address, **_options: True)
    monkeypatch.setattr(protocol, "ping", lambda _address, _within_s: 0.001)
    monkeypatch.setattr(broker_disks, "_let_files_grow", lambda _pid, grow: grow)
    monkeypatch.setattr(broker_processes, "terminate", lambda _process: None)
    return scene(tmp_path)


@pytest.mark.parametrize("kind", INJECTIONS)
def test_a_fault_to_which_nothing_reacts_had_no_effect(at, kind):
    """It was injected without an error, and its proof denies it."""
    injection = INJECTIONS[kind](at)

    injection.inject()
    proof = prove(injection)
    if hasattr(injection, "background"):
        injection.background.end()

    assert not proof.effective


def test_an_open_transaction_that_blocks_nobody_had_no_effect(at):
    """The last stable offset is beyond its record."""
    fault = HangingTransaction.model_validate({"kind": "hanging_transaction", "for": "1s", "when": {"after": "0s"}})

    proof = OpenTransaction("datasink-0", 0.0, fault, at.context, offsets=[5]).proof()

    assert not proof.effective
    assert "last stable offset" in keep(proof.facts["problem"])


@pytest.mark.parametrize("before", [{0: 5}, {}], ids=["still there", "never there"])
def test_offsets_that_are_still_there_or_never_were_have_not_been_deleted(at, before):
    """The pipeline was killed; that alone is another fault."""
    fault = DeleteGroupOffsets.model_validate({"kind": "delete_group_offsets", "when": {"after": "0s"}})
    deleted = DeletedOffsets("the group", 0.0, fault, at.context, None, pids={"pipeline": 4711}, before=before)

    assert not deleted.proof().effective


def test_the_page_about_proofs_is_true_of_the_code():
    """Each kind is there with its proof, and with tests that exist; those of this module are about that kind."""
    page = (TESTS.parent / "docs" / "proofs.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", page, re.MULTILINE))
    assert rows.keys() == FAULTS.keys()
    for kind, row in rows.items():
        proof, cited = row.split(" | ")
        assert proof == FAULTS[kind].proved_by
        tests = re.findall(r"`([\w/.]+)::(\w+)`", cited)
        assert tests, f"{kind} names no test"
        for file, name in tests:
            assert f"def {name}(" in (TESTS / file).read_text(encoding="utf-8"), f"{kind}: {file}::{name}"
            if name == test_a_fault_to_which_nothing_reacts_had_no_effect.__name__:
                assert kind in INJECTIONS
