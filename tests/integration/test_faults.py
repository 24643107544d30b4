"""Every fault on the real system: it is effective, it heals, it heals twice, and the system is healthy after it.

Of two faults that break one link at once, the link is whole again when both are healed, in whatever order.

The gate tries each kind once, as it stands first in `FAULTS`, and the four shapes of a partition; the night tries all.
"""

from contextlib import contextmanager
from functools import partial
from random import Random

import pytest

from chaos.cluster import protocol
from chaos.common import clock
from chaos.faults import containers
from chaos.faults.answer_error import AnswerError
from chaos.faults.kafka_state import RebalanceStorm
from chaos.faults.pipeline_process import CrashProcess, Scale, ZombiePipeline
from chaos.faults.registry import FAULTS as KINDS
from chaos.faults.requests import DelayRequest, HoldRequests, LateRequest, LoseRequest, LoseResponse
from chaos.faults.services import CrashService
from chaos.faults.spark_executors import CrashExecutor
from tests.integration.conftest import await_growth, declared, proved_and_healed

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

OF_REQUESTS = (AnswerError, DelayRequest, HoldRequests, LateRequest, LoseRequest, LoseResponse)
REPEATED = ("rolling_restart", "chase_leader")
SLOWED = {"crash ": "500ms", "executor": "500ms", "python": "500ms", "driver": "150ms"}  # words of a name, and by how much
LINK = "spark->broker-2"
CUT = {"kind": "cut_link", "link": LINK, "for": "5s"}
THROTTLE = {"kind": "throttle_link", "link": LINK, "rate": "64KB/s", "for": "5s"}
FAULTS = {
    "cut one way": {"kind": "cut_link", "link": "broker-1->broker-2", "for": "2s"},
    "cut both ways": {"kind": "cut_link", "link": "broker-*<->controller", "for": "2s"},
    "cut clients": {"kind": "cut_link", "link": "*->leader(datasink, 1)", "for": "2s"},
    "blackhole up": {"kind": "blackhole_link", "link": "spark->leader(datasink, 0)", "stream": "up", "for": "10s"},
    "blackhole down": {"kind": "blackhole_link", "link": "loader->leader(datasource, 0)", "stream": "down", "for": "10s"},
    "delay": {"kind": "delay_link", "link": "spark->*", "stream": "down", "latency": "200ms", "for": "10s"},
    "reset": {"kind": "reset_link", "link": "spark->leader(datasink, 0)", "for": "30s"},
    "throttle": {"kind": "throttle_link", "link": "spark->*", "rate": "200KB/s", "for": "30s"},
    "slice": {"kind": "slice_link", "link": "spark->*", "stream": "down", "size": "100B", "every": "5ms", "for": "30s"},
    "cut after bytes": {"kind": "cut_after_bytes", "link": "loader->*", "bytes": "20KB", "stream": "up", "for": "30s"},
    "cut after bytes down": {"kind": "cut_after_bytes", "link": "spark->*", "bytes": "4KB", "stream": "down", "for": "30s"},
    "flapping": {"kind": "flapping_link", "link": "spark->leader(datasink, 0)", "period": "600ms", "for": "10s"},
    "isolate": {"kind": "partition_network", "shape": "isolate", "target": "leader(datasink, 0)", "from": "all", "for": "5s"},
    "split": {"kind": "partition_network", "shape": "split", "groups": [[1], [2, 3]], "how": "cut", "for": "2s"},
    "bridge": {"kind": "partition_network", "shape": "bridge", "target": "controller", "for": "5s"},
    "one way": {"kind": "partition_network", "shape": "one_way", "target": "broker-1", "loses": "outgoing", "for": "5s"},
    "kill coordinator": {"kind": "kill_broker", "target": "transaction_coordinator(1)"},
    "kill follower": {"kind": "kill_broker", "target": "follower(datasink, 0)"},
    "kill controller": {"kind": "kill_broker", "target": "controller"},
    "terminate": {"kind": "terminate_broker", "target": "leader(datasink, 0)"},
    "rolling restart": {"kind": "rolling_restart", "how": "terminate"},
    "chase the leader": {"kind": "chase_leader", "target": "leader(datasink, 0)", "times": 2, "restart_after": "0s"},
    "power loss": {"kind": "power_loss", "target": "leader(datasource, 0)"},
    "full disk": {"kind": "log_dir_full", "target": "leader(datasink, 0)"},
    "prefer leader": {"kind": "prefer_leader", "target": "leader(datasink, 0)"},
    "reassign leader": {"kind": "reassign_partition", "target": "leader(datasink, 0)", "for": "2s"},
    "pause leader": {"kind": "pause_broker", "target": "leader(datasource, 0)", "for": "2s"},
    "crash all executors": {"kind": "crash_executor", "target": "executor(all)"},
    "crash any executor": {"kind": "crash_executor", "target": "executor(any)"},
    "crash the busiest executor": {"kind": "crash_executor", "target": "executor(busiest)"},
    "crash the executor of a worker": {"kind": "crash_executor", "target": "executor(2)"},
    "crash python workers": {"kind": "crash_python_worker"},
    "crash the python daemon": {"kind": "crash_python_daemon", "target": "executor(any)"},
    "pause an executor past its heartbeat": {"kind": "pause_executor", "for": "14s"},
    "pause python workers": {"kind": "pause_python_worker", "target": "executor(all)", "for": "2s"},
    "zombie executor": {"kind": "zombie_executor", "for": "1s"},
    "crash a worker": {"kind": "crash_worker", "target": "worker-1"},
    "crash any worker": {"kind": "crash_worker"},
    "crash the master": {"kind": "crash_master"},
    "crash the master and what it knows": {"kind": "crash_master", "state": "lost"},
    "pipeline crashed": {"kind": "crash_pipeline"},
    "pipeline ended in order": {"kind": "terminate_pipeline"},
    "pipeline paused": {"kind": "pause_pipeline", "for": "1s"},
    "driver killed before it commits": {"kind": "crash_before_commit"},
    "commit deleted": {"kind": "damage_checkpoint", "what": "commit_deleted"},
    "commit and id deleted": {"kind": "damage_checkpoint", "what": "metadata_deleted"},
    "offsets torn": {"kind": "damage_checkpoint", "what": "offsets_torn", "repair": "batch_removed"},
    "checkpoint lost": {"kind": "damage_checkpoint", "what": "lost"},
    "older checkpoint": {"kind": "damage_checkpoint", "what": "older_copy", "restore_after": "1s"},
    "group offsets deleted": {"kind": "delete_group_offsets", "repair": "seeded"},
    "hanging transaction": {"kind": "hanging_transaction", "partition": 1, "for": "1s"},
    "unclean election": {"kind": "unclean_election", "target": "leader(datasource, 0)"},
}
_TRIES = 3  # the task of a Python worker may end before the worker is frozen, and the proof says so: `in_tasks` is empty then


