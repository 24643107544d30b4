"""Looks at the ends of the sink: a row for each change, with when it was asked last and answered first."""

from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from chaos.common import clock
from chaos.contract.base import Topic
from chaos.engine.observers import Look, Lookout
from chaos.engine.program_statements import about_sink
from tests.unit.engine.played import run_plan

SILENT = KafkaException(KafkaError(KafkaError._TRANSPORT))


class FakeKafka:
    """Has these answers, one after the other."""

    def __init__(self, *answers):
        self._answers = iter(answers)

    def ends(self, topic, partitions, _level):
        assert (topic, partitions) == ("sink-1", 2)
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return dict(enumerate(answer))


def looked(monkeypatch, *answers):
    """The sightings, with a millisecond for each question and each answer."""
    times = count(100)
    monkeypatch.setattr(clock, "now_ms", lambda: next(times))
    lookout = Lookout(FakeKafka(*answers), Topic("sink-1", 2))
    for _ in answers:
        lookout._look()
    return list(lookout.looks())


def test_an_end_that_stays_is_one_row(monkeypatch):
    """It was asked for last when the third look was, and answered first by the first one."""
    assert looked(monkeypatch, (0, 5), (0, 5), (0, 5)) == [Look(0, 0, 0, 104, 101), Look(1, 0, 5, 104, 101)]


def test_each_change_is_a_row(monkeypatch):
    """Partitions change at times of their own."""
    assert looked(monkeypatch, (0, 5), (3, 5), (3, 9)) == [
        Look(0, 0, 0, 100, 101),
        Look(0, 1, 3, 104, 103),
        Look(1, 0, 5, 102, 101),
        Look(1, 1, 9, 104, 105),
    ]


def test_a_look_that_was_not_answered_says_nothing(monkeypatch):
    """Neither that the end was the same, nor another."""
    assert looked(monkeypatch, (0, 5), SILENT, SILENT, (1, 5)) == [
        Look(0, 0, 0, 100, 101),
        Look(0, 1, 1, 104, 105),
        Look(1, 0, 5, 104, 101),
    ]


@pytest.mark.parametrize("ends", [(4, 0), (0, 4)])
def test_an_end_that_goes_back_is_a_change(monkeypatch, ends):
    """A log that was cut off; what that means is for the verifier."""
    found = [one.end for one in looked(monkeypatch, (4, 4), ends) if one.partition == ends.index(0)]

    assert found == [4, 0]


def test_what_was_seen_is_judged_in_the_sink_with_the_positions_of_the_group(tmp_path):
    """Where nobody looked, neither is there."""
    made = run_plan(tmp_path)
    pipeline = SimpleNamespace(consumer_group=lambda _topics: "g")
    kafka = SimpleNamespace(committed=tuple, reached=lambda group, topics: [(group, *topics)])
    found = [about_sink(replace(made, pipeline=pipeline), kafka, looks) for looks in (None, tuple)]

    assert [set(one) & {"looks", "reached"} for one in found] == [set(), {"looks", "reached"}]
    assert found[1]["reached"]() == [("g", *made.topics.filled)]
