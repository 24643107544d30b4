"""Declarations reach the programs: every option reaches the pipeline or the loader, in its unit."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
from pydantic import TypeAdapter

from chaos.engine.pipelines import endpoints, loader_of, pipeline_of, topics_of
from chaos.install.packages import Fetched
from chaos.install.registries import GoModules, MavenCentral, Npm, PyPI
from chaos.install.spark_versions import SparkProgram
from chaos.loader.declaration import FillSource, UserLoader
from chaos.loader.plain import Producing
from chaos.scenario.model import Scenario
from chaos.scenario.pipelines import Pipeline
from chaos.scenario.pipelines.base import Tools

JOB = {
    "kind": "spark_submit",
    "reads": ["datasource"],
    "sink": {"topic": "datasink"},
    "application": "job.py",
    "arguments": ["{checkpoint}"],
}
COMMAND = {"kind": "command", "reads": ["datasource"], "sink": {"topic": "datasink"}, "run": ["a"], "group": "g"}


@dataclass(frozen=True)
class FakeParts:
    """Parts that a command may name."""

    java: Path = Path("/jdk/bin/java")
    tools_class_path: str = "/kafka/libs/*"
    spark: SparkProgram = field(default_factory=lambda: SparkProgram("3.5.7", Path("/spark"), ()))


def declared(**options):
    return TypeAdapter(Pipeline).validate_python(options)


def scenario(producer=None, **pipeline):
    workload = {"records": 100, "rate": "50/s", "producer": producer or {}}
    return Scenario(name="fake", title="fake", pipeline=pipeline, workload=workload)


CONTAINER = {"kind": "container", "reads": ["datasource"], "sink": {"topic": "datasink"}, "image": "a", "group": "g"}


@pytest.mark.parametrize(
    ("options", "packages", "client"),
    [
        (COMMAND, None, "app"),
        (COMMAND | {"run": ["{packages}"], "packages": ["a:b:1"]}, MavenCentral(("a:b:1",)), "app"),
        (COMMAND | {"run": ["{packages}"], "packages": {"maven": ["a:b:1"]}}, MavenCentral(("a:b:1",)), "app"),
        (COMMAND | {"run": ["{python}"], "packages": {"pypi": ["a==1"]}}, PyPI(("a==1",)), "app"),
        (
            COMMAND | {"run": ["{python}"], "packages": {"pypi": ["a==1"], "python": "python3.8"}},
            PyPI(("a==1",), "python3.8"),
            "app",
        ),
        (
            COMMAND | {"environment": {"NODE_PATH": "{packages}"}, "packages": {"npm": ["@a/b@1.2.3"]}},
            Npm(("@a/b@1.2.3",)),
            "app",
        ),
        (COMMAND | {"run": ["{packages}"], "packages": {"go": ["a.b/c@v1.2.3"]}}, GoModules(("a.b/c@v1.2.3",)), "app"),
        (CONTAINER, None, "app"),
        (JOB, None, "spark"),
        (JOB | {"packages": ["a:b:1"]}, MavenCentral(("a:b:1",)), "spark"),
    ],
)
def test_a_pipeline_is_run_as_it_is_declared(options, packages, client):
    """With the programs of the system, and the jars of its packages."""
    one = declared(**options)
    made = pipeline_of(one, FakeParts(), Fetched((Path("/cache/b.jar"),), "/cache/env/bin/python"))

    assert made.declared == one
    assert made.tools == Tools("/jdk/bin/java", "/kafka/libs/*", "/spark", "2.12", ("/cache/b.jar",), "/cache/env/bin/python")
    assert made.tools.java_home == "/jdk"
    assert (one.required_packages, one.client) == (packages, client)


def test_a_loader_alone_is_no_pipeline():
    """Its connections are those of the loader."""
    none = declared(kind="none")

    assert pipeline_of(none, FakeParts()) is None
    assert (none.client, none.required_packages) == ("loader", None)


def test_the_loader_is_careful():
    assert loader_of(scenario(**COMMAND).workload, FakeParts(), 7) == FillSource(100, 50.0)


def test_a_loader_is_as_its_producer_is_declared():
    """Whether a pipeline reads what it writes, or nothing."""
    options = {"idempotence": False, "acks": 1, "batch_records": 1, "in_flight": 2}

    made = loader_of(scenario(options, **COMMAND).workload, FakeParts(), 7)

    assert made == FillSource(100, 50.0, Producing(idempotence=False, acks=1, batch_records=1, in_flight=2))
    transactional = loader_of(scenario({"transaction_records": 9}, kind="none").workload, FakeParts(), 7)
    assert transactional == FillSource(100, 50.0, Producing(transaction_records=9))


def test_a_topic_that_two_pipelines_write_is_another_one_in_each_run():
    """Rows of one pipeline never count as those of the other."""
    topics = {"datasource": {}, "datasink": {}}
    runs = [
        topics_of(Scenario(name="fake", title="fake", pipeline=pipeline, topics=topics), "", suffix)
        for pipeline, suffix in ((COMMAND, "7"), (JOB, "8"), (COMMAND, "9"))
    ]

    names = [name for run in runs for name in run.names.values()]
    assert len({*names}) == len(names) == 6
    assert {run.sink for run in runs} == {"datasink-7", "datasink-8", "datasink-9"}


def test_a_loader_of_ones_own():
    """It is started in place of ours, with the programs that it may name."""
    workload = {"records": 100, "rate": "50/s", "rows": {"command": ["{java}", "Load.java"]}}
    declared = Scenario(name="fake", title="fake", pipeline={"kind": "none"}, workload=workload)

    made = loader_of(declared.workload, FakeParts(), 7)

    programs = {"java": "/jdk/bin/java", "kafka_tools": "/kafka/libs/*"}
    assert made == UserLoader(("{java}", "Load.java"), 100, 50.0, 7, programs)


def test_clients_find_the_system_at_the_links_of_their_group():
    """Questions about progress do not go over these links."""
    cluster = SimpleNamespace(options={"sasl.username": "u"}, java={"sasl.jaas.config": "j"})
    system = SimpleNamespace(
        kafka=SimpleNamespace(bootstrap="audit:1", cluster=cluster),
        spark=SimpleNamespace(
            master="spark://m:1",
            driver_host="10.0.0.1",
            java_options="-Xmx1g",
            class_path="/jars/a.jar",
            options={"a": "b"},
        ),
        bootstrap=lambda client: f"{client}:9092",
        service_addresses=lambda client: {"shop": f"{client}:80"},
    )

    found = endpoints(system, "app")

    assert (found.kafka, found.audit, found.host) == ("app:9092", "audit:1", "10.0.0.1")
    assert (found.options, found.java, found.spark_options) == (cluster.options, cluster.java, {"a": "b"})
    assert found.class_path == "/jars/a.jar"
    assert found.services == {"shop": "app:80"}


@pytest.mark.parametrize(
    ("options", "timeouts"),
    [
        (COMMAND, {}),
        (
            COMMAND | {"session_timeout": "9s", "transaction_timeout": "2m"},
            {"session_timeout": 9.0, "transaction_timeout": 120.0},
        ),
        (COMMAND | {"session_timeout": "6s"}, {"session_timeout": 6.0}),
        (JOB, {}),
        ({"kind": "none"}, {}),
    ],
)
def test_the_timeouts_that_a_pipeline_declares_are_known_to_faults(options, timeouts):
    assert declared(**options).timeouts == timeouts


@pytest.mark.parametrize(
    ("options", "speaks"),
    [
        (COMMAND, set()),
        (COMMAND | {"speaks": ["deliveries"]}, {"deliveries"}),
        (JOB, set()),
        ({"kind": "none"}, set()),
    ],
)
def test_only_of_some_pipelines_it_is_known_that_they_make_statements(options, speaks):
    """The lines of any other are its own."""
    assert scenario(**options).speaks == speaks


def test_a_loader_under_test_says_what_it_was_told_of_its_transactions():
    """Beside a pipeline it is the pipeline that is judged."""
    transactional = {"transaction_records": 9}

    assert scenario(transactional, kind="none").speaks == {"transactions"}
    assert scenario(transactional, **COMMAND).speaks == set()
