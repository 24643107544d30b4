"""The early audit: it reads on where it ended, reports what is new, and only too many runs make it give up."""

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
from chaos.engine.observers import EarlyAudit, PipelineSampler, Sampler
from verifiers.base import Bounds, Example, Finding, Verdict
from verifiers.single_scan.stream import TooScatteredError


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


class FakeStream:
    """Finds as many duplicates as it is told, part by part; an exception is raised."""

    def __init__(self, *found):
        self.parts = []
        self._found = list(found)

    def add(self, part):
        found = self._found.pop(0)
        if isinstance(found, Exception):
            raise found
        self.parts.append(part)
        return (duplicates(found), Finding("ordering", "sink", Verdict.UNKNOWN, 0, 9))


def duplicates(count):
    """So far."""
    example = Example("duplicate", 0, 12, 9, None, "also at partition 0 offset 3")
    return Finding("duplicates", "sink", Verdict.INVALID if count else Verdict.UNKNOWN, count, 9, {}, (example,) * bool(count))


@pytest.fixture
def heard(tmp_path, monkeypatch):
    """Runs an early audit until its stream has been given all its parts; returns the history's events."""
    monkeypatch.setattr(observers, "_AUDIT_EVERY_S", 0.001)
    monkeypatch.setattr(
        observers.landing, "part", lambda _spark, topic, bounds, _source: (topic.name, spans(bounds), topic.isolation)
    )

    def hear(kafka, stream, isolation="read_committed"):
        with History(tmp_path / "history.jsonl") as history:
            audit = EarlyAudit(
                lambda: None, kafka, history, Topic("sink-1", 2), source_partitions=2, records=4, isolation=isolation
            )
            audit._stream = stream
            with audit:
                clock.wait_until(lambda: not stream._found, within_s=120, reason="all parts to be looked at")
            return [(event.value.f, event.value.to_json()) for event in history.events()]

    return hear


def spans(bounds):
    """As pairs."""
    return {home: (one.low, one.lso) for home, one in bounds.items()}


def test_each_part_begins_where_the_one_before_ended(heard):
    """Nothing is read twice, and nothing while nothing is new; a leader that puts its end back for a moment changes nothing."""
    stream = FakeStream(0, 0)

    heard(FakeKafka([(0, 5, 9), (3, 3, 3)], [(0, 5, 9), (3, 3, 3)], [(0, 4, 9), (3, 7, 7)]), stream)

    assert stream.parts == [
        ("sink-1", {0: (0, 5), 1: (3, 3)}, "read_committed"),
        ("sink-1", {0: (5, 5), 1: (3, 7)}, "read_committed"),
    ]


def test_a_reader_of_uncommitted_rows_reads_them_all(heard):
    """Up to the high watermark."""
    stream = FakeStream(0)

    heard(FakeKafka([(0, 5, 9), (3, 3, 3)]), stream, "read_uncommitted")

    assert stream.parts[0][1:] == ({0: (0, 9), 1: (3, 3)}, "read_uncommitted")


def test_an_alarm_is_told_when_a_count_has_grown(heard):
    """Once for each count, with the first record and its places; a finding that is not INVALID is not an alarm."""
    kafka = FakeKafka(*[[(0, end, end), (0, 0, 0)] for end in range(1, 5)])

    said = heard(kafka, FakeStream(0, 2, 2, 3))

    assert [(f, value["verifier"], value["count"]) for f, value in said] == [
        ("alarm", "duplicates", 2),
        ("alarm", "duplicates", 3),
    ]
    assert said[0][1]["example"]["offset"] == 12


def test_a_part_that_cannot_be_read_is_read_with_the_next(heard):
    """A broker is down: that is what the run is about."""
    stream = FakeStream(0, KafkaException(KafkaError(KafkaError._TRANSPORT)), 0)
    kafka = FakeKafka([(0, 1, 1), (0, 0, 0)], KafkaException(KafkaError(KafkaError._TIMED_OUT)), [(0, 3, 3), (0, 2, 2)])

    said = heard(kafka, stream)

    assert [f for f, _ in said] == ["unread", "unread"]
    assert stream.parts[1][1] == {0: (1, 3), 1: (0, 2)}


def test_a_log_without_runs_is_left_to_the_audit_at_the_end(heard):
    """The history says so."""
    said = heard(FakeKafka([(0, 1, 1), (0, 0, 0)]), FakeStream(TooScatteredError("too many runs")))

    assert said == [("blind", {"error": "too many runs"})]


def sampled(tmp_path, monkeypatch, kafka, *positions):
    """What was recorded of a pipeline whose positions were these, one after the other; an exception is raised."""
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
