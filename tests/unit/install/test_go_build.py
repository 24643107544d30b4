import re
from pathlib import Path

import pytest

from chaos.common.errors import RuntimeUnavailableError
from chaos.install import go_build


def test_tests_are_not_part_of_the_server() -> None:
    """A change to a Go test does not rebuild the server; a change to the code of any package or to go.sum does."""
    names = {str(path.relative_to(go_build.SOURCES)) for path in go_build.sources()}

    assert {"main.go", "delay.go", "kafka/toxic.go", "kafka/meter.go", "go.mod", "go.sum"} <= names
    assert not any(name.endswith("_test.go") for name in names)


def test_every_package_that_the_server_imports_is_among_its_sources() -> None:
    """Otherwise a change to it would go on using the old server from the cache."""
    packages = {str(path.parent.relative_to(go_build.SOURCES)) for path in go_build.sources()}
    code = "\n".join(path.read_text(encoding="utf-8") for path in go_build.sources())

    assert set(re.findall(r'"kafka-spark-chaos/toxiproxy/([\w/]+)"', code)) == packages - {"."}


def test_missing_sources_are_reported(tmp_path: Path) -> None:
    """Only a clone has them, and the message says so."""
    with pytest.raises(RuntimeUnavailableError, match=r"are not in .*; install the project from a clone: pip install -e \."):
        go_build.sources(tmp_path)


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
    assert go_build.parse_version(text, before) == version


def test_the_versions_come_from_the_module_itself() -> None:
    """go.mod is the one place that names them."""
    text = (go_build.SOURCES / "go.mod").read_text(encoding="utf-8")

    assert go_build.minimum() > (1, 0)
    assert f"toxiproxy/v2 v{go_build.toxiproxy_version()}\n" in text
