"""Faults of one request on the real system, done to the plain application: they bite, heal twice, and leave no rule."""

from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from random import Random

import psutil
import pytest

from chaos.common import clock
from chaos.common.history import History
from chaos.contract.base import Topic, Topics
from chaos.engine.processes import ManagedProcess
from chaos.engine.triggers import hold_request
from chaos.faults.base import FaultContext, prove
from chaos.faults.requests import LateRequest
from chaos.loader.declaration import FillSource
from chaos.scenario.system import SystemSpec
from tests.integration.conftest import application as declared_application
from tests.integration.conftest import declared, endpoints, proved_and_healed

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

FRAMES = {
    "lose a request": {"kind": "lose_request", "when": {"request": "TxnOffsetCommit", "nth": 2}},
    "lose a request, keep the connection": {"kind": "lose_request", "when": {"request": "Produce"}, "connection": "kept"},
    "lose a response": {"kind": "lose_response", "when": {"request": "EndTxn", "nth": 2}},
    "delay a request": {"kind": "delay_request", "when": {"request": "AddPartitionsToTxn"}, "for": "1s"},
    "delay a response": {"kind": "delay_request", "when": {"request": "AddOffsetsToTxn", "at": "response"}, "for": "1s"},
    "late request": {"kind": "late_request", "when": {"request": "EndTxn"}, "for": "20s"},
}
HOLDS = {
    "hold requests": {"kind": "hold_requests", "request": "EndTxn", "link": "app->*", "for": "10s"},
    "hold responses": {
        "kind": "hold_requests",
        "request": "Fetch",
        "at": "response",
        "link": "broker-*->leader(datasink, 0)",
        "for": "5s",
    },
    "hold and lose": {
        "kind": "hold_requests",
        "request": "Produce",
        "link": "app->leader(datasink, 0)",
        "then": "lose",
        "for": "10s",
    },
}
ANSWERS = {
    "answer EndTxn": {"request": "EndTxn", "error": "CONCURRENT_TRANSACTIONS", "times": 3},
    "answer AddPartitionsToTxn": {"request": "AddPartitionsToTxn", "error": "CONCURRENT_TRANSACTIONS"},
    "answer TxnOffsetCommit": {"request": "TxnOffsetCommit", "error": "COORDINATOR_LOAD_IN_PROGRESS"},
    "answer Produce": {"request": "Produce", "error": "NOT_LEADER_OR_FOLLOWER"},
    "answer Fetch": {"request": "Fetch", "error": "NOT_LEADER_OR_FOLLOWER"},
    "answer Heartbeat": {"request": "Heartbeat", "error": "COORDINATOR_NOT_AVAILABLE"},
}
ANSWERED_IN_THE_GATE = ("answer EndTxn", "answer Produce", "answer Fetch")  # of coordinator, leader, and leader when read
KILL = {"kind": "kill_broker", "target": "receiver", "when": {"request": "EndTxn"}}
STORM = {"kind": "rebalance_storm", "for": "20s"}
PIPELINE = {"zombie": {"kind": "zombie_pipeline", "for": "8s"}}


@pytest.fixture(scope="module")
def application(chaos_session, tmp_path_factory):
    """The application under a steady trickle of records, on one worker.

    Its producers are renewed: one for the whole process hangs for ever in a call when the broker that is killed coordinates its
    group too (docs/findings/send-offsets-hangs.md).
    """
    system, folder = chaos_session.system(SystemSpec()), tmp_path_factory.mktemp("application")
    topics = Topics((Topic("datasource-frames", 3),), "datasink-frames", suffix="frames")
    pipeline = declared_application(chaos_session, batch_records=100, socket_timeout="5s")
    system.kafka.create([topics.source, topics.sink], 3)
    system.rules.begin()  # what other tests have sent on these links does not count
    pipeline.prepare(endpoints(system, "app"), topics)
    with History(folder / "history.jsonl") as history:
        instance = partial(pipeline.command, endpoints(system, "app"), topics, folder)
        subject = ManagedProcess(system.runtime, history, "pipeline", instance(1), folder, instance)
        subject.wait_until_started()
        loading = FillSource(1_000_000, 300.0).command(endpoints(system, "loader"), topics, folder)
        loader = ManagedProcess(system.runtime, history, "loader", loading, folder)
        scene = FaultContext(
            system,
            {"datasource": topics.source, "datasink": topics.sink},
            pipeline.transactional_ids(topics),
            client="app",
            group=pipeline.consumer_group(topics),
            pipeline=lambda: subject,
            source=topics.source,
            sink=topics.sink,
        )
        yield scene
        for one in (loader, subject):
            one.kill()
    system.wait_until_healthy()
    system.kafka.delete([topics.source, topics.sink])


@pytest.mark.parametrize("name", FRAMES)
def test_a_fault_of_one_request_is_effective_and_heals(application, name):
    """The frame that was asked for, by its api and its count, and no other."""
    fault = declared(FRAMES[name])
    request_hold = hold_request(name, fault.when, application, Random(1), late=isinstance(fault, LateRequest), hold_s=20)
    with removed(request_hold):
        clock.wait_until(request_hold.interception, within_s=300, reason=f"{fault.when}")
        injection = fault.prepare(replace(application, held=request_hold), Random(1))
        proof = proved_and_healed(injection)
        interception = request_hold.interception()

    assert proof.effective, f"{injection.target}: {proof.facts}"
    assert interception.api == fault.when.request
    goes_on(application)


