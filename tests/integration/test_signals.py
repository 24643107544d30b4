"""Ctrl-C, SIGTERM and SIGKILL in every phase: faults healed, processes gone, history and Allure result written."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from chaos.common import clock
from chaos.common.events import FaultHealed, FaultInjected, PhaseBegan, RunFailed
from chaos.common.history import load, of_type
from chaos.common.warden import SESSION_VARIABLE

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.integration, pytest.mark.timeout(900), pytest.mark.usefixtures("hears_ctrl_c")]

SCENARIO = "sink-leader-killed"


@pytest.fixture
def play(tmp_path, net):
    """Play one scenario in a pytest of its own, on addresses of its own, and send it a signal when a phase begins."""

    def started(phase, number):
        command = (sys.executable, "-m", "pytest", f"scenarios.yaml::test_scenario[{SCENARIO}]", "-m", "chaos")
        places = ("--chaos-runs", str(tmp_path / "runs"), "--alluredir", str(tmp_path / "allure"), "-p", "no:cacheprovider")
        environment = {**os.environ, "CHAOS_NET": net}
        environment.pop(SESSION_VARIABLE, None)
        with (tmp_path / "log").open("wb") as log:
            process = subprocess.Popen(
                (*command, *places),
                cwd=ROOT,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            clock.wait_until(
                lambda: phase in phases(tmp_path) or process.poll() is not None, within_s=300, reason=f"phase {phase}"
            )
            process.send_signal(number)
            return process.wait(300)
        finally:
            process.kill()

    return started


@pytest.mark.parametrize(
    ("phase", "number"),
    [
        ("set_up", signal.SIGINT),
        pytest.param("steady", signal.SIGTERM, marks=pytest.mark.nightly),
        pytest.param("inject", signal.SIGINT, marks=pytest.mark.nightly),  # the gate kills there
        pytest.param("heal", signal.SIGTERM, marks=pytest.mark.nightly),
        pytest.param("drain", signal.SIGINT, marks=pytest.mark.nightly),
        pytest.param("observe", signal.SIGTERM, marks=pytest.mark.nightly),
        pytest.param("judge", signal.SIGINT, marks=pytest.mark.nightly),
    ],
)
def test_a_run_that_is_interrupted_heals_cleans_up_and_reports(play, net, tmp_path, phase, number):
    """Pytest ends with 2, nothing of the system lives, and the Allure result is broken, neither passed nor missing."""
    code = play(phase, number)

    assert code == 2, (tmp_path / "log").read_text(encoding="utf-8")[-3000:]
    assert survivors(net) == []
    history = list(load(next((tmp_path / "runs").glob(f"*-{SCENARIO}/history.jsonl"))))
    injected = [value.fault for _, value in of_type(history, FaultInjected)]
    healed = [value.fault for _, value in of_type(history, FaultHealed)]
    assert injected == healed
    assert any("KeyboardInterrupt" in value.error for _, value in of_type(history, RunFailed))
    (result,) = [json.loads(path.read_text(encoding="utf-8")) for path in (tmp_path / "allure").glob("*-result.json")]
    assert result["status"] == "broken"
    assert phase in {step["name"].split()[0] for step in result["steps"]}


def test_a_killed_pytest_leaves_no_process(play, net):
    """SIGKILL runs no handler: the warden sees the pipe close and ends the session's processes."""
    assert play("inject", signal.SIGKILL) == -signal.SIGKILL

    clock.wait_until(
        lambda: not survivors(net), within_s=300, reason="the warden to end the session", seen=lambda: survivors(net)
    )


def phases(folder: Path):
    """Phases that have begun."""
    found = next((folder / "runs").glob(f"*-{SCENARIO}/history.jsonl"), None)
    return {value.phase for _, value in of_type(load(found), PhaseBegan)} if found else set()


def survivors(net):
    """Processes of the other system: those that listen on its addresses, or have them on their command lines."""
    processes = psutil.process_iter(["pid", "cmdline"])
    named = [process.info for process in processes if f"{net}." in " ".join(process.info["cmdline"] or ())]
    sockets = [one for one in psutil.net_connections("tcp") if one.status == "LISTEN" and one.laddr.ip.startswith(f"{net}.")]
    return [f"{info['pid']} {info['cmdline'][:3]}" for info in named] + [f"{one.pid} listens on {one.laddr}" for one in sockets]
