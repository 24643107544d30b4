"""The sink that commits positions first: what it loses, and that it writes nothing twice."""

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException

from pipelines.spark_square import commit_first, sink
from pipelines.spark_square.commit_first import CommitFirst
from pipelines.spark_square.sink import Sink
from tests.unit.pipelines.kafka import Broker
from tests.unit.pipelines.spark_square.test_sink import batch


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    """The broker of the sink's clients."""
    broker = Broker()
    monkeypatch.setattr(commit_first, "Producer", broker.producer)
    monkeypatch.setattr(sink, "Consumer", broker.consumer)
    return broker


def written(*batches: pa.RecordBatch) -> list[dict[str, object]]:
    """The result of a task of the sink."""
    write = CommitFirst(Sink("broker:9092", "app", "sink")).writer()
    return [row for answer in write(iter(batches)) for row in answer.to_pylist()]


def test_the_position_is_committed_before_the_first_row(broker: Broker) -> None:
    """In the other order a task that is repeated would write rows twice."""
    written(batch(3, 4), batch(9))

    assert broker.names == ["consumer", "committed", "commit", "close", "producer", "produce", "produce", "produce", "flush"]
    assert ("commit", [("source", 1, 10)]) in broker.calls


def test_rows_before_the_position_are_skipped_whatever_became_of_them(broker: Broker) -> None:
    """The attempt before has sent them, or has not come so far."""
    broker.position = 12

    answer = written(batch(10, 11, 12, 13))

    assert [key for *_, key, _ in broker.produced] == [b"k12", b"k13"]
    assert answer == [{"part": 1, "attempt": 0, "skipped": 2, "sent": 2, "problem": ""}]


def test_a_task_that_skips_everything_moves_no_position(broker: Broker) -> None:
    """Its rows may end before the committed position, which must never go back; and it needs no producer."""
    broker.position = 100

    answer = written(batch(10, 11))

    assert broker.names == ["consumer", "committed", "close"]
    assert answer == [{"part": 1, "attempt": 0, "skipped": 2, "sent": 0, "problem": ""}]


def test_rows_that_are_not_acknowledged_are_not_sent_again(broker: Broker) -> None:
    """They are missing in what the task says it has sent."""
    broker.refused = (b"k4",)

    (answer,) = written(batch(3, 4, 5))

    assert [key for *_, key, _ in broker.produced] == [b"k3", b"k4", b"k5"]
    assert answer["sent"] == 2


def test_a_commit_that_fails_ends_the_task_before_its_first_row(broker: Broker) -> None:
    """Spark repeats the task, which asks whether the position is stored."""
    broker.fails_at = "commit"

    with pytest.raises(RuntimeError, match="commit"):
        written(batch(0))
    assert broker.produced == []


def test_a_coordinator_that_is_just_elected_is_asked_again(broker: Broker) -> None:
    """The request is repeated with the same position, so nothing changes if the first one was carried out."""
    broker.commits_answered = [KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.NOT_COORDINATOR]

    (answer,) = written(batch(0))

    assert broker.names.count("commit") == 3
    assert answer["sent"] == 1


def test_a_position_that_is_refused_for_another_reason_ends_the_task(broker: Broker) -> None:
    """Nobody knows whether it is stored."""
    broker.commits_answered = [KafkaError._TIMED_OUT]

    with pytest.raises(KafkaException):
        written(batch(0))
    assert broker.produced == []


def test_an_empty_task_asks_nothing(broker: Broker) -> None:
    """It knows no partition."""
    assert written(batch()) == []
    assert broker.calls == []