@pytest.mark.parametrize("name", HOLDS)
def test_all_requests_of_a_kind_are_held(application, name):
    """On each link that is meant at least one."""
    injection = declared(HOLDS[name]).prepare(application, Random(1))
    proof = proved_and_healed(injection)

    assert proof.effective, f"{injection.target}: {proof.facts}"
    goes_on(application)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in ANSWERED_IN_THE_GATE else pytest.mark.nightly) for name in ANSWERS]
)
def test_a_request_is_answered_in_the_brokers_place(application, name):
    """The client takes the answer for the broker's own: it tries again, and commits."""
    fault = declared({"kind": "answer_error", "link": "app->*", "for": "20s"} | ANSWERS[name])
    proof = proved_and_healed(fault.prepare(application, Random(1)))

    assert proof.effective, proof.facts
    assert len(proof.facts["answered"]) == fault.times
    goes_on(application)


def test_a_storm_takes_partitions_of_the_application(application):
    """Twice a member of ours is given a partition that the application had."""
    proof = proved_and_healed(declared(STORM).prepare(application, Random(1)))

    assert proof.effective, proof.facts
    assert all(one["members"] and one["taken"] for one in proof.facts["rounds"])
    goes_on(application)


def test_instances_join_the_group_of_the_application_and_leave_it(application):
    """One more, with a worker and a transactional id of its own, and then the first one alone again."""
    proofs = [proved_and_healed(declared({"kind": "scale", "to": to}).prepare(application, Random(1))) for to in (2, 1)]

    assert [(proof.effective, proof.facts.get("members_before")) for proof in proofs] == [(True, 1), (True, 2)], proofs
    goes_on(application)


def test_one_process_of_the_application_is_killed(application):
    """Not its supervisor, which has the same words in its command line; it says how the process has ended."""
    subject = application.pipeline()
    supervisor = subject.process.pid
    injection = declared({"kind": "crash_process", "process": "pipelines.transactional"}).prepare(application, Random(1))
    proof = proved_and_healed(injection)

    assert proof.effective, proof.facts
    assert supervisor not in proof.facts["pids"].values()
    clock.wait_until(subject.has_ended, within_s=60, reason="the supervisor, which does not start this application again")
    subject.restart()
    goes_on(application)


def test_a_late_request_is_answered_or_had_no_effect(application):
    """The request is delivered with its receiver alive, or after its receiver was killed."""
    alive, dead = (delivered_late(application, kills_receiver=kills) for kills in (False, True))

    assert alive["outcome"] == "delivered"
    assert "error_code" in alive
    assert "effective" not in alive
    assert dead["effective"] is False
    assert "no broker answered" in dead["problem"]


def delivered_late(scene, *, kills_receiver):
    """The facts that the heal of a late EndTxn reports."""
    fault = declared(FRAMES["late request"])
    request_hold = hold_request("late", fault.when, scene, Random(1), late=True, hold_s=20)
    with removed(request_hold):
        clock.wait_until(request_hold.interception, within_s=300, reason=f"{fault.when}")
        held = replace(scene, held=request_hold)
        injection, kill = fault.prepare(held, Random(1)), declared(KILL).prepare(held, Random(1))
        injection.inject()
        assert prove(injection).effective
        if kills_receiver:
            kill.inject()
            assert prove(kill).effective
        facts = injection.heal()
    kill.heal()
    goes_on(scene)
    return facts


def test_a_zombie_that_dies_before_it_wakes_up_had_no_effect(application):
    """No broker has refused it, whatever its process table says."""
    injection = declared(PIPELINE["zombie"]).prepare(application, Random(1))
    injection.inject()
    assert prove(injection).effective
    for pid in injection.pids.values():
        psutil.Process(pid).kill()
    outcome = injection.heal()

    assert outcome["effective"] is False
    assert "ended with -9" in outcome["problem"]
    goes_on(application)


def test_a_zombie_or_its_successor_is_fenced(application):
    """The one that initialised the transactional.id last keeps it: if it was paused in a transaction, that is the zombie."""
    injection = declared(PIPELINE["zombie"]).prepare(application, Random(1))
    injection.inject()
    proof = prove(injection)
    goes_on(application)
    outcome = injection.heal()
    injection.heal()

    assert proof.effective
    assert outcome["fenced"]
    assert "effective" not in outcome
    goes_on(application)


def goes_on(scene):
    """The system is healthy, no rule is left, and the application commits."""
    scene.system.wait_until_healthy(180)
    assert scene.system.rules.armed() == []
    scene.pipeline().listen()
    clock.wait_until(
        lambda: any(said["event"] == "committed" for said in scene.pipeline().listen()),
        within_s=300,
        reason="the application to commit again",
    )


@contextmanager
def removed(request_hold):
    """Whatever happens, its rule goes."""
    try:
        yield
    finally:
        request_hold.remove()
