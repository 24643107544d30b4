"""Samplers record how far a run is, whenever something has changed."""

from functools import partial
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from chaos.common import clock
from chaos.common.errors import InconclusiveError
from chaos.common.events import PipelineSampled, ProgressSampled
from chaos.common.history import History, of_type
from chaos.contract.base import Topic
from chaos.engine import observers
from chaos.engine.ends import OfGroup
from chaos.engine.observers import PipelineSampler, Sampler
from verifiers.base import Bounds


class FakeKafka:
    """Answers what it was given, one after the other, and then the last."""

    bootstrap = "127.0.0.1:9092"
    cluster = SimpleNamespace(java={})

    def __init__(self, *answers):
        self._answers = list(answers)

    def offsets(self, _topic, _partitions):
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return {home: Bounds(*ends) for home, ends in enumerate(answer)}


class Ends:
    """The ends of the source and of the output."""

    def __init__(self, source, output):
        self._ends = {"source": source, "output": output}

    def end(self, topic, _partitions, _level):
        return self._ends[topic]


def sampled(tmp_path, monkeypatch, kafka, *positions):
    """The samples of a pipeline with these positions, one after the other; an exception is raised."""
    monkeypatch.setattr(observers, "_PIPELINE_EVERY_S", 0.001)
    answers, asked = list(positions), []

    def ask():
        answer = answers[min(len(asked), len(answers) - 1)]
        asked.append(answer)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with History(tmp_path / "history.jsonl") as history:
        sampler = PipelineSampler(kafka, history, [Topic("source", 2)], positions=ask, executors=lambda: ("one", "two"))
        with sampler:
            # when the last answer is asked for a second time, the sample of the first time is recorded
            clock.wait_until(lambda: len(asked) > len(answers), within_s=300, reason="the last sample")
        return [sample for _, sample in of_type(history.events(), PipelineSampled)]


def test_the_pipeline_is_sampled_when_it_has_moved(tmp_path, monkeypatch):
    """Partition 1 begins at 5, where records have expired: nobody is behind in them."""
    kafka = FakeKafka([(0, 10, 10), (5, 12, 14)])
    silent = KafkaException(KafkaError(KafkaError._TIMED_OUT))

    samples = sampled(tmp_path, monkeypatch, kafka, {}, {1: 6, 0: 4}, silent, {0: 4, 1: 6}, {0: 10, 1: 12})

    assert samples[:2] == [
        PipelineSampled(positions={}, lag=17, executors=2),
        PipelineSampled(positions={0: 4, 1: 6}, lag=12, executors=2),
    ]
    assert samples[2:] == [PipelineSampled(positions={0: 10, 1: 12}, lag=0, executors=2)]


@pytest.mark.parametrize(("by_positions", "committed"), [(False, 30), (True, 80)])
def test_where_the_rows_of_the_output_are_not_known_the_records_that_were_read_are_counted(tmp_path, by_positions, committed):
    """A filter lets 30 of 80 records pass."""
    with History(tmp_path / "history.jsonl") as history:
        history.record(PipelineSampled(positions={0: 50, 1: 30}, lag=20))
        ends, counted = Ends(100, 30), {"records": 100, "total": 100, "by_positions": by_positions}
        with Sampler(ends, history, [Topic("source", 2)], partial(ends.end, *Topic("output", 2)), **counted):
            clock.wait_until(lambda: history.latest(ProgressSampled), within_s=60, reason="a sample")

        assert history.latest(ProgressSampled).committed == committed


def test_what_is_between_source_and_sink_is_lag(tmp_path, monkeypatch):
    """A group that is past its source, and has not read what it wrote to a topic of its own."""
    monkeypatch.setattr(observers, "_PIPELINE_EVERY_S", 0.001)
    kafka = FakeKafka([(0, 10, 10)])
    kafka.reads = lambda _group: {"app-x-repartition": (1, {0: 4})}
    kafka.has_records = lambda *_place: True
    positions = OfGroup(lambda: {0: 10}, kafka, "app", frozenset({"source"}))

    with History(tmp_path / "history.jsonl") as history:
        with PipelineSampler(kafka, history, [Topic("source", 1)], positions=positions, executors=tuple):
            clock.wait_until(lambda: history.latest(PipelineSampled), within_s=60, reason="a sample")

        assert history.latest(PipelineSampled).lag == 6


def test_positions_in_a_format_that_nobody_knows_are_not_asked_for_again(tmp_path, monkeypatch):
    """The phases of the run tell it; a thread that dies would write a trace instead."""
    monkeypatch.setattr(observers, "_PIPELINE_EVERY_S", 0.001)
    asked = []

    def positions():
        asked.append(1)
        raise InconclusiveError("offsets/0, line 1: a format that nobody knows")

    with History(tmp_path / "history.jsonl") as history:
        sampler = PipelineSampler(FakeKafka([(0, 1, 1)]), history, [], positions=positions, executors=tuple)
        with sampler:
            clock.wait_until(lambda: not sampler._thread.is_alive(), within_s=60, reason="its end")

        assert (len(asked), history.latest(PipelineSampled)) == (1, None)


def test_records_of_the_output_are_counted_where_its_end_tells_more(tmp_path):
    """Ten records in ten transactions take twenty offsets; the reader is closed with the sampler."""
    closed = []
    counted = SimpleNamespace(records=lambda end: end // 2, close=lambda: closed.append(1))
    with History(tmp_path / "history.jsonl") as history:
        ends, words = Ends(100, 20), {"records": 100, "total": 100, "counted": counted}
        with Sampler(ends, history, [Topic("source", 2)], partial(ends.end, *Topic("output", 2)), **words):
            clock.wait_until(lambda: history.latest(ProgressSampled), within_s=60, reason="a sample")

        sample = history.latest(ProgressSampled)
    assert (sample.committed, sample.end, closed) == (10, 20, [1])
