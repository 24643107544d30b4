"""The square pipeline as `scenarios.yaml` declares it: what it is started with, and what is known of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from chaos.contract.base import Endpoints, Topic, Topics
from chaos.contract.variables import of_program
from chaos.engine.pipelines import pipeline_of
from chaos.runtime.capabilities import Capability
from chaos.scenario.load import load
from pipelines.spark_square.driver import parsed
from pipelines.spark_square.sink import transactional_id
from tests.unit.engine.test_pipelines import FakeParts

ROOT = Path(__file__).parents[4]
FILE = load(ROOT / "scenarios.yaml")
TOPICS = Topics((Topic("datasource-7", 3),), "datasink-7")
ENDPOINTS = Endpoints("link:9092", "broker:9092", "spark://m:7077", "127.0.0.9")
PARTS: Any = FakeParts()
ONCE, STOCK = "baseline-without-faults", "stock-sink-executors-crashed"


def submitted(name):
    """The words of spark-submit, and the variables of the driver."""
    command = pipeline_of(FILE.scenario(name).pipeline, PARTS).command(ENDPOINTS, TOPICS, Path("/run"))
    ((_, *words),) = json.loads(command.argv[4])
    return words, command.env


def test_the_driver_understands_what_it_is_started_with():
    """An argument that only one side knows would end the driver before it says a word."""
    words, _ = submitted(ONCE)

    arguments = parsed(words[words.index(str(ROOT / "pipelines" / "spark_square" / "driver.py")) + 1 :])

    assert vars(arguments) == {
        "delivery": "exactly_once",
        "whole_batches": "false",
        "batch_records": "4000",
        "kafka": "link:9092",
        "source": "datasource-7",
        "sink": "datasink-7",
        "application": "datasink-7-square",
        "checkpoint": "/run/checkpoint",
    }


@pytest.mark.parametrize(("name", "delivery"), [(ONCE, "exactly_once"), (STOCK, "at_least_once")])
def test_each_declaration_has_its_delivery(name, delivery):
    words, _ = submitted(name)

    assert f"--delivery={delivery}" in words


def test_driver_and_executors_import_the_package_of_this_project():
    """A copy of the project with another sink must be what runs."""
    words, environment = submitted(ONCE)

    assert of_program(environment)["PYTHONPATH"] == str(ROOT)
    assert f"spark.executorEnv.PYTHONPATH={ROOT}" in words


@pytest.mark.parametrize(("name", "speculates"), [(ONCE, "false"), ("slow-task-speculated", "true")])
def test_speculation_is_a_setting_of_the_declaration(name, speculates):
    """Only the scenario that is about it turns it on."""
    assert f"spark.speculation={speculates}" in submitted(name)[0]


def test_a_transactional_id_stands_at_the_index_of_its_partition():
    """A fault that is aimed at the coordinator of a partition relies on it: the declared ids are those of the sink."""
    pipeline = pipeline_of(FILE.scenario(ONCE).pipeline, PARTS)
    application = pipeline.consumer_group(TOPICS)

    assert application == "datasink-7-square"
    assert pipeline.transactional_ids(TOPICS) == tuple(
        transactional_id(application, TOPICS.source, partition) for partition in range(3)
    )


def test_the_stock_sink_has_neither_a_group_nor_transactions():
    """Its progress is in the checkpoint, and no task of it commits."""
    declared = FILE.scenario(STOCK).pipeline
    pipeline = pipeline_of(declared, PARTS)

    assert (pipeline.consumer_group(TOPICS), pipeline.transactional_ids(TOPICS), declared.transactions) == ("", (), False)
    assert declared.capabilities == {Capability.PIPELINE, Capability.SPARK, Capability.CHECKPOINT}


def test_what_the_exactly_once_sink_offers_to_faults():
    assert FILE.scenario(ONCE).pipeline.capabilities == {
        Capability.PIPELINE,
        Capability.SPARK,
        Capability.CHECKPOINT,
        Capability.CONSUMER_GROUP,
        Capability.PYTHON_WORKERS,
        Capability.COMMITTING_TASKS,
    }


@pytest.mark.parametrize("word", ["--delivery=exactly_twice", "--whole-batches=perhaps", "--colour=red"])
def test_impossible_arguments_end_it(word, capsys):
    """The last line says what is wrong, and a report shows it."""
    place = [f"--{name}=x" for name in ("batch-records", "kafka", "source", "sink", "application", "checkpoint")]

    with pytest.raises(SystemExit):
        parsed([*place, word])

    assert word.partition("=")[2] in capsys.readouterr().err.splitlines()[-1]
