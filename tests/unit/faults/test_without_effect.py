"""Faults to which the system does not react: each of them says that it had no effect.

The processes here ignore every signal, leaders stay where they are, positions are kept, and Spark counts no task as lost.
`NO_EFFECT` names the test of every fault, here or in another module.
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
_NOTHING_REACTS = "unit/faults/test_without_effect.py::test_a_fault_to_which_nothing_reacts_had_no_effect"
_UNUSED_LINK = "integration/test_vacuous.py::test_a_fault_on_a_link_that_nobody_uses_did_not_bite"
_CONTAINERS = "integration/test_container_faults.py::test_a_fault_of_containers_is_effective_and_heals"
_TOXICS = "unit/faults/test_link_toxics.py::test_a_toxic_is_effective_when_clients_have_met_it"
NO_EFFECT = {
    "answer_error": ("unit/faults/test_answer_error.py::test_fewer_answers_than_declared_are_no_proof",),
    "blackhole_link": (
        _NOTHING_REACTS,
        _UNUSED_LINK,
    ),
    "chase_leader": (_NOTHING_REACTS,),
    "crash_before_commit": ("unit/faults/test_checkpoint.py::test_a_driver_whose_tasks_do_not_end_is_let_run_on",),
    "crash_executor": (_NOTHING_REACTS,),
    "crash_master": (_NOTHING_REACTS,),
    "crash_pipeline": ("unit/faults/test_pipeline_process.py::test_a_process_that_is_still_there_was_not_crashed",),
    "crash_process": ("unit/faults/test_pipeline_process.py::test_a_process_that_survives_was_not_crashed",),
    "crash_python_daemon": ("unit/faults/test_spark.py::test_a_daemon_without_workers_was_killed_for_nothing",),
    "crash_python_worker": (_NOTHING_REACTS,),
    "crash_service": ("unit/faults/test_services.py::test_a_service_that_is_still_there_was_not_killed",),
    "crash_worker": (_NOTHING_REACTS,),
    "cut_after_bytes": (
        _TOXICS,
        "integration/test_vacuous.py::test_a_limit_that_no_connection_reaches_did_not_bite",
    ),
    "cut_link": (
        _NOTHING_REACTS,
        _UNUSED_LINK,
    ),
    "damage_checkpoint": ("unit/faults/test_checkpoint.py::test_a_checkpoint_without_a_finished_batch_is_not_damaged",),
    "delay_link": (
        "unit/faults/test_links.py::test_a_link_is_delayed_when_only_a_ping_through_it_is_late",
        _UNUSED_LINK,
    ),
    "delay_request": ("unit/faults/test_requests.py::test_a_delayed_request_is_effective_while_it_is_held",),
    "delete_group_offsets": (
        "unit/faults/test_without_effect.py::test_offsets_that_are_still_there_or_never_were_have_not_been_deleted",
    ),
    "disconnect": (_CONTAINERS,),
    "flapping_link": (
        _NOTHING_REACTS,
        _UNUSED_LINK,
    ),
    "freeze": (_CONTAINERS,),
    "hanging_transaction": ("unit/faults/test_without_effect.py::test_an_open_transaction_that_blocks_nobody_had_no_effect",),
    "hold_requests": (
        "unit/faults/test_requests.py::test_a_hold_is_effective_when_every_link_that_carries_such_requests_holds_one",
    ),
    "kill_broker": (
        _NOTHING_REACTS,
        "unit/faults/test_hooks.py::test_a_hook_that_succeeds_and_kills_no_broker_is_not_effective",
    ),
    "late_request": (
        "unit/faults/test_requests.py::test_a_late_request_that_no_broker_answers_had_no_effect",
        "integration/test_protocol_faults.py::test_a_late_request_is_answered_or_had_no_effect",
    ),
    "limit_cpu": (_CONTAINERS,),
    "limit_disk": (_CONTAINERS,),
    "log_dir_full": (_NOTHING_REACTS,),
    "lose_request": ("unit/faults/test_requests.py::test_a_request_that_we_did_not_swallow_is_not_lost",),
    "lose_response": ("unit/faults/test_requests.py::test_a_request_that_we_did_not_swallow_is_not_lost",),
    "out_of_memory": (_CONTAINERS,),
    "partition_network": (_NOTHING_REACTS,),
    "pause_broker": (_NOTHING_REACTS,),
    "pause_executor": ("unit/faults/test_spark.py::test_a_paused_executor_was_busy_or_is_missed",),
    "pause_pipeline": (
        "unit/faults/test_pipeline_process.py::test_a_pipeline_that_was_never_stopped_was_not_paused",
        "unit/faults/test_pipeline_process.py::test_a_pause_that_is_ended_before_a_timeout_it_names_had_no_effect",
    ),
    "pause_python_worker": (_NOTHING_REACTS,),
    "power_loss": (
        "unit/faults/test_broker_disks.py::test_what_was_meant_must_be_lost",
        "integration/test_vacuous.py::test_a_loss_of_power_that_spares_the_log_that_was_meant_did_not_bite",
    ),
    "prefer_leader": (_NOTHING_REACTS,),
    "reassign_partition": (_NOTHING_REACTS,),
    "rebalance_storm": (
        "unit/faults/test_kafka_state.py::test_a_storm_that_takes_nothing_from_the_pipeline_is_not_effective",
        "integration/test_vacuous.py::test_a_storm_in_a_group_without_members_did_not_bite",
    ),
    "reset_link": (
        _TOXICS,
        _UNUSED_LINK,
    ),
    "rolling_restart": (_NOTHING_REACTS,),
    "scale": ("unit/faults/test_pipeline_process.py::test_a_pipeline_whose_new_instances_join_no_group_was_not_scaled",),
    "slice_link": (
        _TOXICS,
        _UNUSED_LINK,
    ),
    "terminate_broker": (_NOTHING_REACTS,),
    "terminate_pipeline": (
        "unit/faults/test_pipeline_process.py::test_a_pipeline_that_does_not_end_when_it_is_told_to_was_not_terminated",
    ),
    "throttle_link": (
        _TOXICS,
        _UNUSED_LINK,
    ),
    "unclean_election": (_NOTHING_REACTS,),
    "zombie_executor": (_NOTHING_REACTS,),
    "zombie_pipeline": (
        "unit/faults/test_pipeline_process.py::test_a_zombie_that_died_of_something_else_had_no_effect",
        "integration/test_protocol_faults.py::test_a_zombie_that_dies_before_it_wakes_up_had_no_effect",
    ),
}
"""Kind of fault -> the tests, below `tests/`, in which it has no effect and its proof says so."""
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
    """A reworded proof must be reworded on the page, too."""
    page = (TESTS.parent / "docs" / "proofs.md").read_text(encoding="utf-8")
    listed = page.partition("## Find the proof of a fault")[2].partition("\n## ")[0]

    assert dict(re.findall(r"^\* `(\w+)`: (.*)$", listed, re.MULTILINE)) == {
        kind: fault.proved_by for kind, fault in FAULTS.items()
    }


def test_every_fault_has_a_test_in_which_it_has_no_effect():
    """A test that `NO_EFFECT` names exists; one of this module is about that kind."""
    assert NO_EFFECT.keys() == FAULTS.keys()
    for kind, tests in NO_EFFECT.items():
        assert tests, f"{kind} names no test"
        for test in tests:
            file, _, name = test.partition("::")
            assert f"def {name}(" in (TESTS / file).read_text(encoding="utf-8"), f"{kind}: {test}"
            if test == _NOTHING_REACTS:
                assert kind in INJECTIONS
