"""Packages of each registry, really resolved by its own client, and what a program finds of them."""

import subprocess

import pytest

from chaos.common.errors import RuntimeUnavailableError
from chaos.install import artifacts, jars, packages, spark_versions
from chaos.install.packages import Registry
from chaos.install.registries import GoModules, MavenCentral, Npm, PyPI

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


@pytest.fixture
def ivy(monkeypatch, tmp_path):
    """The real one, and a cache that has no packages yet."""
    java = artifacts.ensure(print).java
    monkeypatch.setenv("CHAOS_CACHE", str(tmp_path / "cache"))
    return jars.Ivy(java, spark_versions.home_here())


def answer(*words: str, **environment: str) -> str:
    return subprocess.run(
        words, env={"PATH": "/usr/bin:/bin", **environment}, capture_output=True, text=True, check=True
    ).stdout


def test_a_program_in_python_imports_its_packages_alone(ivy):
    found = packages.ensure(PyPI(("aiokafka==0.14.0",)), ivy, print)

    assert answer(found.python, "-c", "import aiokafka; print(aiokafka.__version__)") == "0.14.0\n"
    with pytest.raises(subprocess.CalledProcessError):
        answer(found.python, "-c", "import confluent_kafka")


def test_a_program_of_node_requires_its_packages(ivy):
    found = packages.ensure(Npm(("kafkajs@2.2.4",)), ivy, print)

    script = "console.log(require('kafkajs/package.json').version)"
    assert answer("node", "-e", script, NODE_PATH=str(found.paths[0])) == "2.2.4\n"


def test_a_program_in_java_has_its_class_path(ivy):
    found = packages.ensure(MavenCentral(("org.apache.kafka:kafka-clients:3.9.1",)), ivy, print)

    names = {path.name for path in found.paths}
    assert {"org.apache.kafka__kafka-clients-3.9.1.jar", "org.lz4__lz4-java-1.8.0.jar"} <= names


def test_a_program_in_go_is_built_with_its_packages(ivy, tmp_path):
    found = packages.ensure(GoModules(("github.com/google/uuid@v1.6.0",)), ivy, print)
    program = tmp_path / "main.go"
    program.write_text(
        'package main\nimport "github.com/google/uuid"\nfunc main() { println(uuid.Nil.String()) }\n', encoding="utf-8"
    )

    words = ("go", "run", "-C", str(found.paths[0]), str(program))
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.stderr == "00000000-0000-0000-0000-000000000000\n"


@pytest.mark.parametrize(
    ("registry", "line"),
    [
        (PyPI(("aiokafka==0.99.0",)), "PyPI has no aiokafka==0.99.0"),
        (Npm(("kafkajs@99.0.0",)), "npm has no kafkajs@99.0.0"),
        (GoModules(("github.com/google/uuid@v1.99.0",)), "modules has no github.com/google/uuid@v1.99.0"),
        (
            MavenCentral(("org.apache.kafka:kafka-clients:99.0.0",)),
            "Central has no org.apache.kafka:kafka-clients:99.0.0",
        ),
    ],
)
def test_a_version_that_does_not_exist(ivy, registry: Registry, line: str):
    with pytest.raises(RuntimeUnavailableError, match=line) as caught:
        packages.ensure(registry, ivy, print)

    assert "\n" not in str(caught.value)
