from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from pyspark.errors import StreamingQueryException

from pipelines.spark_square import driver
from pipelines.spark_square.driver import _RESTARTS, _planned, _run
from pipelines.spark_square.sink import RefusedError

SPARK: Any = SimpleNamespace(sparkContext=SimpleNamespace(applicationId="app-1", uiWebUrl="http://127.0.0.9:4040"))
ARGUMENTS = Namespace(delivery="exactly_once")


@dataclass
class Queries:
    """Queries of which the first ones die, and what is said meanwhile."""

    deaths: int = 0
    started: int = 0
    problems: tuple[str, ...] = ()
    lastProgress: object = None  # noqa: N815 - Spark's name
    said: list[dict[str, Any]] = field(default_factory=list)

    def start(self, _spark: object, _arguments: Namespace, refuse: Callable[[str], object]) -> "Queries":
        self.started += 1
        for problem in self.problems:
            refuse(problem)
        return self

    def awaitTermination(self) -> None:  # noqa: N802 - Spark's name
        if self.started <= self.deaths:
            raise StreamingQueryException("no leader")

    def say(self, event: str, **value: Any) -> None:
        self.said.append({"event": event, **value})


@pytest.fixture
def queries(monkeypatch: pytest.MonkeyPatch) -> Queries:
    """Queries in the place of Spark's."""
    queries = Queries()
    monkeypatch.setattr(driver, "_start_exactly_once", queries.start)
    monkeypatch.setattr(driver, "say", queries.say)
    return queries


def test_it_says_where_its_application_is_and_runs_until_its_query_ends(queries: Queries) -> None:
    """For whoever reads its log."""
    _run(SPARK, ARGUMENTS)

    assert queries.said == [{"event": "started", "app_id": "app-1", "ui": "http://127.0.0.9:4040"}]
    assert queries.started == 1


def test_a_query_that_dies_is_started_again_and_said_so(queries: Queries) -> None:
    """An outage longer than Spark's retries ends the query and must not end the pipeline."""
    queries.deaths = _RESTARTS

    _run(SPARK, ARGUMENTS)

    told = [(one["restarts"], "no leader" in one["error"]) for one in queries.said if one["event"] == "restarted"]
    assert told == [(number, True) for number in range(1, _RESTARTS + 1)]
    assert queries.started == _RESTARTS + 1


def test_a_query_that_dies_too_often_ends_the_pipeline(queries: Queries) -> None:
    """A pipeline that never works would be restarted for ever, and its process must not end as if all were well."""
    queries.deaths = _RESTARTS + 1

    with pytest.raises(StreamingQueryException):
        _run(SPARK, ARGUMENTS)
    assert queries.started == _RESTARTS + 1


def test_a_query_that_works_between_its_deaths_is_always_started_again(queries: Queries) -> None:
    """In a long soak it may die often."""
    queries.deaths, queries.lastProgress = 3 * _RESTARTS, {"batchId": 7}

    _run(SPARK, ARGUMENTS)

    assert {one["restarts"] for one in queries.said if one["event"] == "restarted"} == {1}
    assert queries.started == 3 * _RESTARTS + 1


def test_a_batch_that_the_sink_refuses_ends_it_at_once(queries: Queries) -> None:
    """Another attempt would be refused too, and the program's last words must be the reason."""
    queries.deaths, queries.problems = 9, ("the batch begins at 300",)

    with pytest.raises(RefusedError, match="the batch begins at 300"):
        _run(SPARK, ARGUMENTS)
    assert queries.started == 1


class Stream:
    """A chain of Spark's builders; it keeps the function that writes a batch."""

    write: Callable[[object, int], None]

    @property
    def writeStream(self) -> "Stream":  # noqa: N802 - Spark's name
        return self

    def foreachBatch(self, write: Callable[[object, int], None]) -> "Stream":  # noqa: N802 - Spark's name
        self.write = write
        return self

    def option(self, _name: str, _value: str) -> "Stream":
        return self

    def trigger(self, **_trigger: str) -> "Stream":
        return self

    def start(self) -> "Stream":
        return self


def test_a_driver_starts_while_no_broker_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its query is started again in the middle of an outage; what it asks Kafka itself must end a batch, and not the driver."""
    stream, asked = Stream(), []

    def topic_id(*_arguments: object) -> str:
        asked.append("id")
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    monkeypatch.setattr(driver, "_source", lambda _spark, _arguments: stream)
    monkeypatch.setattr("pipelines.kafka.topic_id", topic_id)
    arguments = Namespace(kafka="broker:9092", source="in", sink="out", application="app", checkpoint=str(tmp_path))

    driver._start_exactly_once(SPARK, arguments, lambda _problem: None)

    assert asked == []
    with pytest.raises(KafkaException):
        stream.write(object(), 0)


@pytest.mark.parametrize(
    ("plan", "ends"),
    [
        ('v1\n{}\n-\n{"other":{"0":7}}\n{"source":{"1":90,"0":91}}', {0: 91, 1: 90}),
        ('v1\n{}\n{"other":{"0":7}}', {}),
        ('v1\n{}\n{"source":{"0":4', {}),
        ("v1", {}),
        (None, {}),
    ],
)
def test_a_plan_that_is_not_whole_says_nothing(tmp_path: Path, plan: str | None, ends: dict[int, int]) -> None:
    """Where a start is not known, the sink refuses nothing; an invented one would make it refuse a good batch."""
    log = tmp_path / "8"
    if plan is not None:
        log.write_text(plan, encoding="utf-8")

    assert _planned(log, "source") == ends
