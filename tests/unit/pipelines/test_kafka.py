"""The common part of the programs' Kafka clients: options come in the environment, and a call that hangs is given up."""

from pathlib import Path
from threading import Event

import pytest
from confluent_kafka import KafkaError, KafkaException

from chaos.contract.base import Endpoints, Topic, Topics
from pipelines import kafka
from pipelines.kafka import HungError, call_with_deadline
from tests import deployed

SECRET = "hunter2"  # noqa: S105 - not a real one
ENDPOINTS = Endpoints(
    "a:1", "a:1", options={"sasl.password": SECRET}, java={"sasl.jaas.config": SECRET}, spark_options={"x": SECRET}
)
TOPICS = Topics((Topic("chaos-a-datasource-7", 3),), "chaos-a-datasink-7", "chaos-a-")
COMMAND = deployed.command(("application",), "{source}-ctp", transactional_ids=("{source}-ctp-{partition}",))
JOB = deployed.job("job.py", ("{checkpoint}",), positions={"group": "{sink}-square"}, transactional_ids=("{sink}-{partition}",))
PIPELINES = [JOB, COMMAND]


@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda pipeline: pipeline.declared.kind)
def test_a_password_is_only_in_the_environment(pipeline, monkeypatch):
    """Every user of a machine can read command lines."""
    command = pipeline.command(ENDPOINTS, TOPICS, Path("run"))

    assert SECRET not in " ".join(command.argv)
    for name, value in command.env.items():
        monkeypatch.setenv(name, value)
    assert kafka.librdkafka_options() == {"sasl.password": SECRET}
    assert kafka.for_spark(kafka.java_options()) == {"kafka.sasl.jaas.config": SECRET}
    assert kafka.spark_options() == {"x": SECRET}


def test_without_options_there_are_none(monkeypatch):
    """As in a local run."""
    for name in COMMAND.command(ENDPOINTS, TOPICS, Path("run")).env:
        monkeypatch.delenv(name, raising=False)

    assert kafka.librdkafka_options() == kafka.java_options() == kafka.spark_options() == {}


@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda pipeline: pipeline.declared.kind)
def test_every_name_begins_with_the_prefix(pipeline):
    """Groups and transactional ids come into being when they are used, so a check before they are made is not possible."""
    names = (pipeline.consumer_group(TOPICS), *pipeline.transactional_ids(TOPICS))

    assert len(names) == 4
    assert all(name.startswith("chaos-a-") for name in names)


def test_a_call_that_comes_back_is_told_its_limit():
    """It runs in a thread, and its end is waited for."""
    told: list[float] = []

    call_with_deadline(7.0, told.append, "call")

    assert told == [7.0]


def test_what_the_call_raises_is_raised():
    """As if there were no thread."""

    def fails(_limit_s):
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    with pytest.raises(KafkaException, match="TIMED_OUT"):
        call_with_deadline(7.0, fails, "call")


def test_a_call_that_does_not_come_back_is_given_up(monkeypatch):
    """It may come back later, in its own thread."""
    monkeypatch.setattr(kafka, "_GRACE_S", 0.01)
    never = Event()

    with pytest.raises(HungError, match=r"send_offsets did not return within 0.06 s, its limit was 0.05 s"):
        call_with_deadline(0.05, lambda _limit_s: never.wait(300), "send_offsets")

    never.set()
