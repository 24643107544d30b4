"""Brokers of another version: fetched at their first use, broken as those of ours, and told in the report."""

import json
from pathlib import Path

import pytest

from chaos.common.errors import RuntimeUnavailableError
from chaos.scenario.load import load
from chaos.scenario.system import KafkaSpec, SystemSpec
from verifiers.base import Verdict

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]
EXAMPLE = Path(__file__).parents[2] / "examples" / "versions" / "scenarios.yaml"


@pytest.mark.nightly
def test_a_coordinator_of_an_earlier_version_dies_at_endtxn(chaos_session):
    """Its transactions are those of before KIP-890, and its controllers cannot be advertised."""
    scenario = load(EXAMPLE).scenario("coordinator-killed-at-endtxn-3-5-2")

    report = chaos_session.run(scenario, scenario.system, "", lambda _event: None).report

    assert report.verdict is Verdict.VALID, report.problems
    assert [fault.effective for fault in report.faults] == [True]
    *_, versions = sorted(chaos_session.environment.runs.glob("*-coordinator-killed-at-endtxn-3-5-2/versions.json"))
    assert json.loads(versions.read_text(encoding="utf-8"))["kafka"] == "3.5.2"


@pytest.mark.nightly
def test_a_version_that_does_not_exist(chaos_session):
    """One line that names it; the next system is as any other."""
    with pytest.raises(RuntimeUnavailableError, match=r" has no .*kafka_2\.13:3\.99\.0") as caught:
        chaos_session.system(SystemSpec(kafka=KafkaSpec(version="3.99.0")))

    assert "\n" not in str(caught.value)
    assert chaos_session.system(SystemSpec()).unhealthy() == []
