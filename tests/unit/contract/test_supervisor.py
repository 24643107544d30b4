import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from chaos.common import clock
from chaos.contract.variables import held_back

FOR_EVER = "while :; do sleep 0.1; done"
A_MINUTE = "for _ in $(seq 600); do sleep 0.1; done"
COUNT = "echo >> runs; runs=$(wc -l < runs)"


class Supervisor:
    """The real one, with shell scripts as copies."""

    def __init__(self, folder: Path, scripts: tuple[str, ...], options: tuple[str, ...]) -> None:
        copies = json.dumps([["sh", "-c", script] for script in scripts])
        argv = (sys.executable, "-m", "chaos.contract.supervisor", "--copies", copies, *options)
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
        self.process = subprocess.Popen(argv, cwd=folder, stdout=subprocess.PIPE, text=True, env=environment)

    def hear(self, event: str) -> dict[str, Any]:
        """The next message of this kind; fails if the supervisor ends without one."""
        for message in self.rest():
            if message["supervisor"] == event:
                return message
        raise AssertionError(event)

    def rest(self) -> Iterator[dict[str, Any]]:
        """All further messages."""
        assert self.process.stdout is not None
        return (json.loads(line) for line in iter(self.process.stdout.readline, "") if line.startswith('{"supervisor"'))


@pytest.fixture
def supervise(tmp_path):
    """Start supervisors, and end them after the test."""
    started: list[Supervisor] = []

    def start(*scripts: str, options: tuple[str, ...] = ()) -> Supervisor:
        started.append(Supervisor(tmp_path, scripts, options))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.wait()
        one.process.stdout.close()


def test_what_python_reads_at_its_start_is_for_the_copies_alone(supervise, tmp_path, monkeypatch):
    """The supervisor would import another copy of this framework from the path of a program, if one is there."""
    place = tmp_path / "shop"
    (place / "chaos").mkdir(parents=True)
    (place / "chaos" / "__init__.py").write_text("raise ImportError('this is the shop')", encoding="utf-8")
    for name, value in held_back({"PYTHONPATH": str(place), "SHOP": "1"}).items():
        monkeypatch.setenv(name, value)

    one = supervise('echo "$PYTHONPATH $SHOP" > given; env | grep -c OF_PROGRAM_ >> given; exit 0')
    one.hear("ended")

    assert (tmp_path / "given").read_text(encoding="utf-8").split() == [str(place), "1", "0"]


def test_its_copies_may_run_in_another_folder(supervise, tmp_path):
    """Also after a restart; Python imports nothing of the supervisor from there."""
    place = tmp_path / "shop"
    place.mkdir()
    (place / "argparse.py").write_text("raise ImportError('this is the shop')", encoding="utf-8")

    supervisor = supervise("pwd >> places; exit 1", options=("--folder", str(place), "--restarts", "1"))

    assert supervisor.hear("stopped")["why"] == "copy 0 died 2 times"
    assert (place / "places").read_text(encoding="utf-8").split() == [str(place)] * 2


def test_it_hands_on_sigterm_and_ends_with_success(supervise):
    """No copy is left behind."""
    supervisor = supervise(FOR_EVER, FOR_EVER)
    pids = supervisor.hear("started")["pids"]

    supervisor.process.terminate()

    assert [message["supervisor"] for message in supervisor.rest()] == ["stopped"]
    assert supervisor.process.wait(120) == 0
    assert not any(psutil.pid_exists(pid) for pid in pids)


@pytest.mark.parametrize("ends", ["trap 'echo ended >> orphan; exit' TERM", "trap '' TERM"], ids=["gently", "deaf"])
def test_what_a_copy_leaves_behind_is_told_to_end_too(supervise, tmp_path, ends):
    """A wrapper such as `go run` dies of SIGTERM alone; its program would go on as a second pipeline."""
    (tmp_path / "orphan.sh").write_text(f"{ends}\necho $$ > orphan.new && mv orphan.new orphan\n{A_MINUTE}\n", encoding="utf-8")
    supervisor = supervise("sh orphan.sh & wait")
    clock.wait_until((tmp_path / "orphan").exists, within_s=60, reason="the orphan to begin")
    pid = int((tmp_path / "orphan").read_text(encoding="utf-8"))

    supervisor.process.terminate()

    assert supervisor.process.wait(120) == 0
    assert not psutil.pid_exists(pid)
    assert ("ended" in (tmp_path / "orphan").read_text(encoding="utf-8")) == ("exit" in ends)


