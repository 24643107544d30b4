"""Decisions about Docker that need no daemon: free networks, usable daemons, shared folders."""

from pathlib import Path
from types import SimpleNamespace

import docker.errors
import pytest

from chaos.common.errors import RuntimeUnavailableError
from chaos.runtime.base import ProcessSpec
from chaos.runtime.docker import engine, network, runtime
from tests.unit.wording import raised

HEAD = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT"
DEFAULT = "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0"
OF_172_31 = "br-1\t00001FAC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0"
OF_172_30_7 = "vpn\t00071EAC\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0"
VERSION = {"ApiVersion": "1.41"}
INFO = {"OSType": "linux", "SecurityOptions": ["name=seccomp,profile=default"]}


def test_a_network_without_a_route_is_free():
    """The default route leads everywhere, so it does not count."""
    assert next(network.free([HEAD, DEFAULT])) == "172.31"


def test_networks_with_a_route_are_passed_over():
    """A part of one is enough: a VPN must not lose its addresses to a test."""
    assert next(network.free([HEAD, DEFAULT, OF_172_31, OF_172_30_7])) == "172.29"


def test_when_all_networks_have_routes_none_is_free():
    """10.0.0.0/8 and 172.16.0.0/12, as in many companies."""
    everything = ["vpn\t0000000A\t0\t0\t0\t0\t0\t000000FF\t0\t0\t0", "vpn\t000010AC\t0\t0\t0\t0\t0\t0000F0FF\t0\t0\t0"]

    assert list(network.free([HEAD, *everything])) == []


def test_a_usable_daemon_passes():
    """API 1.41 is that of Docker 20.10, which Debian 12 has."""
    engine.check_engine(VERSION, INFO)
    engine.check_engine({"ApiVersion": "1.100"}, INFO)


@pytest.mark.parametrize(
    ("version", "info", "names"),
    [
        ({"ApiVersion": "1.39"}, INFO, ("1.39", "1.41")),
        (VERSION, INFO | {"OSType": "windows"}, ("Linux",)),
        (VERSION, INFO | {"SecurityOptions": ["name=rootless"]}, ("rootless",)),
        (VERSION, INFO | {"SecurityOptions": ["name=userns"]}, ("userns",)),
    ],
    ids=["an old one", "of Windows", "rootless", "with other users"],
)
def test_an_unusable_daemon_is_refused_with_what_mends_it(version, info, names):
    """Before any container is made."""
    with raised(RuntimeUnavailableError, *names):
        engine.check_engine(version, info)


def test_without_a_daemon_there_is_an_error_with_the_fix(monkeypatch):
    """Never a skip."""
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")

    with pytest.raises(RuntimeUnavailableError, match=r"daemon does not answer: .*; apt-get install docker.io"):
        engine.connect()


def test_an_image_that_is_not_there_is_named_with_what_builds_it(monkeypatch):
    """Nothing is pulled in the middle of a run."""
    monkeypatch.setenv("CHAOS_IMAGE", "mine:3")

    with pytest.raises(RuntimeUnavailableError, match=r"the image mine:3 does not exist here.*make image.*CHAOS_BASE_IMAGE"):
        engine.check_image(client_without_images())


def test_what_docker_refuses_is_an_error_of_ours():
    """A run reports it and ends."""
    with (
        pytest.raises(RuntimeUnavailableError, match="Docker could not start broker-1: no room"),
        engine.asking("start broker-1"),
    ):
        raise docker.errors.APIError("no room")


def test_folders_are_shared_once_and_never_those_that_an_image_has_of_its_own(tmp_path):
    """``/usr`` of this machine in place of the image's would take the image's libraries away."""
    inner = tmp_path / "inner"
    inner.mkdir()
    system = [Path(name) for name in ("/", "/usr", "/etc")]

    assert runtime.outermost([inner, tmp_path, tmp_path, tmp_path / "missing", *system]) == (tmp_path,)


def test_where_the_links_of_a_jdk_lead_is_shared_too(tmp_path):
    """Debian keeps ``java.security`` in ``/etc``: without it no JVM starts."""
    home, etc = tmp_path / "jvm", tmp_path / "etc"
    (home / "bin").mkdir(parents=True)
    etc.mkdir()
    (etc / "java.security").touch()
    (home / "java.security").symlink_to(etc / "java.security")
    (home / "bin" / "java").touch()
    (home / "bin" / "jre").symlink_to(home / "bin" / "java")

    shared = runtime.read_only(home / "bin" / "java", tmp_path / "cache")

    assert {home, etc} <= set(shared)
    assert home / "bin" not in shared


def test_folders_that_a_process_writes_to_are_made(tmp_path):
    """Docker would make them for root; and the log is there before the process is."""
    spec = ProcessSpec("loader", ("true",), tmp_path / "runs" / "one", tmp_path / "logs" / "loader.log")

    assert runtime.writable(spec, tmp_path / "runs") == (tmp_path / "logs", tmp_path / "runs")
    assert spec.cwd.is_dir()
    assert spec.log.read_bytes() == b""


def client_without_images():
    """Docker's answer for an image that it does not have."""

    def get(name):
        raise docker.errors.ImageNotFound(f"No such image: {name}")

    return SimpleNamespace(images=SimpleNamespace(get=get))


@pytest.mark.parametrize(
    ("configuration", "given", "runs"),
    [
        ({"Entrypoint": ["copy"], "Cmd": ["all"]}, (), ("copy", "all")),
        ({"Entrypoint": ["copy"], "Cmd": ["all"]}, ("some",), ("copy", "some")),
        ({"Entrypoint": None, "Cmd": ["copy", "all"]}, (), ("copy", "all")),
        ({"Entrypoint": None}, ("copy",), ("copy",)),
    ],
)
def test_what_runs_in_an_image_is_what_docker_would_run(configuration, given, runs):
    """A declared command takes the place of that of the image, and is given to the same entrypoint."""
    assert runtime.entrypoint(configuration, given) == runs


def test_an_image_that_runs_nothing():
    """It is told what to declare."""
    with pytest.raises(RuntimeUnavailableError, match="declare `command` in the pipeline"):
        runtime.entrypoint({"Entrypoint": None, "Cmd": None}, ())
