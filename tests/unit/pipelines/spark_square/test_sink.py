from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaException

from pipelines.spark_square import sink
from pipelines.spark_square.sink import Plan, Sink, transactional_id
from tests.unit.pipelines.kafka import Broker
from tests.unit.wording import named


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    """The broker of the sink's clients."""
    broker = Broker()
    monkeypatch.setattr(sink, "Producer", broker.producer)
    monkeypatch.setattr(sink, "Consumer", broker.consumer)
    monkeypatch.setattr(sink, "monotonic_s", lambda: broker.now_s)
    return broker


def batch(*offsets: int, partition: int = 1) -> pa.RecordBatch:
    """Rows of one source partition, as Spark hands them to the sink."""
    columns = {
        "topic": pa.array(["source" for _ in offsets], pa.string()),
        "partition": pa.array([partition for _ in offsets], pa.int32()),
        "offset": pa.array(offsets, pa.int64()),
        "key": pa.array([b"k%d" % offset for offset in offsets], pa.binary()),
        "value": pa.array([b"v%d" % offset for offset in offsets], pa.binary()),
    }
    return pa.RecordBatch.from_pydict(columns)


def written(*batches: pa.RecordBatch, plan: Plan = Plan(source_id="id-1")) -> list[dict[str, Any]]:  # noqa: B008 - frozen
    """The result of a task of the sink."""
    write = Sink("broker:9092", "app", "sink").writer(plan)
    return [row for answer in write(iter(batches)) for row in answer.to_pylist()]


def test_the_steps_come_in_the_order_of_the_algorithm(broker: Broker) -> None:
    """The position is asked for after the fencing and before the first row: any other order can write twice."""
    written(batch(0, 1))

    clients, steps = broker.calls[:2], broker.names[2:]
    assert clients == [("producer", "app-source-1"), ("consumer", "app", "read_committed")]
    before = ["init_transactions", "committed", "begin_transaction"]
    assert steps == [*before, "produce", "produce", "send_offsets", "commit_transaction", "close"]


def test_rows_that_are_in_the_sink_already_are_skipped(broker: Broker) -> None:
    """A retry after a commit that Spark never heard of writes only what lies behind the committed position."""
    broker.position = 12

    answer = written(batch(10, 11), batch(12, 13))

    assert broker.produced == [("sink", 1, b"k12", b"v12"), ("sink", 1, b"k13", b"v13")]
    assert answer == [{"part": 1, "attempt": 0, "skipped": 2, "sent": 2, "problem": ""}]


def test_the_position_is_committed_in_the_transaction_of_its_rows(broker: Broker) -> None:
    """It is exclusive, and stands behind the last row even where offsets have holes; the id of its topic is beside it."""
    written(batch(3, 4), batch(9))

    assert ("send_offsets", [("source", 1, 10, "id-1")], "metadata of the group") in broker.calls


def test_a_task_that_skips_everything_moves_no_position(broker: Broker) -> None:
    """Its rows may end before the committed position, which must never go back."""
    broker.position = 100

    answer = written(batch(10, 11))

    assert "send_offsets" not in broker.names
    assert answer == [{"part": 1, "attempt": 0, "skipped": 2, "sent": 0, "problem": ""}]


def test_an_empty_task_does_not_fence_another(broker: Broker) -> None:
    """A task without rows knows no partition, so it must not touch Kafka at all."""
    assert written(batch()) == []
    assert broker.calls == []


def test_a_missing_position_is_an_error(broker: Broker) -> None:
    """To begin anywhere would be a guess: at 0 it duplicates, at the end it loses."""
    broker.position = -1001

    with pytest.raises(RuntimeError, match=r"no position in source-1.*never seeded.*expired"):
        written(batch(0))
    assert "begin_transaction" not in broker.names


@pytest.mark.parametrize("after_s", [0.1, 5.1])
def test_a_coordinator_that_waits_is_woken(broker: Broker, after_s: float) -> None:
    """By a position in a transaction that is aborted, once it has waited for its own log; this attempt fails all the same."""
    broker.no_coordinator_after_s = after_s

    with pytest.raises(KafkaException, match="NOT_COORDINATOR"):
        written(batch(0))

    woken = ["begin_transaction", "send_offsets", "abort_transaction"] if after_s > 5 else []
    assert broker.names[2:] == ["init_transactions", "committed", *woken]
    assert broker.produced == []


@pytest.mark.parametrize("first", [200, 230, 299])
def test_a_batch_that_would_leave_records_out_is_refused(broker: Broker, first: int) -> None:
    """The group was reset, and the checkpoint was not: nothing is written, and the error names both places."""
    broker.position, broker.log = 200, (first, 300)

    (answer,) = written(batch(300, 301), plan=Plan({1: 300}))

    assert "begin_transaction" not in broker.names
    assert (answer["skipped"], answer["sent"]) == (0, 0)
    named(str(answer["problem"]), "at 300 in source-1", "position 200", f"record at {first}", "the checkpoint")


@pytest.mark.parametrize(("log", "start"), [((300, 301), 300), ((), 300), ((200, 300), 200), ((200, 300), 0)])
def test_markers_before_a_batch_are_no_records(broker: Broker, log: tuple[int, ...], start: int) -> None:
    """The position stands behind the last row of the batch before, and Spark planned beyond the markers that follow it."""
    broker.position, broker.log = 200, log

    (answer,) = written(batch(300, 301), plan=Plan({1: start}))

    assert (answer["sent"], answer["problem"]) == (2, "")


def test_a_position_in_a_topic_that_was_made_anew_is_refused(broker: Broker) -> None:
    """Records below the position in the new topic were never read."""
    broker.position, broker.metadata = 200, "id-0"

    (answer,) = written(batch(300), plan=Plan(source_id="id-1"))

    assert "begin_transaction" not in broker.names
    named(str(answer["problem"]), "source was made anew", "position 200 in source-1", "id-0", "id-1")


@pytest.mark.parametrize(("metadata", "source_id"), [("", "id-1"), ("id-1", "id-1"), ("id-0", "")])
def test_a_position_without_an_id_is_taken_as_it_is(broker: Broker, metadata: str, source_id: str) -> None:
    """It was seeded, or set by an operator."""
    broker.metadata = metadata

    (answer,) = written(batch(3), plan=Plan(source_id=source_id))

    assert (answer["sent"], answer["problem"]) == (1, "")


def test_rows_of_two_partitions_in_one_task_are_an_error(broker: Broker) -> None:
    """After a repartition one position would stand for both, and two tasks would fence each other for ever."""
    with pytest.raises(RuntimeError, match="one task has rows of source-2 and -1"):
        written(batch(0), batch(0, partition=2))
    assert "commit_transaction" not in broker.names


@pytest.mark.parametrize("step", ["init_transactions", "committed", "send_offsets"])
def test_an_error_ends_the_task_before_the_commit(broker: Broker, step: str) -> None:
    """Spark must see it and try again with a new producer; nothing is repaired in place."""
    broker.fails_at = step

    with pytest.raises(RuntimeError, match=step):
        written(batch(0))
    assert "commit_transaction" not in broker.names


def test_a_transactional_id_belongs_to_one_source_partition() -> None:
    """It says nothing of batch or attempt, or a retry would not fence the attempt before it."""
    assert transactional_id("app", "source", 2) == "app-source-2"
