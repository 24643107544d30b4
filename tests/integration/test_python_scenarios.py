"""A scenario in Python comes to what the same one in YAML comes to: one run of pytest has both, on one system."""

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from chaos.common.warden import SESSION_VARIABLE
from chaos.report.failure_text import explain
from chaos.report.model import reports_in
from verifiers.base import Verdict

ROOT = Path(__file__).parents[2]
NAMES = ("baseline-without-faults", "sink-leader-killed", "lost-ack-without-idempotence")
pytestmark = [pytest.mark.integration, pytest.mark.nightly, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def played(net):
    """Plays scenarios in a pytest of its own, on a system of its own, for this session may have one; what pytest said."""

    def play(folder, runs, *arguments):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")} | {"CHAOS_NET": net}
        environment.pop(SESSION_VARIABLE, None)
        command = (sys.executable, "-m", "pytest", "-m", "chaos", "--chaos-seed", "7", "--chaos-runs", str(runs), *arguments)
        answer = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=1400, check=False)
        return answer.stdout + answer.stderr

    return play


@pytest.fixture(scope="module")
def outcomes(played, tmp_path_factory):
    """The output of pytest, and for each scenario the reports of both forms."""
    runs = tmp_path_factory.mktemp("runs")
    said = played(ROOT, runs, "tests/python_scenarios", *(f"scenarios.yaml::test_scenario[{name}]" for name in NAMES))
    reports = defaultdict(list)
    for report in reports_in(runs)[0]:
        reports[report.scenario].append(report)
    return said, reports


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


FAILING = """\
LOADER = {"records": 450, "rate": "90/s", "producer": {"idempotence": False, "batch_records": 1, "in_flight": 1}}

def test_defect(chaos):
    chaos.start("none", LOADER, topics={"datasource": {"partitions": 3}})
    with chaos.fault({"kind": "pause_broker", "target": "leader(datasource, 0)", "for": "60s"}) as paused:
        assert paused.effective
        raise ZeroDivisionError("a defect of the test")

def test_invalid(chaos):
    chaos.start("none", LOADER, topics={"datasource": {"partitions": 3}})
    response = {"request": "Produce", "nth": 5, "link": "loader->leader(datasource, 0)"}
    with chaos.fault({"kind": "lose_response", "when": response}):
        pass
    report = chaos.judge()
    assert report.valid, report

def test_forgotten(chaos):
    chaos.start("none", LOADER, topics={"datasource": {"partitions": 3}})
"""


def test_a_test_that_fails_says_why_and_leaves_nothing_broken(played, tmp_path):
    """Its own error, the text of the verdict, or what it forgot; each run is reported, and the next has a healthy system."""
    (tmp_path / "pytest.ini").touch()
    (tmp_path / "test_failing.py").write_text(FAILING, encoding="utf-8")

    said = played(tmp_path, tmp_path / "runs", "test_failing.py")

    defect, invalid, forgotten = reports_in(tmp_path / "runs")[0]
    assert "3 failed" in said, said
    assert "test_failing.py:7: ZeroDivisionError" in said
    assert any("inject: ZeroDivisionError: a defect of the test" in problem for problem in defect.problems)
    assert (defect.verdict, defect.faults[0].effective) == (Verdict.UNKNOWN, True)
    assert defect.faults[0].healed_ms - defect.faults[0].injected_ms < 60_000
    assert invalid.verdict is Verdict.INVALID
    assert explain(invalid) in said
    assert f"FAILED test_failing.py::test_invalid - {explain(invalid)[:21]}" in said
    assert forgotten.verdict is Verdict.UNKNOWN
    assert "the test ended without chaos.judge(), so nothing was judged" in said
    assert "is not healthy and is rebuilt" not in said
