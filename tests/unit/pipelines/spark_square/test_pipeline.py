import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from chaos.subject.base import Endpoints, Topics
from pipelines.spark_square.driver import _OPTIONS
from pipelines.spark_square.pipeline import SparkSquare

TOPICS = Topics("datasource-7", "datasink-7", 3)
ENDPOINTS = Endpoints(
    kafka="link:9092",
    audit="broker:9092",
    spark_master="spark://master:7077",
    host="127.0.0.9",
    java_options="-Da=1 -Db=2",
    jars=("/jars/a.jar", "/jars/b.jar"),
)


def options(argv: tuple[str, ...]) -> dict[str, str]:
    """The named arguments of a command."""
    words = [part for word in argv[3:] for part in (word.split("=", 1) if word.startswith("--java-options=") else (word,))]
    return dict(zip(words[::2], words[1::2], strict=True))


def test_the_driver_is_started_with_what_it_needs_to_know() -> None:
    """Data goes through this client's own links; the driver does not use the audit listener."""
    command = SparkSquare("at_least_once", batch_records=500, home=Path("/copy")).command(ENDPOINTS, TOPICS, Path("/run"))

    assert command.argv[:3] == (sys.executable, "-m", "pipelines.spark_square.driver")
    assert options(command.argv) == {
        "--delivery": "at_least_once",
        "--batch-records": "500",
        "--master": "spark://master:7077",
        "--kafka": "link:9092",
        "--source": "datasource-7",
        "--sink": "datasink-7",
        "--application": "datasink-7-square",
        "--checkpoint": "/run/checkpoint",
        "--host": "127.0.0.9",
        "--jars": "/jars/a.jar:/jars/b.jar",
        "--home": "/copy",
        "--java-options": "-Da=1 -Db=2",
    }


def test_the_driver_asks_for_the_options_it_is_given() -> None:
    """An argument that only one side knows ends the driver before it says a word."""
    argv = SparkSquare().command(ENDPOINTS, TOPICS, Path("/run")).argv

    assert {f"--{name}" for name in _OPTIONS.split()} == options(argv).keys()


def test_the_driver_runs_the_copy_of_the_code_it_is_told_to() -> None:
    """A changed copy of the pipeline must be what runs, in the driver and, with the same Python, in the executors."""
    environment = SparkSquare(home=Path("/copy")).command(ENDPOINTS, TOPICS, Path("/run")).env

    assert environment == {
        "PYTHONPATH": "/copy",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.9",
        "SPARK_SCALA_VERSION": "2.13",
    }


def test_the_package_itself_is_what_runs_by_default() -> None:
    """`home` is the folder that holds the package, not the package."""
    assert (SparkSquare().home / "pipelines" / "spark_square" / "driver.py").is_file()


def test_a_transactional_id_stands_at_the_index_of_its_partition() -> None:
    """A fault that is aimed at the coordinator of a partition relies on it."""
    ids = SparkSquare("exactly_once").transactional_ids(TOPICS)

    assert ids == tuple(f"datasink-7-square-datasource-7-{partition}" for partition in range(3))


def test_the_stock_sink_has_no_transactional_ids() -> None:
    """It uses no transactions, so there is no coordinator to aim at."""
    assert SparkSquare("at_least_once").transactional_ids(TOPICS) == ()


def test_at_least_once_needs_no_preparation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its progress is in the checkpoint: no group is asked or seeded."""
    monkeypatch.setattr("chaos.subject.clients.Consumer", None)

    SparkSquare("at_least_once").prepare(ENDPOINTS, TOPICS)


def test_at_least_once_reads_the_checkpoint_in_its_folder(tmp_path: Path) -> None:
    """It is where the driver was told to keep it."""
    for log, text in (("offsets", 'v1\n{}\n{"datasource-7":{"0":5}}'), ("commits", "v1\n{}")):
        (tmp_path / "checkpoint" / log).mkdir(parents=True)
        (tmp_path / "checkpoint" / log / "0").write_text(text, encoding="utf-8")

    assert SparkSquare("at_least_once").positions(ENDPOINTS, TOPICS, tmp_path) == {0: 5}


def test_exactly_once_asks_the_group_through_the_audit_listener(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A fault on the pipeline's links must not hide its progress, and an open commit must be waited for."""
    asked: list[dict[str, Any]] = []

    class Group:
        def __init__(self, settings: dict[str, Any]) -> None:
            asked.append(settings)

        def committed(self, _asked: list[TopicPartition], *, timeout: float) -> list[TopicPartition]:
            assert timeout > 0
            return [
                TopicPartition("datasource-7", 0, 7),
                TopicPartition("datasource-7", 1, -1001),
                TopicPartition("datasource-7", 2, 0),
            ]

        def close(self) -> None:
            asked.append({"closed": True})

    monkeypatch.setattr("chaos.subject.clients.Consumer", Group)

    assert SparkSquare("exactly_once").positions(ENDPOINTS, TOPICS, tmp_path) == {0: 7, 2: 0}
    settings, closed = asked
    assert (settings["bootstrap.servers"], settings["group.id"]) == ("broker:9092", "datasink-7-square")
    assert settings["isolation.level"] == "read_committed"
    assert closed == {"closed": True}
