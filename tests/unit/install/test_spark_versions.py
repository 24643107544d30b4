"""Spark in any version: what is fetched, noted, locked, and refused; pip and the registry are stand-ins."""

import sys
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from ruamel.yaml import YAML

from chaos.common.errors import RuntimeUnavailableError
from chaos.install import artifacts, class_archives, jars, preflight, spark_versions
from chaos.install.spark_versions import SparkProgram
from tests.unit.wording import keep, raised

ROOT = Path(__file__).parents[3]
RESOLVED = ("org.apache.spark__spark-sql-kafka-0-10", "org.apache.kafka__kafka-clients", "org.slf4j__slf4j-api")
OURS = SparkProgram("4.2.0", Path("/ours"), ())
PARTS = artifacts.Parts(Path("/jdk/bin/java"), OURS, Path("/kafka"), Path("/tools"), Path("/toxiproxy"))


@pytest.fixture
def said(monkeypatch, tmp_path):
    """A cache of its own; what pip and the registry were asked for, beside what people are told."""
    said = []

    def pip(argv, *, within_s, env):
        assert within_s
        words = [str(word) for word in argv[argv.index("--no-input") + 1 :]]
        target = Path(words[words.index("--target") + 1])
        said.append(f"pip {words[0]} {Path(words[-3]).name} with {Path(env['PYTHONPATH']).name}")
        if target.name != "build":
            (target / "pyspark" / "jars").mkdir(parents=True)
            (target / "pyspark" / "jars" / "spark-core.jar").write_bytes(b"spark")
        else:
            target.mkdir()
        return CompletedProcess(argv, 0, "", "")

    def resolve(wanted, folder, _ivy):
        said.append(f"resolve {wanted[0]}")
        for name in RESOLVED:
            (folder / f"{name}-1.jar").write_bytes(name.encode())

    def fetch(wanted, folder, _ivy, _echo):
        for jar in wanted:
            (folder / jar.file).write_bytes(b"locked")

    monkeypatch.setenv("CHAOS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setattr("chaos.install.spark_versions.processes.run", pip)
    monkeypatch.setattr(jars, "resolve", resolve)
    monkeypatch.setattr(jars, "fetch", fetch)
    monkeypatch.setattr(class_archives, "ensure", lambda place, _ingredients, _echo: place)
    monkeypatch.setattr(preflight, "java_version", lambda _java: "17.0.1")
    monkeypatch.setattr("chaos.install.spark_versions.sys.version_info", (3, 11, 7))  # Spark 3.5 wants no newer one
    return said


def test_the_spark_of_this_environment_needs_nothing(said):
    assert artifacts.of_spark("4.2.0", PARTS, said.append) is PARTS
    assert said == []


def test_another_version_is_fetched_once_and_noted(said):
    """The connector first: there may be none. Of what it needs, that which Spark has itself is left out."""
    first, second = (artifacts.of_spark("4.0.9", PARTS, said.append) for _ in range(2))

    assert said == [
        keep(said[0]),
        "resolve org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.9",
        "fetching Spark 4.0.9, about 300 MB, once …",
        "pip --require-hashes build.txt with ",
        "pip --no-build-isolation pyspark==4.0.9 with build",
    ]
    assert "Spark 4.0.9" in said[0]
    assert first == second
    assert (first.spark.version, first.spark.scala, first.spark.home.name) == ("4.0.9", "2.13", "pyspark")
    assert [jar.name.partition("__")[2] for jar in first.spark.connector] == [
        "kafka-clients-1.jar",
        "spark-sql-kafka-0-10-1.jar",
    ]
    assert not list(first.spark.home.parent.glob("build"))
    assert (first.java, first.kafka_jars) == (PARTS.java, PARTS.kafka_jars)


def test_a_locked_version_is_taken_by_its_hashes(said):
    """Neither pip nor Ivy decides what belongs to it."""
    program = artifacts.of_spark("3.5.7", PARTS, said.append).spark

    assert program.scala == "2.12"
    assert "pip --no-build-isolation 3.5.7.txt with build" in said
    assert not [line for line in said if line.startswith("resolve")]
    assert {jar.name for jar in program.connector} == {jar.file for jar in jars.read_lock()["connector 3.5.7"]}


@pytest.mark.parametrize("changed", ["pyspark/jars/spark-core.jar", "connector"])
def test_a_cache_that_has_changed_is_not_used(said, changed):
    """It is fetched anew the next time."""
    program = artifacts.of_spark("4.0.9", PARTS, said.append).spark
    (program.connector[0] if changed == "connector" else program.home.parent / changed).write_bytes(b"something else")
    asked = len(said)

    with pytest.raises(RuntimeUnavailableError, match=r"has changed since it was fetched: .* start again to fetch it"):
        artifacts.of_spark("4.0.9", PARTS, said.append)
    artifacts.of_spark("4.0.9", PARTS, said.append)

    assert len(said) > asked


@pytest.mark.parametrize(
    ("prints", "names"),
    [
        ("WARNING: …\nERROR: No matching distribution found for pyspark==3.5.99", ("pip index versions pyspark",)),
        (
            "WARNING: Retrying after connection broken by …\nERROR: No matching distribution found for pyspark==3.5.99",
            ("PIP_INDEX_URL", "CHAOS_CACHE"),
        ),
        ("/venv/bin/python: No module named pip", (f"{sys.executable} -m ensurepip",)),
        ("error: disk full", (": error: disk full",)),
    ],
    ids=["no such version", "no network", "no pip", "another error"],
)
def test_what_pip_cannot_fetch_is_told_in_a_line(said, monkeypatch, tmp_path, prints, names):
    """And nothing stays in the cache."""
    monkeypatch.setattr("chaos.install.spark_versions.processes.run", lambda argv, **_: CompletedProcess(argv, 1, "", prints))

    with raised(
        RuntimeUnavailableError, "system.spark.version: ", "3.5.99", *names, hidden={sys.executable: "<python>"}
    ) as caught:
        artifacts.of_spark("3.5.99", PARTS, said.append)

    assert "\n" not in str(caught.value)
    assert [path.name for path in (tmp_path / "cache").glob("spark-*") if path.suffix != ".half"] == []


def test_a_version_without_a_connector_is_told_before_the_package_is_fetched(said, monkeypatch):
    def resolve(wanted, _folder, _ivy):
        raise RuntimeUnavailableError(f"{wanted[0]} is not in Maven Central")

    monkeypatch.setattr(jars, "resolve", resolve)

    with pytest.raises(RuntimeUnavailableError) as caught:
        artifacts.of_spark("4.3.0", PARTS, said.append)

    module = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0"
    assert str(caught.value) == f"system.spark.version 4.3.0: {module} is not in Maven Central"
    assert not [line for line in said if line.startswith("pip")]


@pytest.mark.parametrize(
    ("python", "java", "names"),
    [
        ((3, 13, 1), "17.0.1", ("Spark 3.5.7", "Python 3.11", "3.13")),
        ((3, 11, 7), "25.0.1", ("Spark 3.5.7", "Java 25.0.1", "JAVA_HOME", "JDK 17")),
    ],
    ids=["Python", "Java"],
)
def test_an_interpreter_that_is_too_new_for_a_version_is_told_before_anything_is_fetched(
    said, monkeypatch, python, java, names
):
    """Spark 4 runs with it."""
    monkeypatch.setattr("chaos.install.spark_versions.sys.version_info", python)
    monkeypatch.setattr(preflight, "java_version", lambda _java: java)

    with raised(RuntimeUnavailableError, *names):
        artifacts.of_spark("3.5.7", PARTS, said.append)
    spark_versions.check_interpreters("4.0.0", PARTS.java)

    assert said == []


def test_the_judges_spark_is_named_where_it_is_another(said):
    """`versions.json` has the one of the system as `spark`."""
    ours = spark_versions.here()
    default = SparkProgram(ours, Path("/ours"), ())

    alike, other = (
        artifacts.versions(replace(PARTS, spark=spark)) for spark in (default, SparkProgram("3.5.7", Path("/other"), ()))
    )

    assert (alike["spark"], "spark of the judge" in alike) == (ours, False)
    assert (other["spark"], other["spark-sql-kafka"], other["spark of the judge"]) == ("3.5.7", "3.5.7", ours)
    assert said == []


def test_versions_that_our_scenarios_name_are_locked():
    """Both the package and its connector, but for the package of this environment, which is in requirements.lock."""
    text = (ROOT / "examples" / "versions" / "scenarios.yaml").read_text(encoding="utf-8")
    named = {
        version for scenario in YAML(typ="safe").load(text)["scenarios"] for version in scenario["matrix"].get("spark", ())
    }

    assert named == {"3.5.7", "4.2.0"}
    assert {path.stem for path in spark_versions._LOCKED.iterdir()} == {"build", "3.5.7"}
    assert {spark_versions.section(version) for version in named} <= set(jars.read_lock())
