"""Processes in containers live and die as on the machine; nothing of them is left in Docker, whatever ended the run."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import psutil
import pytest

from chaos.cluster import protocol
from chaos.common import clock
from chaos.common.errors import RuntimeUnavailableError
from chaos.common.warden import SESSION_VARIABLE
from chaos.runtime.base import ProcessSpec
from chaos.runtime.docker import engine
from chaos.runtime.docker import runtime as containers
from chaos.runtime.docker.engine import connected, image_name

ROOT = Path(__file__).parents[2]
SCENARIO = "sink-leader-killed"
VACUOUS = """\
version: 2
topics: {numbers: {partitions: 3}}
scenarios:
  - name: nothing-falls
    title: A blackhole in which nothing falls
    pipeline: none
    workload: {records: 2000, rate: 2000/s}
    faults:
      - {kind: blackhole_link, link: "loader->broker-1", when: {after: 4s}, for: 1s}
    expect: valid
"""
SERVES = """
from http.server import BaseHTTPRequestHandler, HTTPServer
print("up", flush=True)
HTTPServer(("", 8080), BaseHTTPRequestHandler).serve_forever()
"""
OWNER = """
import sys
from pathlib import Path
from chaos.runtime.docker import runtime as containers
from chaos.runtime.base import ProcessSpec
folder = Path(sys.argv[1])
runtime = containers.open_runtime(folder / "sessions", folder, print)
runtime.start(ProcessSpec("one", ("sleep", "1000"), folder, folder / "one.log", hosts=(f"{runtime.net}.1.1",)))
print(runtime.session.id, flush=True)
sys.stdin.read()
"""

pytestmark = [pytest.mark.integration, pytest.mark.containers, pytest.mark.timeout(900)]


@pytest.fixture(autouse=True)
def _swept():
    """Otherwise what an earlier crash has left would be removed in the middle of a test."""
    with connected() as client:
        engine.leftovers(client)


@pytest.fixture
def runtime(tmp_path):
    """A runtime of its own, with a network of its own."""
    opened = containers.open_runtime(tmp_path / "sessions", tmp_path / "runs", print)
    yield opened
    opened.close()


@pytest.fixture
def server(runtime, tmp_path):
    """A process that serves at an address of the plan."""
    host = f"{runtime.net}.1.1"
    spec = ProcessSpec("server", (sys.executable, "-c", SERVES), tmp_path, tmp_path / "server.log", hosts=(host,))
    process = runtime.start(spec)
    wait_until_open(host)
    return process


def test_a_process_that_is_killed_leaves_its_machine_behind(server):
    """The kernel refuses connections to its port, and it serves at the same address when it is started again."""
    address = server.spec.hosts[0], 8080
    pid = server.pid
    assert psutil.Process(pid).name().startswith("python")

    server.kill()
    server.kill()

    assert (server.alive(), server.exit_code(), psutil.pid_exists(pid)) == (False, -signal.SIGKILL, False)
    assert protocol.refused(address)
    server.start()
    wait_until_open(address[0])
    assert server.pid != pid
    assert server.spec.log.read_text(encoding="utf-8").splitlines() == ["up", "up"]


def test_a_process_is_stopped_by_sigstop_and_goes_on(server):
    """Docker calls a stopped process a running one; its whole process tree is stopped."""
    tree = server.pause_tree()
    clock.wait_until(server.paused, within_s=300, reason="the process to stop")

    assert tree == {"server": server.pid}
    assert (server.alive(), server.frozen()) == (True, False)
    server.resume_tree()
    clock.wait_until(lambda: not server.paused(), within_s=300, reason="the process to go on")


def test_a_frozen_process_is_paused_and_can_be_removed(server):
    """A session must be able to end in any state that a fault has left."""
    server.freeze()
    server.freeze()

    assert server.paused()
    server.thaw()
    server.thaw()
    assert not server.paused()
    server.freeze()


def test_a_process_that_is_asked_to_end_says_how_it_ended(runtime, tmp_path):
    """Its own exit code if it handles SIGTERM; 127 if there is no such program."""
    handles = "import signal, sys; signal.signal(15, lambda *_: sys.exit(7)); print('up', flush=True); signal.pause()"
    polite = runtime.start(ProcessSpec("polite", (sys.executable, "-c", handles), tmp_path, tmp_path / "polite.log"))
    clock.wait_until(lambda: "up" in polite.spec.log.read_text(), within_s=300, reason="it to be up")
    missing = runtime.start(ProcessSpec("missing", ("no-such-program",), tmp_path, tmp_path / "missing.log"))

    polite.stop()
    clock.wait_until(lambda: not missing.alive(), within_s=300, reason="it to end")

    assert polite.exit_code() == 7
    assert missing.exit_code() == 127
    assert "no-such-program" in missing.spec.log.read_text(encoding="utf-8")


def test_a_disconnected_machine_is_silent_and_comes_back_with_its_address(server):
    """There is no answer and no refusal; the process does not notice."""
    host = server.spec.hosts[0]
    server.disconnect()
    server.disconnect()

    with pytest.raises(OSError, match=r"timed out|No route to host"):
        protocol.ping((host, 8080), within_s=1)
    assert server.alive()
    server.reconnect()
    server.reconnect()
    wait_until_open(host)


def test_two_processes_of_one_address_share_a_machine(runtime, tmp_path):
    """A zombie and its successor: when the first is gone, the second still has its address."""
    host = f"{runtime.net}.0.3"
    first, second = (
        runtime.start(
            ProcessSpec(
                name, (sys.executable, "-m", "http.server", str(port), "--bind", host), tmp_path, tmp_path / name, hosts=(host,)
            )
        )
        for name, port in (("first", 8080), ("second", 8081))
    )
    wait_until_open(host, 8081)

    first.kill()

    assert is_open(host, 8081)
    assert second.alive()


def test_toxiproxys_machine_has_all_its_addresses(runtime, tmp_path):
    """One for each link."""
    hosts = tuple(f"{runtime.net}.{rest}" for rest in ("0.1", "2.12", "10.3"))
    runtime.start(
        ProcessSpec("toxiproxy", (sys.executable, "-m", "http.server", "8474"), tmp_path, tmp_path / "log", hosts=hosts)
    )

    for host in hosts:
        wait_until_open(host, 8474)


def test_what_cannot_be_removed_is_named_at_the_end(tmp_path):
    """A foreign container on the run's network keeps the network: the run fails, and says so."""
    runtime = containers.open_runtime(tmp_path / "sessions", tmp_path / "runs", print)
    with connected() as client:
        network = client.networks.list(filters={"label": f"{engine.SESSION}={runtime.session.id}"})[0]
        other = client.containers.run(image_name(), ["sleep", "100"], detach=True, network=network.name)
        try:
            with pytest.raises(RuntimeUnavailableError, match=f"left behind in Docker: network {network.name}; "):
                runtime.close()
        finally:
            other.remove(force=True)
            network.remove()


