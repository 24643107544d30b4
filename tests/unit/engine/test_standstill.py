"""A pipeline that is declared wrongly: each way has a sentence of its own, with what to mend."""

from dataclasses import replace

import pytest
from confluent_kafka import KafkaError, KafkaException

from chaos.contract.base import Topic, Topics
from chaos.engine import standstill
from chaos.engine.standstill import Seen, of_topic, why_in_table
from tests.unit.engine.played import FakeEnds, named_plan
from tests.unit.wording import keep
from verifiers.base import Bounds

SLOW = Seen("orders-7", "copies-7", written=90, output=30, read=40, group="copy-7")


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"written": 0}, "orders-7 logs/loader.log"),
        ({"output": 0, "read": 0}, "orders-7 copy-7 copies-7 {source} {sink} {bootstrap} logs/pipeline.log"),
        ({"output": 0, "read": None, "group": ""}, "copies-7 {source} {sink} {bootstrap} logs/pipeline.log"),
        ({"output": 0}, "40 orders-7 copy-7 copies-7 {sink} logs/pipeline.log"),
        ({"read": 0}, "30 copies-7 copy-7 orders-7 group none"),
        ({"read": 0, "group": ""}, "30 copies-7 checkpoint orders-7 {source} {checkpoint} none"),
        ({}, "90 orders-7 40 copy-7 30 copies-7"),
        ({"read": None}, "90 orders-7 30 copies-7"),
    ],
)
def test_each_way_has_its_sentence(changes, names):
    """One that fits a slow pipeline has the numbers, and blames nobody."""
    said = keep(of_topic(replace(SLOW, **changes)))

    assert all(name in said for name in names.split())
    assert ("?" in said) is ("{" in names or "none" in names)


@pytest.mark.parametrize(
    ("output", "read", "elsewhere"),
    [(30, 40, False), (0, 0, False), (0, None, False), (30, None, False), (0, 40, True), (30, 0, True)],
)
def test_positions_and_output_of_two_pipelines(output, read, elsewhere):
    """One has moved and the other never has; a pipeline that has done nothing yet is not among them."""
    assert replace(SLOW, output=output, read=read).is_elsewhere is elsewhere


@pytest.mark.parametrize(
    ("written", "read", "names"),
    [
        (0, 0, "orders-7 logs/loader.log"),
        (90, 0, "checkpoint orders-7 {source} {bootstrap}"),
        (90, 40, "90 orders-7 40 checkpoint /run/large"),
    ],
)
def test_of_a_table_only_the_checkpoint_tells(written, read, names):
    """It is read when the pipeline has ended."""
    said = keep(why_in_table("orders-7", "/run/large", written, read))

    assert all(name in said for name in names.split())


@pytest.mark.parametrize(
    ("positions", "failures", "said"),
    [
        (lambda: {0: 0}, [], "nothing of source (by group g)"),
        (lambda: {0: 4, 1: 3}, [], "7 records of source (by group g)"),
        (None, [], "written nothing to sink"),
        (dict, [KafkaException(KafkaError(KafkaError._TIMED_OUT))], "_TIMED_OUT"),
    ],
    ids=["nothing read", "nothing written", "without positions", "no answer"],
)
def test_why_a_run_waits_is_told_by_what_the_brokers_say(tmp_path, positions, failures, said):
    """Records that retention removed from a topic do not count."""
    ends = {"source": {0: Bounds(2, 9, 9)}, "sink": {0: Bounds(5, 5, 5)}}

    assert said in keep(standstill.now(named_plan(tmp_path), FakeEnds(ends, failures), positions))


@pytest.mark.parametrize(
    ("positions", "failures", "elsewhere"),
    [
        (lambda: {0: 4, 1: 3}, [], True),
        (lambda: {0: 0}, [], False),
        (lambda: {0: 4}, [KafkaException(KafkaError(KafkaError._TIMED_OUT))], False),
    ],
)
def test_a_pipeline_that_reads_and_whose_sink_stays_empty_writes_elsewhere(tmp_path, positions, failures, elsewhere):
    """Its positions say nothing of the sink then; a broker that does not answer does not say so."""
    ends = {"source": {0: Bounds(2, 9, 9)}, "sink": {0: Bounds(5, 5, 5)}}

    assert standstill.is_elsewhere(named_plan(tmp_path), FakeEnds(ends, failures), positions) is elsewhere


def test_a_loader_that_is_alone_has_nothing_to_blame(tmp_path):
    """Only how much it has written."""
    alone = replace(named_plan(tmp_path), pipeline=None, topics=Topics((Topic("source", 3),), ""))

    said = standstill.now(alone, FakeEnds({"source": {0: Bounds(0, 7, 7)}}), None)

    assert said == "source has 7 records"
