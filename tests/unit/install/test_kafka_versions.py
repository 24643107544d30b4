"""The program of a broker in any version: what is fetched, noted, and not used when it has changed."""

import hashlib
from pathlib import Path

import pytest

from chaos.common.errors import RuntimeUnavailableError
from chaos.install import artifacts, jars, kafka_versions
from chaos.install.kafka_versions import KafkaProgram
from chaos.install.spark_versions import SparkProgram
from tests.unit.wording import raised

CONTENT = {"kafka_2.13": b"a broker", "slf4j-reload4j": b"a logger", "log4j-core": b"another", "log4j-slf4j-impl": b"a bridge"}


@pytest.fixture
def parts(tmp_path):
    spark = SparkProgram("4.2.0", Path("spark"), ())
    return artifacts.Parts(Path("java"), spark, tmp_path / "locked", Path("tools"), Path("toxiproxy"), Path("cds"))


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """A registry of our own, and what it was asked for."""
    asked = []

    def resolve(wanted, folder, _ivy):
        asked.append([str(module) for module in wanted])
        for module in wanted:
            (folder / f"{module.group}__{module.artifact}-{module.version}.jar").write_bytes(CONTENT[module.artifact])

    monkeypatch.setenv("CHAOS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(jars, "resolve", resolve)
    return asked


def test_the_locked_version_is_the_one_that_starts_quickly(parts, asked):
    """It is there already, with its class archive."""
    program = kafka_versions.ensure(jars.kafka_version(), parts, print)

    assert program == KafkaProgram(jars.kafka_version(), parts.kafka_jars, Path("cds"))
    assert asked == []


@pytest.mark.parametrize(
    ("version", "logging"),
    [
        ("3.8.1", ["org.slf4j:slf4j-reload4j:1.7.36"]),
        (
            "4.1.0",
            ["org.apache.logging.log4j:log4j-slf4j-impl:2.25.4", "org.apache.logging.log4j:log4j-core:2.25.4"],
        ),
    ],
)
def test_another_version_is_fetched_once_with_a_logger_that_fits(parts, asked, version, logging):
    """Kafka logs with Log4j 2 from 4.0 on."""
    said: list[str] = []

    first, second = (kafka_versions.ensure(version, parts, said.append) for _ in range(2))

    assert asked == [[f"org.apache.kafka:kafka_2.13:{version}", *logging]]
    assert first == second
    assert (first.version, first.archive, first.logs_with_log4j_2) == (version, None, version.startswith("4"))
    assert said == [f"fetching Kafka {version} …"]


def test_a_cache_that_has_changed_is_not_used(parts, asked):
    """It is fetched anew the next time."""
    folder = kafka_versions.ensure("3.8.1", parts, print).jars
    jar = next(folder.glob("*kafka_2.13*"))
    jar.write_bytes(b"something else")

    with pytest.raises(RuntimeUnavailableError, match=r"has changed since it was fetched: .* start again to fetch it"):
        kafka_versions.ensure("3.8.1", parts, print)
    kafka_versions.ensure("3.8.1", parts, print)

    assert len(asked) == 2


def test_a_version_whose_hashes_are_locked_must_be_that(parts, asked, monkeypatch, tmp_path):
    """The message names the jar; nothing stays in the cache."""
    lines = {name: hashlib.sha256(CONTENT[name]).hexdigest() for name in ("kafka_2.13", "slf4j-reload4j")}
    right = (
        f"{lines['kafka_2.13']}  org.apache.kafka__kafka_2.13-3.8.1.jar\n"
        f"{lines['slf4j-reload4j']}  org.slf4j__slf4j-reload4j-1.7.36.jar\n"
    )
    monkeypatch.setattr(kafka_versions, "_LOCKED", tmp_path)
    (tmp_path / "3.8.1.sha256").write_text(right, encoding="utf-8")
    kafka_versions.ensure("3.8.1", parts, print)
    (tmp_path / "3.9.0.sha256").write_text(
        right.replace("3.8.1", "3.9.0").replace(lines["slf4j-reload4j"], "0" * 64), encoding="utf-8"
    )

    with raised(RuntimeUnavailableError, "Kafka 3.9.0", "3.9.0.sha256", ": org.slf4j__slf4j-reload4j-1.7.36.jar"):
        kafka_versions.ensure("3.9.0", parts, print)

    assert len(asked) == 2
    assert [path for path in (tmp_path / "cache").glob("kafka-3.9.0*") if path.suffix != ".half"] == []


def test_the_hashes_of_versions_that_our_scenarios_name_are_locked():
    """But for the one in `parts.lock`."""
    text = (Path(__file__).parents[3] / "examples" / "versions" / "scenarios.yaml").read_text(encoding="utf-8")
    named = {path.name.removesuffix(".sha256") for path in kafka_versions._LOCKED.iterdir()}

    assert all(version in text for version in named)
    assert len(named) == 3