@pytest.mark.parametrize("warden", ["lives", "dies too"])
def test_a_session_whose_owner_is_killed_leaves_nothing(tmp_path, warden):
    """Its warden removes everything at once; without a warden the next run does."""
    before = listed()
    with subprocess.Popen((sys.executable, "-c", OWNER, str(tmp_path)), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        session = owner.stdout.readline().decode().strip()
        assert len(listed()) == len(before) + 3, "a network, a machine, a process"
        if warden == "dies too":
            (its_warden,) = psutil.Process(owner.pid).children()
            its_warden.kill()
        owner.kill()

    if warden == "dies too":
        assert len(listed()) == len(before) + 3
        with connected() as client:
            assert len(engine.leftovers(client)) == 3
    else:
        clock.wait_until(lambda: listed() == before, within_s=300, reason=f"the warden of {session} to sweep", seen=listed)
    assert listed() == before


def test_what_belongs_to_a_session_that_goes_on_is_let_alone(server):
    """Two runs on one machine do not disturb each other."""
    with connected() as client:
        assert engine.leftovers(client) == []
    assert server.alive()


@pytest.mark.parametrize(("number", "code"), [(None, 0), (signal.SIGINT, 2), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_run_leaves_docker_as_it_was(tmp_path, number, code):
    """Success, Ctrl-C in the middle of a fault, SIGKILL."""
    before = listed()

    assert played(tmp_path, number) == code, (tmp_path / "log").read_text(encoding="utf-8")[-3000:]

    clock.wait_until(lambda: listed() == before, within_s=300, reason="Docker to be as before", seen=listed)


def test_a_red_run_leaves_docker_as_it_was(tmp_path):
    """A run that proved nothing."""
    before, scenarios = listed(), tmp_path / "scenarios.yaml"
    scenarios.write_text(VACUOUS, encoding="utf-8")

    assert played(tmp_path, None, scenario=str(scenarios)) == 1

    assert "blackhole_link-1: it had no effect" in (tmp_path / "log").read_text(encoding="utf-8")
    assert listed() == before


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("DOCKER_HOST", "unix:///nowhere.sock", "apt-get install docker.io"),
        ("CHAOS_IMAGE", "nowhere:1", "build it: make image"),
    ],
)
def test_without_docker_or_image_a_run_is_an_error_with_the_fix(tmp_path, name, value, message):
    """Never a skip."""
    assert played(tmp_path, None, {name: value}) == 1

    said = (tmp_path / "log").read_text(encoding="utf-8")
    assert message in said
    assert "1 failed" in said
    assert "skipped" not in said


def played(folder, number, environment=None, scenario=f"scenarios.yaml::test_scenario[{SCENARIO}]"):
    """Play a scenario in a pytest of its own; signal it in the middle of the fault. Returns its exit code."""
    command = (sys.executable, "-m", "pytest", scenario, "-m", "chaos", "-p", "no:cacheprovider")
    command += ("--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml"))
    environment = {**os.environ, **(environment or {})}
    environment.pop(SESSION_VARIABLE, None)
    options = ("--chaos-runtime", "containers", "--chaos-runs", str(folder / "runs"))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background hears no Ctrl-C otherwise
    with (folder / "log").open("wb") as log, closing(log):
        process = subprocess.Popen(
            (*command, *options), cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        if number is not None:
            clock.wait_until(partial(injects, folder, process), within_s=300, reason="the fault")
            process.send_signal(number)
        return process.wait(300)
    finally:
        process.kill()
        signal.signal(signal.SIGINT, before)


def injects(folder, process):
    """Whether the fault is in force, or nothing will come any more."""
    histories = list((folder / "runs").glob(f"*-{SCENARIO}/history.jsonl"))
    in_force = any(
        '"process": "nemesis", "type": "ok", "f": "inject"' in path.read_text(encoding="utf-8") for path in histories
    )
    return in_force or process.poll() is not None


def listed():
    """Every container, network and volume in Docker, ours or not."""
    with connected() as client:
        found = (*client.containers.list(all=True, ignore_removed=True), *client.networks.list(), *client.volumes.list())
        return sorted(str(one.id) for one in found)


def wait_until_open(host, port=8080):
    """Return when something listens there."""
    clock.wait_until(partial(is_open, host, port), within_s=300, reason=f"{host}:{port} to be listened on")


def is_open(host, port):
    """Whether a connection is accepted."""
    try:
        with socket.create_connection((host, port), timeout=2):
            return True
    except OSError:
        return False
