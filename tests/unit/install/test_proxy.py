import re
from pathlib import Path

import pytest

from chaos.common.errors import RuntimeUnavailableError
from chaos.install import artifacts, go_build, proxy
from tests.unit.wording import raised


def test_tests_are_not_part_of_the_server() -> None:
    """A change to a Go test does not rebuild the server; a change to the code of any package or to go.sum does."""
    names = {str(path.relative_to(proxy.SOURCES)) for path in proxy.sources()}

    assert {"main.go", "delay.go", "kafka/toxic.go", "kafka/meter.go", "go.mod", "go.sum"} <= names
    assert not any(name.endswith("_test.go") for name in names)


def test_every_package_that_the_server_imports_is_among_its_sources() -> None:
    """Otherwise a change to it would go on using the old server from the cache."""
    packages = {str(path.parent.relative_to(proxy.SOURCES)) for path in proxy.sources()}
    code = "\n".join(path.read_text(encoding="utf-8") for path in proxy.sources())

    assert set(re.findall(r'"kafka-spark-chaos/toxiproxy/([\w/]+)"', code)) == packages - {"."}


def test_missing_sources_are_reported(tmp_path: Path) -> None:
    """Both a clone and a wheel have them, so something was lost."""
    with raised(RuntimeUnavailableError, tmp_path):
        proxy.sources(tmp_path)


def test_the_server_of_a_wheel_is_used_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is built then, and no Go is looked for."""
    server = tmp_path / "server"
    server.touch()
    monkeypatch.setattr(proxy, "SERVER", server)
    monkeypatch.setattr(go_build, "find_go", None)

    assert artifacts._toxiproxy(tmp_path, print) == server


def test_the_server_of_a_clone_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wheel that was built without Go has no server either; the sources are what both have."""
    monkeypatch.setattr(proxy, "SERVER", tmp_path / "server")
    monkeypatch.setattr(go_build, "find_go", lambda _place, _echo: Path("go"))
    monkeypatch.setattr(go_build, "build", lambda _go, target, _place: target.touch())

    server = artifacts._toxiproxy(tmp_path / "cache", print)

    assert server.is_file()
    assert server.is_relative_to(tmp_path / "cache")


def test_the_go_tests_are_in_a_clone_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package has the sources without their tests, and says so before Go is looked for."""
    monkeypatch.setattr(proxy, "SOURCES", tmp_path)

    with raised(RuntimeUnavailableError, tmp_path, "Go tests"):
        go_build.test(tmp_path, print)
    with raised(RuntimeUnavailableError, tmp_path, "Go tests"):
        go_build.fuzz(tmp_path, 7, print)


def test_every_fuzz_test_is_run_for_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go runs one at a time, so they are looked for; those of the protocol are among them."""
    ran: list[tuple[str, ...]] = []
    monkeypatch.setattr(go_build, "find_go", lambda _place, _echo: Path("go"))
    monkeypatch.setattr(go_build, "_go", lambda command, _place, **_options: ran.append(command))

    go_build.fuzz(tmp_path, 7, lambda _text: None)

    names = {command[3]: command[-1] for command in ran}
    assert {"-fuzz=^FuzzPassesAnything$", "-fuzz=^FuzzDropsOnlyItsFrame$", "-fuzz=^FuzzAnswersOnlyItsFrame$"} <= names.keys()
    assert names["-fuzz=^FuzzPassesAnything$"] == "./kafka"
    assert {command[4] for command in ran} == {"-fuzztime=7s"}


@pytest.mark.parametrize(
    ("text", "before", "version"),
    [
        ("module m\n\ngo 1.24.0\n", r"^go ", (1, 24)),
        ("go version go1.9.2 linux/amd64", r"version go", (1, 9)),
        ("go version devel +abc", r"version go", (0, 0)),
    ],
)
def test_versions_of_go_are_compared_as_numbers(text: str, before: str, version: tuple[int, int]) -> None:
    """1.9 is older than 1.24, and what cannot be read is older than both."""
    assert proxy.parse_version(text, before) == version


def test_the_versions_come_from_the_module_itself() -> None:
    """go.mod is the one place that names them."""
    text = (proxy.SOURCES / "go.mod").read_text(encoding="utf-8")

    assert proxy.minimum() > (1, 0)
    assert f"toxiproxy/v2 v{proxy.toxiproxy_version()}\n" in text
