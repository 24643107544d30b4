"""The parts themselves: the real cache, the real Ivy, the real server."""

import hashlib
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
import requests

from chaos.common import clock
from chaos.common.errors import RuntimeUnavailableError
from chaos.install import artifacts, cache, class_archives, jars, preflight
from chaos.install.artifacts import Parts

pytestmark = pytest.mark.integration

HOST = "127.78.9.6"
POM = (
    "<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId><artifactId>thing</artifactId>"
    "<version>1.0</version></project>"
)


@pytest.fixture(scope="module")
def parts() -> Parts:
    """The parts of this machine, fetched if they are missing."""
    return artifacts.ensure(print)


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Maven repository in a folder, with one jar; returns the folder that the jar is in."""
    published = tmp_path / "repository" / "org" / "example" / "thing" / "1.0"
    published.mkdir(parents=True)
    (published / "thing-1.0.pom").write_text(POM, encoding="utf-8")
    for name in ("thing-1.0.jar", "thing-1.0-tests.jar"):
        (published / name).write_bytes(name.encode())
    monkeypatch.setenv("CHAOS_MAVEN_MIRROR", (tmp_path / "repository").as_uri())
    return published


def thing(content: bytes, classifier: str | None = None) -> jars.Jar:
    """The jar of the mirror, with the hash that the lock would name."""
    return jars.Jar("org.example", "thing", "1.0", hashlib.sha256(content).hexdigest(), classifier)


def ivy() -> jars.Ivy:
    """The real one."""
    return jars.Ivy(preflight.find_java(), Path(pyspark.__file__).parent)


@pytest.fixture
def server(parts: Parts) -> Iterator[subprocess.Popen[str]]:
    """Toxiproxy's server, started on a loopback address of its own."""
    command = [str(parts.toxiproxy), "-host", HOST, "-port", "8474"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def version() -> requests.Response:
    """The first answer of the server's API."""
    return requests.get(f"http://{HOST}:8474/version", timeout=60)


def test_a_filled_cache_is_used_at_once_and_without_a_network(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second call opens no connection, starts nothing, and says nothing."""
    said: list[str] = []

    def no_network(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(socket.socket, "connect", no_network)
    monkeypatch.setattr(subprocess, "Popen", no_network)
    again = artifacts.ensure(said.append)

    assert (again, said) == (parts, [])


def test_every_part_is_there(parts: Parts) -> None:
    """Everything that `Parts` names exists on disk, and each jar is the one of the lock."""
    locked = jars.read_lock()

    jars.check(locked["kafka"], parts.kafka_jars)
    jars.check(locked["tools"], parts.tools_jars)
    assert [jar.name for jar in parts.spark.connector] == sorted(jar.file for jar in locked[f"connector {pyspark.__version__}"])
    assert {path.name for path in parts.kafka_jars.glob("*.jar")} == {jar.file for jar in locked["kafka"]}
    assert parts.toxiproxy.is_file()


def test_a_damaged_jar_is_found_and_thrown_away(parts: Parts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only `verify` checks; it names the jar, and without a network the damaged jar is not silently kept."""
    for part in cache.folder().glob("*-*"):
        (shutil.copytree if part.name.startswith("connector") else _link)(part, tmp_path / part.name)
    damaged = tmp_path / parts.spark.connector[0].parent.name / parts.spark.connector[0].name
    damaged.write_bytes(damaged.read_bytes()[:-1])
    monkeypatch.setenv("CHAOS_CACHE", str(tmp_path))
    monkeypatch.setenv("CHAOS_MAVEN_MIRROR", f"http://{HOST}:9/")
    said: list[str] = []

    with pytest.raises(RuntimeUnavailableError, match=r"the cache lacks jars \(4: .*\), and Maven Central cannot be reached"):
        artifacts.ensure(said.append, verify=True)

    assert said[0].startswith(
        f"removed from the cache: {jars.read_lock()[f'connector {pyspark.__version__}'][0]} differs from parts.lock: "
    )
    assert not damaged.parent.exists()


def _link(part: Path, place: Path) -> None:
    place.symlink_to(part)


def test_the_real_ivy_fetches_from_a_mirror(tmp_path: Path, mirror: Path) -> None:
    """Nothing but the jars stays in the folder."""
    place = tmp_path / "place"
    place.mkdir()
    wanted = (thing(b"thing-1.0.jar"),)

    jars.fetch(wanted, place, ivy(), print)

    assert mirror.is_dir()
    assert [path.name for path in place.iterdir()] == ["org.example__thing-1.0.jar"]


@pytest.mark.usefixtures("mirror")
def test_the_real_ivy_fetches_a_classifier(tmp_path: Path) -> None:
    """A line with a classifier is another jar of the same module."""
    place = tmp_path / "place"
    place.mkdir()

    jars.fetch((thing(b"thing-1.0-tests.jar", "tests"),), place, ivy(), print)

    assert [path.name for path in place.iterdir()] == ["org.example__thing-1.0-tests.jar"]


def test_a_mirror_with_another_jar_is_refused(tmp_path: Path, mirror: Path) -> None:
    """A jar that a mirror has swapped is fetched twice, reported, and never used."""
    place, said = tmp_path / "place", list[str]()
    place.mkdir()
    (mirror / "thing-1.0.jar").write_bytes(b"swapped")

    with pytest.raises(RuntimeUnavailableError, match=r"org\.example:thing:1\.0 differs from"):
        jars.fetch((thing(b"thing-1.0.jar"),), place, ivy(), said.append)

    assert len(said) == 1


def test_the_server_listens_and_ends_when_told(server: subprocess.Popen[str]) -> None:
    """SIGTERM ends it in good order, without output and with exit code 0."""
    answer = clock.wait_until(version, within_s=300, reason="the server to answer", ignore=(requests.ConnectionError,))
    assert answer.json()["version"]

    server.terminate()

    assert server.wait(300) == 0
    assert server.stdout is not None
    assert server.stdout.read() == ""


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1"])  # noqa: S104 - refused
def test_the_server_refuses_addresses_that_others_can_reach(parts: Parts, host: str) -> None:
    """Its API has no password."""
    answer = subprocess.run(
        [str(parts.toxiproxy), "-host", host, "-port", "8475"], capture_output=True, text=True, timeout=300, check=False
    )

    assert answer.returncode == 1
    assert answer.stderr == f"toxiproxy: {host} is not a loopback address; -allow-non-loopback permits it\n"


def test_an_archive_is_used_and_a_wrong_class_path_is_silent(parts: Parts) -> None:
    """With its own class path most classes come from the archive; with another one none does, and no JVM complains."""
    own, other = class_archives.kafka_class_path(parts.kafka_jars), str(parts.spark.connector[0])

    assert _from_archive(parts, own) > 300
    assert _from_archive(parts, other) == 0
    assert _java(parts, other, "--version").stderr == ""


def _from_archive(parts: Parts, class_path: str) -> int:
    return _java(parts, class_path, "-Xlog:class+load:stdout", "kafka.tools.StorageTool", "--help").stdout.count(
        "shared objects file (top)"
    )


def _java(parts: Parts, class_path: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = (str(parts.java), *class_archives.options(parts.kafka_cds), "-cp", class_path, *arguments)
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
