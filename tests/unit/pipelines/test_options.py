"""How TLS and SASL reach the processes of a pipeline: by the environment, never by a command line."""

from pathlib import Path

import pytest

from pipelines import options
from pipelines.base import Endpoints, Topics
from pipelines.command.pipeline import CommandPipeline
from pipelines.loader.pipeline import FillSource
from pipelines.spark_square.pipeline import SparkSquare
from pipelines.transactional.pipeline import ConsumeTransformProduce

SECRET = "hunter2"  # noqa: S105 - of nobody
ENDPOINTS = Endpoints(
    "a:1", "a:1", options={"sasl.password": SECRET}, java={"sasl.jaas.config": SECRET}, spark_options={"x": SECRET}
)
TOPICS = Topics("chaos-a-datasource-7", "chaos-a-datasink-7", 3, "chaos-a-")
COMMAND = CommandPipeline(("copy", "{source}", "{prefix}"), "{prefix}copier-{suffix}", ids=("{prefix}t-{suffix}-{partition}",))
PIPELINES = [SparkSquare(), ConsumeTransformProduce(), COMMAND]


@pytest.mark.parametrize("pipeline", [*PIPELINES, FillSource(1, 1.0)], ids=lambda pipeline: type(pipeline).__name__)
def test_a_password_is_in_the_environment_alone(pipeline, monkeypatch):
    """Everybody on a machine can read command lines."""
    command = pipeline.command(ENDPOINTS, TOPICS, Path("run"))

    assert SECRET not in " ".join(command.argv)
    for name, value in command.env.items():
        monkeypatch.setenv(name, value)
    assert options.librdkafka() == {"sasl.password": SECRET}
    assert options.for_spark(options.java()) == {"kafka.sasl.jaas.config": SECRET}
    assert options.spark() == {"x": SECRET}


def test_without_options_nothing_is_handed_on(monkeypatch):
    """A local run is as it was."""
    for name in options.variables(ENDPOINTS):
        monkeypatch.delenv(name, raising=False)

    assert options.variables(Endpoints("a:1", "a:1")) == {}
    assert options.librdkafka() == options.java() == options.spark() == {}


@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda pipeline: type(pipeline).__name__)
def test_every_name_begins_with_the_prefix(pipeline):
    """Groups and transactional ids are made by using them: nobody asks a guard then."""
    names = (pipeline.consumer_group(TOPICS), *pipeline.transactional_ids(TOPICS))

    assert len(names) == 4
    assert all(name.startswith("chaos-a-") for name in names)


def test_a_command_is_told_the_prefix():
    """Empty on a cluster of our own: one scenario runs on both."""
    assert COMMAND.consumer_group(TOPICS) == "chaos-a-copier-7"
    assert COMMAND.consumer_group(Topics("datasource-7", "datasink-7", 3)) == "copier-7"
