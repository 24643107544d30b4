import os
import shutil
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from chaos.common.errors import RuntimeUnavailableError
from chaos.install import preflight
from tests.unit.wording import raised


def jdk(folder: Path, *, release: str | None = None, says: str = "") -> Path:
    """A stand-in for a JDK: bin/java that prints something, and perhaps a file `release`."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n", encoding="utf-8")
    java.chmod(0o755)
    if release is not None:
        (folder / "release").write_text(release, encoding="utf-8")
    return java


@pytest.mark.parametrize(
    ("text", "version", "major"),
    [
        ('JAVA_VERSION="17.0.15"\nJAVA_RUNTIME_VERSION="17.0.15+6-Debian"', "17.0.15+6-Debian", 17),
        ('JAVA_VERSION="21"', "21", 21),
        ('openjdk version "25" 2025-09-16\nOpenJDK Runtime Environment (build 25+36-LTS)', "25+36-LTS", 25),
        ('java version "1.8.0_402"', "1.8.0_402", 8),
        ("Segmentation fault", "unknown", 0),
    ],
)
def test_a_version_is_read_wherever_java_writes_it(text: str, version: str, major: int) -> None:
    """The file `release`, `java -version` of old and new versions, and nonsense."""
    assert preflight.parse_java_version(text) == version
    assert preflight.major(version) == major


def test_the_release_file_saves_a_start_of_the_jvm(tmp_path: Path) -> None:
    """The file is enough; Java itself is not started."""
    java = jdk(tmp_path, release='JAVA_VERSION="21.0.1"', says='version "17"')

    assert preflight.java_version(java) == "21.0.1"


def test_a_java_without_a_release_file_is_asked(tmp_path: Path) -> None:
    """Some distributions leave the file out."""
    assert preflight.java_version(jdk(tmp_path, says='openjdk version "17.0.2"')) == "17.0.2"


def test_java_home_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JAVA_HOME is an explicit choice."""
    home, path = jdk(tmp_path / "home", says='version "17.0.1"'), jdk(tmp_path / "path", says='version "21"')
    monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert preflight.find_java() == home.resolve()

    monkeypatch.delenv("JAVA_HOME")
    assert preflight.find_java() == path.resolve()


def test_a_java_home_without_java_is_not_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Falling back to the path would run another Java than the one that was asked for."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(RuntimeUnavailableError, match=f"JAVA_HOME={tmp_path} holds no bin/java; install a JDK, 17 or newer"):
        preflight.find_java()


def test_no_java_at_all_is_said_with_a_command_that_mends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message can be pasted into a terminal."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)

    with pytest.raises(RuntimeUnavailableError, match=r"the path has no java, .* apt-get install openjdk-17-jdk-headless"):
        preflight.find_java()


def test_a_java_that_is_too_old_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has its path and its version, because a machine often has several."""
    java = jdk(tmp_path, release='JAVA_VERSION="11.0.2"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(RuntimeUnavailableError, match=rf"{java.resolve()} is Java 11\.0\.2; the system needs 17 or newer"):
        preflight.find_java()


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_other_platforms_are_refused(platform: str) -> None:
    """They have neither the loopback addresses nor /proc."""
    with raised(RuntimeUnavailableError, "Linux", platform):
        preflight.check_platform(platform)


def test_too_little_memory_is_said_in_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has what is free and what is needed."""
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=3 << 30))

    with raised(RuntimeUnavailableError, "3.0 GiB", " 3.5 GiB"):
        preflight.check_memory(3.5)
    preflight.check_memory(3)


def test_too_little_disk_is_said_for_a_folder_that_is_not_there_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The nearest folder that exists tells which disk is meant."""
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=(2 if folder == tmp_path else 9) << 30))

    with raised(RuntimeUnavailableError, "2.0 GiB", f" {tmp_path}, ", " 2.5 GiB", "CHAOS_CACHE", "--chaos-runs"):
        preflight.check_disk(tmp_path / "a" / "b", 2.5)


def test_a_machine_that_has_everything_passes(tmp_path: Path) -> None:
    """No check fails when nothing is wrong."""
    preflight.check_machine(tmp_path, tmp_path / "runs", memory_gib=0, disk_gib=0, platform="linux")


@pytest.mark.parametrize("lack", [{"memory_gib": 1e6}, {"disk_gib": 1e6}, {"platform": "darwin"}])
def test_each_lack_of_the_machine_is_found(tmp_path: Path, lack: dict[str, Any]) -> None:
    """All three checks are part of the whole."""
    enough: dict[str, Any] = {"memory_gib": 0, "disk_gib": 0, "platform": "linux"}

    with pytest.raises(RuntimeUnavailableError):
        preflight.check_machine(tmp_path, tmp_path, **(enough | lack))


@pytest.mark.parametrize("listens_on", ["127.78.9.8", "0.0.0.0"])  # noqa: S104 - a listener elsewhere is the case
def test_an_address_that_is_taken_is_said_with_its_holder(listens_on: str) -> None:
    """The message names the process that listens there, or on all addresses, with its pid, and what to do about it."""
    with socket.socket() as taken:
        taken.bind((listens_on, 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(RuntimeUnavailableError) as caught:
            preflight.check_addresses([("127.78.9.8", port)])

    text = str(caught.value)
    assert f"127.78.9.8:{port}" in text
    assert f"(pid {os.getpid()})" in text
    assert "CHAOS_NET=127.78" in text


def test_free_addresses_pass() -> None:
    """The probes close what they open: the same address is free the second time."""
    with socket.socket() as probe:
        probe.bind(("127.78.9.7", 0))
        address = probe.getsockname()

    for _ in range(2):
        preflight.check_addresses([address])


def test_a_connection_that_was_just_closed_takes_no_address() -> None:
    """The system can be started again at once: what lingers in TIME_WAIT is not a listener."""
    with socket.create_server(("127.78.9.6", 0)) as listener:
        address = listener.getsockname()
        with socket.create_connection(address):
            listener.accept()[0].close()

    preflight.check_addresses([address])


def test_an_address_of_another_machine_is_refused() -> None:
    """The operating system's own reason is passed on."""
    with raised(RuntimeUnavailableError, "192.0.2.1:9: Cannot assign", "CHAOS_NET"):
        preflight.check_addresses([("192.0.2.1", 9)])