def test_it_says_which_copies_did_not_end_when_told_to(supervise):
    """They are killed, and that is another end than the one that was asked for."""
    deaf = "trap '' TERM; while true; do echo deaf; sleep 0.1; done"
    supervisor = supervise(FOR_EVER, deaf)
    supervisor.hear("started")
    while "deaf" not in supervisor.process.stdout.readline():
        pass

    supervisor.process.terminate()

    assert list(supervisor.rest()) == [{"supervisor": "killed", "copies": [1]}, {"supervisor": "stopped"}]
    assert supervisor.process.wait(120) == 0


def test_it_outlives_copies_that_have_done_their_work(supervise):
    """A pipeline runs until it is told to stop: its source may grow."""
    supervisor = supervise("exit 0")

    assert supervisor.hear("ended") == {"supervisor": "ended", "copy": 0, "code": 0}
    assert supervisor.process.poll() is None
    supervisor.process.terminate()
    assert supervisor.process.wait(120) == 0


def test_a_copy_that_dies_is_started_again_a_few_times(supervise):
    """Then the supervisor gives up, and ends the other copies."""
    supervisor = supervise(FOR_EVER, "exit 3", options=("--restarts", "1"))
    other = supervisor.hear("started")["pids"][0]

    said = list(supervisor.rest())

    assert [(message["supervisor"], message.get("code")) for message in said] == [
        ("ended", 3),
        ("restarted", None),
        ("ended", 3),
        ("stopped", None),
    ]
    assert said[-1]["why"] == "copy 1 died 2 times"
    assert supervisor.process.wait(120) == 1
    assert not psutil.pid_exists(other)


def test_a_copy_that_is_killed_says_by_what(supervise):
    """A negative exit code is a signal."""
    supervisor = supervise(FOR_EVER, options=("--restarts", "1"))
    pid = supervisor.hear("started")["pids"][0]

    os.kill(pid, signal.SIGKILL)

    assert supervisor.hear("ended")["code"] == -signal.SIGKILL
    assert supervisor.hear("restarted")["pid"] != pid


def test_half_a_line_of_a_copy_does_not_hide_its_end(supervise, tmp_path):
    """It was killed while it wrote; the copies share the log with the supervisor."""
    script = 'until test -e go; do sleep 0.1; done; printf \'{"told": "comm\'; kill -9 $$'
    supervisor = supervise(script, options=("--restarts", "0"))
    supervisor.hear("started")
    (tmp_path / "go").touch()
    assert supervisor.process.stdout is not None

    half, ended, *_ = list(supervisor.process.stdout)

    assert (half, json.loads(ended)) == ('{"told": "comm\n', {"supervisor": "ended", "copy": 0, "code": -9})


def test_half_a_line_of_a_copy_does_not_hide_what_is_said_of_it(monkeypatch, capfd):
    """Neither at its start, for which a run waits, nor at the end."""
    from chaos.contract import supervisor  # noqa: PLC0415 - here its function is called, and not its process started

    def begun(number, argv, files, _folder):
        os.write(1, b"Loading...")  # a copy may be quicker than its supervisor
        return started(number, argv, files, _folder)

    started = supervisor._started
    monkeypatch.setattr(supervisor, "_started", begun)
    told: list[int] = []

    supervisor.supervise([["true"]], supervisor.Rules(0, repeat=False), told, lambda _s: told.append(signal.SIGTERM))

    lines = capfd.readouterr().out.splitlines()
    words = [json.loads(line)["supervisor"] for line in lines if line.startswith('{"supervisor"')]
    assert (lines[0], words[0], words[-1]) == ("Loading...", "started", "stopped")


def test_a_repeat_after_success_does_not_count_as_a_restart(supervise, tmp_path):
    """Only its third run is a failure."""
    supervisor = supervise(f"{COUNT}; test $runs -lt 3", options=("--restarts", "0", "--repeat"))

    codes = [message["code"] for message in supervisor.rest() if message["supervisor"] == "ended"]

    assert codes == [0, 0, 1]
    assert (tmp_path / "runs").read_text(encoding="utf-8") == "\n\n\n"


def test_copies_die_with_a_supervisor_that_is_killed(supervise):
    """One that went on alone would be a second pipeline beside the restarted one."""
    supervisor = supervise(FOR_EVER)
    copy = psutil.Process(supervisor.hear("started")["pids"][0])

    supervisor.process.kill()

    assert psutil.wait_procs([copy], timeout=120)[1] == []
