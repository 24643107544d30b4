"""Three scenarios of `scenarios.yaml` in Python, by the same names: docs/python.md shows them.

They run under `pytest -m chaos tests/python_scenarios`; tests/integration/test_python_scenarios.py compares their outcome
with that of the three in YAML.
"""

import pytest

from chaos.faults.broker_processes import KillBroker
from chaos.faults.requests import LoseResponse
from chaos.scenario.workload import Producer, Workload


@pytest.mark.chaos
def test_baseline_without_faults(chaos):
    """Nothing is broken; every record is squared exactly once, in order."""
    chaos.start("square", Workload(records=16000, rate="4000/s"))

    report = chaos.judge()

    assert report.valid, report


@pytest.mark.chaos
def test_sink_leader_killed(chaos):
    """A sink leader stays dead until output grows without it; every record arrives once."""
    chaos.start("square", Workload(records=16000, rate="4000/s"), recovery_slo="45s")
    with chaos.fault(KillBroker(target="leader(datasink, 0)", when={"progress": "30%"}, restart_after="0s")) as killed:
        before = chaos.committed
        chaos.wait_until(lambda: chaos.committed > before, within_s=120, reason="output to grow beside a dead broker")

    assert killed.target.startswith("broker-")
    report = chaos.judge()

    assert report.valid, report


@pytest.mark.chaos
def test_lost_ack_without_idempotence(chaos):
    """Control: a lost answer makes a non-idempotent producer write a duplicate."""
    careless = Producer(idempotence=False, batch_records=1, in_flight=1)
    chaos.start("none", Workload(into="datasource", records=450, rate="90/s", producer=careless))
    with chaos.fault(LoseResponse(when={"request": "Produce", "nth": 5, "link": "loader->leader(datasource, 0)"})):
        pass

    report = chaos.judge(expect={"duplicates": {"duplicate": 1}})

    assert report.valid, report
