"""A scenario in Python comes to what the same one in YAML comes to: one run of pytest has both, on one system."""

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from chaos.common.warden import SESSION_VARIABLE
from chaos.report.model import reports_in
from verifiers.base import Verdict

ROOT = Path(__file__).parents[2]
NAMES = ("baseline-without-faults", "sink-leader-killed", "lost-ack-without-idempotence")
pytestmark = [pytest.mark.integration, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory, net):
    """What pytest said, and by scenario the reports of both forms; on a system of its own, for this session may have one."""
    runs = tmp_path_factory.mktemp("runs")
    in_yaml = [f"scenarios.yaml::test_scenario[{name}]" for name in NAMES]
    command = (sys.executable, "-m", "pytest", "-m", "chaos", "--chaos-seed", "7", "--chaos-runs", str(runs))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")} | {"CHAOS_NET": net}
    environment.pop(SESSION_VARIABLE, None)
    answer = subprocess.run(
        (*command, "tests/python_scenarios", *in_yaml),
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1400,
        check=False,
    )
    reports = defaultdict(list)
    for report in reports_in(runs)[0]:
        reports[report.scenario].append(report)
    return answer.stdout + answer.stderr, reports


def test_all_of_them_are_valid(outcomes):
    """Also the control, which finds exactly one duplicate."""
    said, reports = outcomes

    assert "6 passed" in said, said
    assert {name: len(reports[name]) for name in NAMES} == dict.fromkeys(NAMES, 2)


@pytest.mark.parametrize("name", NAMES)
def test_both_forms_come_to_the_same(outcomes, name):
    """Verdicts, what was judged and found, faults and phases; only the moments differ."""
    one, other = outcomes[1][name]

    def told(report):
        found = {
            (finding.verifier, finding.subject): (finding.verdict, finding.count, finding.counts) for finding in report.findings
        }
        faults = [(fault.name, fault.kind, fault.effective, fault.problem, sorted(fault.proof)) for fault in report.faults]
        phases = [phase.name for phase in report.phases]
        return (
            report.verdict,
            report.judged,
            report.expect,
            report.exactly,
            report.problems,
            report.records,
            found,
            faults,
            phases,
        )

    assert told(one) == told(other)
    assert one.verdict is Verdict.VALID
    assert any("tests/python_scenarios/test_as_in_yaml.py::test_" in report.replay for report in (one, other))
