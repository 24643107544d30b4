"""Packages of a pipeline: fetched once, with all that they need, and not used when they have changed."""

from pathlib import Path

import pytest

from chaos.common.errors import RuntimeUnavailableError
from chaos.install import jars, packages
from chaos.install.registries import MavenCentral
from tests.unit.wording import raised

AVRO = "org.apache.spark:spark-avro_2.13:4.2.0"
IVY = jars.Ivy(Path("java"), Path("spark"))


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """A registry of our own, and what it was asked for."""
    asked = []

    def resolve(wanted, folder, _ivy):
        asked.append([str(module) for module in wanted])
        if any(module.version == "0" for module in wanted):
            raise RuntimeUnavailableError(f"{wanted[0]} is not there")
        for name in ("spark-avro", "what-it-needs"):
            (folder / f"{name}.jar").write_bytes(b"classes")

    monkeypatch.setenv("CHAOS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(jars, "resolve", resolve)
    return asked


def test_they_are_fetched_once_and_need_no_network_then(asked):
    said: list[str] = []

    first, second = (packages.ensure(MavenCentral((AVRO,)), IVY, said.append) for _ in range(2))

    assert asked == [[AVRO]]
    assert first == second
    assert [jar.name for jar in first.paths] == ["spark-avro.jar", "what-it-needs.jar"]
    assert said == [f"fetching {AVRO} and their dependencies …"]


def test_no_packages_cost_nothing(asked, tmp_path):
    assert packages.ensure(None, IVY, print) == packages.ensure(MavenCentral(()), IVY, print) == packages.NO_PACKAGES
    assert asked == []
    assert not (tmp_path / "cache").exists()


def test_one_that_does_not_exist(asked):
    """It is named, and nothing stays in the cache."""
    with raised(RuntimeUnavailableError, "a:b:0 is not there"):
        packages.ensure(MavenCentral(("a:b:0",)), IVY, print)
    with pytest.raises(RuntimeUnavailableError):
        packages.ensure(MavenCentral(("a:b:0",)), IVY, print)

    assert len(asked) == 2


def test_a_cache_that_has_changed_is_not_used(asked):
    """It is fetched anew the next time."""
    packages.ensure(MavenCentral((AVRO,)), IVY, print).paths[0].write_bytes(b"something else")

    with pytest.raises(RuntimeUnavailableError, match=r"has changed since it was fetched: .* start again to fetch it"):
        packages.ensure(MavenCentral((AVRO,)), IVY, print)
    packages.ensure(MavenCentral((AVRO,)), IVY, print)

    assert len(asked) == 2