def of_gate(name):
    """Whether the gate tries it: what is declared in another way, or ends several brokers one by one, has its like there."""
    kind = FAULTS[name]["kind"]
    first = next(one for one, fault in FAULTS.items() if fault["kind"] == kind)
    return kind == "partition_network" or (name == first and kind not in REPEATED)


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if of_gate(name) else pytest.mark.nightly) for name in FAULTS])
def test_a_fault_is_effective_and_heals(running, name):
    """Its effect is visible on the wire or in the process table, and gone after the heal."""
    fault = declared(FAULTS[name])
    if "link" in FAULTS[name]:
        await_growth(running.scene)
    with slowed(running.scene, next((latency for word, latency in SLOWED.items() if word in name), "")):
        if isinstance(fault, CrashExecutor):
            clock.wait_until(partial(all_busy, running.scene), within_s=300, reason="every executor to have a task")
        for _ in range(_TRIES):
            fault.approach(running.scene)
            injection = fault.prepare(running.scene, Random(1))
            proof = proved_and_healed(injection)
            if proof.facts.get("in_tasks") != []:
                break

    assert proof.effective, f"{injection.target}: {proof.facts}"
    running.scene.system.wait_until_healthy(180)


@pytest.mark.parametrize("other", [THROTTLE, pytest.param(CUT, marks=pytest.mark.nightly)])
def test_a_cable_stays_pulled_until_nobody_pulls_it(running, other):
    """A throttle breaks connections when it is healed: that must not mend what another fault has cut."""
    address = running.scene.system.addresses.client("spark", 2)
    first, second = injected(running.scene, "first", CUT), injected(running.scene, "second", other)

    second.heal()
    refused = protocol.refused(address)
    first.heal()

    assert refused
    assert protocol.answers(address)
    running.scene.system.wait_until_healthy()


def test_two_toxics_of_one_kind_are_two(running):
    """Each delays by its own time, and goes by itself."""
    address = running.scene.system.addresses.client("spark", 2)
    slow = {"kind": "delay_link", "link": LINK, "latency": "400ms", "stream": "up", "for": "5s"}
    first, second = injected(running.scene, "first", slow), injected(running.scene, "second", slow)

    both_s = quickest(address)
    first.heal()
    one_s = quickest(address)
    second.heal()

    assert both_s >= 0.8
    assert 0.4 <= one_s < 0.8
    assert quickest(address) < 0.4
    running.scene.system.wait_until_healthy()


def test_every_fault_of_the_catalogue_is_tried_here():
    """A fault that is added without its test on the real system is a defect."""
    elsewhere = {*OF_REQUESTS, CrashProcess, RebalanceStorm, Scale, ZombiePipeline}  # test_protocol_faults.py
    elsewhere |= {CrashService}  # test_services.py
    elsewhere |= {fault for fault in KINDS.values() if fault.__module__ == containers.__name__}  # test_container_faults.py
    assert {type(declared(fault)) for fault in FAULTS.values()} | elsewhere == set(KINDS.values())


@contextmanager
def slowed(scene, latency):
    """A pipeline whose tasks take seconds, if there is a latency: what is crashed is in the middle of a batch."""
    if not latency:
        yield
        return
    delay = {"kind": "delay_link", "link": "spark->*", "stream": "down", "latency": latency, "for": "60s"}
    injection = declared(delay).prepare(scene, Random(1))
    try:
        injection.inject()
        injection.proof()
        yield
    finally:
        injection.heal()


def all_busy(scene):
    """Whether each executor is in the middle of a task, so that any of them takes one with it."""
    active = [state for state in scene.spark_app().executors().values() if state.active]
    return bool(active) and all(state.active_tasks > 0 for state in active)


def injected(scene, name, fault):
    """A fault in force."""
    injection = declared({"name": name} | fault).prepare(scene, Random(1))
    injection.inject()
    return injection


def quickest(address):
    """The quickest of a few pings, because a busy machine makes single ones slow."""
    return min(protocol.ping(address, within_s=60) for _ in range(5))
