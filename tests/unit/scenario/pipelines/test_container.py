"""An image of the user's: what its entrypoint is given, and the script that supervises it, which runs here as it runs there."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.contract.base import Endpoints, Topic, Topics
from chaos.scenario.pipelines.container import SUPERVISES
from tests import deployed

TOPICS = Topics((Topic("orders-7", 3),), "copies-7", suffix="7", names={"orders": "orders-7"})
ENDPOINTS = Endpoints(kafka="link:9092", audit="broker:9092", options={"a": "b"})
WITHIN_S = 120.0


def test_what_its_entrypoint_is_given() -> None:
    """The image has nothing of this machine, so no placeholder stands for anything of it."""
    pipeline = deployed.container(("{bootstrap}", "{orders}"), "copy-{suffix}", "shop/copy:1", environment={"TO": "{sink}"})

    command = pipeline.command(ENDPOINTS, TOPICS, Path("/run"))

    assert command.argv == ("link:9092", "orders-7")
    assert command.env["TO"] == "copies-7"
    assert command.env.keys() == {"TO", "KAFKA_CLIENT_OPTIONS"}
    assert command.image is not None
    assert (command.image.name, command.image.around[-3:]) == ("shop/copy:1", ("sh", "3", "no"))
    assert (command.has_events, pipeline.consumer_group(TOPICS)) == (False, "copy-7")


def supervised(script: str, restarts: int = 0, says_started: str = "no") -> subprocess.Popen[str]:
    """The script, around a program in Python."""
    words = ("sh", "-c", SUPERVISES, "sh", str(restarts), says_started, sys.executable, "-u", "-c", script)
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def said(output: str) -> list[dict[str, object]]:
    """The reports, without pids."""
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return [{key: value for key, value in line.items() if key not in ("pid", "pids")} for line in lines]


STARTED = {"supervisor": "started", "copies": 1}


@pytest.mark.parametrize(
    ("script", "code"),
    [("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", -9), ("print('half', end=''); 1 / 0", 1)],
)
def test_a_program_that_dies_too_often(script: str, code: int) -> None:
    """It is started again as often as is declared; each end is told as the supervisor of a command tells it."""
    with supervised(script, restarts=1) as process:
        output, _ = process.communicate(timeout=WITHIN_S)

    ended = {"supervisor": "ended", "copy": 0, "code": code}
    restarted = {"supervisor": "restarted", "copy": 0, "restarts": 1}
    assert said(output) == [STARTED, ended, restarted, ended, {"supervisor": "stopped", "why": "copy 0 died 2 times"}]
    assert process.returncode == 1


@pytest.mark.parametrize(
    ("script", "ends"),
    [
        ("print('up'); import signal; signal.pause()", {"supervisor": "stopped"}),
        (
            "import signal; signal.signal(signal.SIGTERM, lambda *_: exit(3)); print('up'); signal.pause()",
            {"supervisor": "stopped"},
        ),
    ],
)
def test_sigterm_is_handed_on(script: str, ends: dict[str, object]) -> None:
    """The script ends when the program has ended, and with 0, whatever that ended with."""
    with supervised(script, restarts=3) as process:
        assert process.stdout is not None
        before = [line for line in iter(process.stdout.readline, "up\n") if line.strip()]
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=WITHIN_S)

    assert said("".join(before)) in ([STARTED], [])  # who speaks first is open
    assert said(output)[-1] == ends
    assert process.returncode == 0


def test_a_program_that_has_done_its_work() -> None:
    """It is not started again, and the container lives on until it is told to stop."""
    with supervised("pass") as process:
        assert process.stdout is not None
        before = [
            line for line in iter(process.stdout.readline, '{"supervisor": "ended", "copy": 0, "code": 0}\n') if line.strip()
        ]
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=WITHIN_S)

    assert said("".join(before)) == [STARTED]
    assert said(output) == [{"supervisor": "stopped"}]
    assert process.returncode == 0


def test_one_that_says_itself_that_it_is_ready() -> None:
    """The script leaves that to it."""
    with supervised("raise SystemExit(1)", says_started="yes") as process:
        output, _ = process.communicate(timeout=WITHIN_S)

    assert [line["supervisor"] for line in said(output)] == ["ended", "stopped"]
