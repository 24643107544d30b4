"""A run that proved nothing is never green."""

from pathlib import Path
from random import Random

import pytest

from chaos.engine import run_plan
from chaos.faults.base import FaultContext
from chaos.scenario.load import load_text
from chaos.scenario.system import SystemSpec
from tests.integration.conftest import declared, proved_and_healed
from verifiers.base import Verdict

ROOT = Path(__file__).parents[2]
DELIVERY = ROOT / "examples" / "delivery" / "scenarios.yaml"
pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

IDLE = """\
version: 2
topics: {numbers: {partitions: 3}}
scenarios:
  - name: nobody-uses-this-link
    title: A blackhole in which nothing falls
    pipeline: none
    workload: {records: 2000, rate: 2000/s}
    faults:
      - {kind: KIND, link: "loader->broker-1", when: {after: 4s}, for: 3s}
"""


BELOW = """\
version: 2
topics: {numbers: {partitions: 3}}
scenarios:
  - name: loader-below-its-limit
    title: A limit of more bytes than the whole workload has
    pipeline: none
    workload: {records: 4000, rate: 1000/s}
    faults:
      - {kind: cut_after_bytes, link: "loader->*", stream: up, bytes: 1MB, when: {after: 1s}, for: 2s}
"""


FATAL = """\
version: 2
topics: {numbers: {partitions: 3}}
scenarios:
  - name: rows-answered-out-of-order
    title: An idempotent producer is told that its sequence numbers are wrong, which is fatal to it (KIP-98)
    pipeline: none
    workload: {records: 4000, rate: 1000/s}
    faults:
      - {kind: answer_error, request: Produce, error: OUT_OF_ORDER_SEQUENCE_NUMBER, link: loader->*, when: {after: 1s}, for: 9s}
"""


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "blackhole_link", "link": "loader->*", "for": "1s"},
        {"kind": "delay_link", "link": "loader->*", "latency": "50ms", "for": "1s"},
        {"kind": "cut_link", "link": "loader->*", "for": "1s"},
        {"kind": "flapping_link", "link": "loader->*", "period": "1s", "for": "3s"},
        {"kind": "reset_link", "link": "loader->*", "for": "1s"},
        {"kind": "throttle_link", "link": "loader->*", "rate": "1KB/s", "for": "1s"},
        {"kind": "slice_link", "link": "loader->*", "size": "1B", "for": "1s"},
        {"kind": "cut_after_bytes", "link": "loader->*", "bytes": "1B", "for": "1s"},
    ],
)
def test_a_fault_on_a_link_that_nobody_uses_did_not_bite(system, fault):
    """The toxic is there, and it proves nothing."""
    injection = declared(fault).prepare(FaultContext(system, {}), Random(1))

    injection.inject()
    proof = injection.proof()
    injection.heal()

    assert not proof.effective
    assert system.toxiproxy.disturbed() == []


def test_a_loss_of_power_that_spares_the_log_that_was_meant_did_not_bite(system):
    """The broker loses something of other logs; of this one, to which nobody writes, there is nothing to lose."""
    system.kafka.create(["nobody-writes"], 3)
    fault = declared({"kind": "power_loss", "target": "leader(datasink, 0)"})
    injection = fault.prepare(FaultContext(system, {"datasink": "nobody-writes"}), Random(1))

    proof = proved_and_healed(injection)
    system.wait_until_healthy(180)
    system.kafka.delete(["nobody-writes"])

    assert not proof.effective
    assert proof.facts["problem"].endswith("lost nothing of nobody-writes-0")


def test_a_storm_in_a_group_without_members_did_not_bite(system):
    """A member of ours would be given all partitions, and take them from nobody."""
    system.kafka.create(["nobody-reads"], 3)
    context = FaultContext(system, {}, group="nobody", source="nobody-reads")
    injection = declared({"kind": "rebalance_storm", "for": "3s"}).prepare(context, Random(1))

    injection.inject()
    proof = injection.proof()
    healed = injection.heal()
    system.kafka.delete(["nobody-reads"])

    assert not proof.effective
    assert "the group has no members" in proof.facts["problem"]
    assert healed == {"generations_joined": 0, "partitions_taken": 0}


@pytest.mark.parametrize("kind", ["blackhole_link", pytest.param("cut_link", marks=pytest.mark.nightly)])
def test_a_scenario_whose_fault_did_not_bite_is_unknown(chaos_session, kind):
    """All verifiers say VALID, and the run is UNKNOWN, with the reason. That a link was used once is not enough."""
    file = load_text(IDLE.replace("KIND", kind), ROOT / "scenarios.yaml")

    report = chaos_session.run(file.scenarios[0], SystemSpec(), "", lambda _event: None).report

    assert {finding.verdict for finding in report.findings} == {Verdict.VALID}
    assert report.verdict is Verdict.UNKNOWN
    assert report.problems == (f"{kind}-1: it had no effect",)


def test_a_limit_that_no_connection_reaches_did_not_bite(chaos_session):
    """The loader sends something on these links, which was enough once, and a transfer of our own is cut."""
    scenario = load_text(BELOW, ROOT / "scenarios.yaml").scenarios[0]

    report = chaos_session.run(scenario, SystemSpec(), "", lambda _event: None).report

    assert report.verdict is Verdict.UNKNOWN
    assert report.problems == ("cut_after_bytes-1: it had no effect",)
    assert "to reach its limit" in report.faults[0].proof["problem"]


def test_a_fatal_answer_is_told_as_the_pipelines_own_error(chaos_session):
    """The fault had its effect, and what the program said when it ended stands in the report."""
    scenario = load_text(FATAL, ROOT / "scenarios.yaml").scenarios[0]

    report = chaos_session.run(scenario, SystemSpec(), "", lambda _event: None).report

    assert report.verdict is Verdict.UNKNOWN, [finding for finding in report.findings if finding.verdict is Verdict.INVALID]
    assert [fault.effective for fault in report.faults] == [True]
    (problem,) = report.problems
    assert problem.startswith("drain: InconclusiveError: the loader ended with 1 after ")
    assert (
        "the last line of logs/loader.log: cimpl.KafkaException: KafkaError{FATAL,code=OUT_OF_ORDER_SEQUENCE_NUMBER" in problem
    )


@pytest.mark.nightly
def test_an_application_that_aborts_every_transaction_is_unknown(chaos_session, monkeypatch):
    """Its rows are in the log and nobody can ever read them: the fault has its effect, and what it proves is nothing."""
    monkeypatch.setattr(run_plan, "_DRAINS_WITHIN_S", 30.0)
    often, always = "one in ten: 0.1, ", "always: 1, "
    text = DELIVERY.read_text(encoding="utf-8")
    assert text.count(often) == 1
    file = load_text(text.replace(often, always), DELIVERY)

    report = chaos_session.run(file.scenario("aborts-always-coordinator-killed"), file.system, "", lambda _event: None).report

    assert report.verdict is Verdict.UNKNOWN, [finding for finding in report.findings if finding.verdict is Verdict.INVALID]
    assert [fault.effective for fault in report.faults] == [True]
    (problem,) = report.problems
    assert problem.startswith("drain: DeadlineError: waited 30")
    assert "-always-coordinator-killed-0': 3000}" in problem
