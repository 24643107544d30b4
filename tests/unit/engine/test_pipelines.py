"""What is declared is what is run: every option reaches the pipeline or the loader, in its unit."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
from pydantic import TypeAdapter

from chaos.engine.pipelines import client_of, endpoints, loader_of, packages_of, pipeline_of, timeouts_of, topics_of
from chaos.install.spark_versions import SparkProgram
from chaos.loader.declaration import FillSource, OwnLoader
from chaos.scenario.model import Scenario
from chaos.scenario.pipelines import Pipeline
from chaos.subject.command import CommandPipeline
from chaos.subject.container import ContainerPipeline
from chaos.subject.spark_submit import SparkSubmit

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
    """What a command may name."""

    java: Path = Path("/jdk/bin/java")
    tools_class_path: str = "/kafka/libs/*"
    spark: SparkProgram = field(default_factory=lambda: SparkProgram("3.5.7", Path("/spark"), ()))


def declared(**options):
    return TypeAdapter(Pipeline).validate_python(options)


def scenario(producer=None, **pipeline):
    workload = {"records": 100, "rate": "50/s", "producer": producer or {}}
    return Scenario(name="fake", title="fake", pipeline=pipeline, workload=workload)


@pytest.mark.parametrize(
    ("options", "made", "client"),
    [
        ({"kind": "none"}, None, "loader"),
        (
            {
                "kind": "command",
                "reads": ["datasource"],
                "sink": {"topic": "datasink"},
                "run": ["{java}", "-cp", "{kafka_tools}:{packages}"],
                "packages": ["a:b:1"],
                "group": "g-{suffix}",
                "model": "square",
                "transactional_ids": ["t-{partition}"],
                "restarts": 1,
                "repeat": True,
                "environment": {"A": "{folder}"},
                "speaks": ["started"],
            },
            CommandPipeline(
                run=("{java}", "-cp", "{kafka_tools}:{packages}"),
                packages="/cache/b.jar",
                group="g-{suffix}",
                model="square",
                ids=("t-{partition}",),
                java="/jdk/bin/java",
                kafka_tools="/kafka/libs/*",
                restarts=1,
                repeat=True,
                environment={"A": "{folder}"},
                says_started=True,
            ),
            "app",
        ),
        (
            {
                "kind": "container",
                "reads": ["datasource"],
                "sink": {"topic": "datasink"},
                "image": "shop/copy:1",
                "command": ["{bootstrap}"],
                "group": "g-{suffix}",
                "transactional_ids": ["t"],
                "restarts": 1,
                "environment": {"A": "{sink}"},
                "speaks": ["started", "transactions"],
            },
            ContainerPipeline(
                run=("{bootstrap}",),
                group="g-{suffix}",
                ids=("t",),
                image="shop/copy:1",
                restarts=1,
                environment={"A": "{sink}"},
                says_started=True,
            ),
            "app",
        ),
        (
            {
                "kind": "spark_submit",
                "reads": ["datasource"],
                "sink": {"topic": "datasink"},
                "application": "/shop/job.jar",
                "main_class": "shop.Orders",
                "arguments": ["{checkpoint}"],
                "configuration": {"spark.a": True, "spark.b": 4, "spark.c": "text"},
                "environment": {"LOUD": 1.5},
                "model": "square",
                "positions": {"group": "{sink}-g"},
                "transactional_ids": ["{sink}-{partition}"],
                "python_workers": True,
                "transactions": True,
                "restarts": 0,
                "packages": ["a:b:1"],
                "working_directory": "/shop",
            },
            SparkSubmit(
                application="/shop/job.jar",
                arguments=("{checkpoint}",),
                main_class="shop.Orders",
                configuration={"spark.a": "true", "spark.b": "4", "spark.c": "text"},
                environment={"LOUD": "1.5"},
                model="square",
                group="{sink}-g",
                ids=("{sink}-{partition}",),
                restarts=0,
                packages=("/cache/b.jar",),
                working_directory="/shop",
                spark_home="/spark",
                scala="2.12",
                java_home="/jdk",
            ),
            "spark",
        ),
    ],
)
def test_a_declared_pipeline_is_made(options, made, client):
    jars = [Path("/cache/b.jar")] if packages_of(declared(**options)) else []
    assert pipeline_of(declared(**options), FakeParts(), jars) == made
    assert client_of(declared(**options)) == client


def test_the_loader_is_careful():
    assert loader_of(scenario(**COMMAND).workload, FakeParts(), 7) == FillSource(100, 50.0)


def test_a_loader_is_as_its_producer_is_declared():
    """Whether a pipeline reads what it writes, or nothing."""
    options = {"idempotence": False, "acks": 1, "batch_records": 1, "in_flight": 2}

    made = loader_of(scenario(options, **COMMAND).workload, FakeParts(), 7)

    assert made == FillSource(100, 50.0, idempotence=False, acks="1", batch_records=1, in_flight=2)
    transactional = loader_of(scenario({"transaction_records": 9}, kind="none").workload, FakeParts(), 7)
    assert transactional == FillSource(100, 50.0, transaction_records=9)


def test_a_topic_that_two_pipelines_write_is_another_one_in_each_run():
    """What one has left is never taken for what the other has written."""
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
    assert made == OwnLoader(("{java}", "Load.java"), 100, 50.0, 7, programs)


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
        found_by=lambda client: {"shop": f"{client}:80"},
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
    assert timeouts_of(declared(**options)) == timeouts


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
