"""How long readers were blocked, told from looks at the ends of a topic."""

import random

import pytest
from confluent_kafka import IsolationLevel, KafkaError, KafkaException

from chaos.common import clock
from chaos.common.events import ReadersBlocked
from chaos.common.history import History, of_type
from chaos.contract.base import Topic
from chaos.engine import blocked
from chaos.engine.blocked import Blocks, BlockWatch


def told(*looks, until_s):
    """The report about looks (second, last stable offsets, high watermarks), by partition and seconds."""
    blocks = Blocks()
    over = [one for second, ends, highs in looks for one in blocks.look(second, dict(enumerate(ends)), dict(enumerate(highs)))]
    over += blocks.rest(until_s)
    return [(one.partition, one.end, one.seconds) for one in over]


def test_a_partition_that_goes_on_does_not_hide_one_that_stands():
    """Together the two have grown with each look."""
    looks = ((0, (10, 10), (10, 10)), (1, (10, 20), (11, 20)), (2, (10, 30), (11, 30)), (9, (10, 90), (12, 90)))

    assert told(*looks, (26, (13, 95), (13, 95)), until_s=30) == [(0, 10, 25)]


@pytest.mark.parametrize("until_s", [5, 40])
def test_a_transaction_that_is_never_ended_blocks_until_nobody_looks(until_s):
    """Nothing changes in the log after its record, and there is only one look."""
    assert told((1, (10,), (11,)), until_s=until_s) == [(0, 10, until_s - 1)]


def test_a_standstill_with_nothing_above_it_blocks_nobody():
    """Nothing was written."""
    assert told((0, (10,), (10,)), (60, (10,), (10,)), until_s=90) == []


def test_each_transaction_is_told_by_itself():
    """One is open at each look, and none for long, but the last."""
    flowing = [(0.5 * number, (10 * number,), (10 * number + 5,)) for number in range(40)]

    assert told(*flowing, (30.0, (500,), (500,)), until_s=31) == [(0, 390, 10.5)]


@pytest.mark.parametrize("seed", range(300))
def test_what_is_told_is_what_was_open(seed):
    """Transactions by chance, one after the other in each partition, looked at every quarter of a second."""
    chance = random.Random(seed)
    partitions = range(chance.randint(1, 4))
    times_s = [0.25 * number for number in range(400)]
    ends, highs, expected = {}, {}, []
    for partition in partitions:
        end, at = 0, 0
        for number in range(len(times_s)):
            ends[partition, number] = highs[partition, number] = end
        while at < len(times_s) - 1:
            opened = at + chance.randint(1, 60)
            closed = opened + chance.randint(1, 40)
            for number in range(opened, len(times_s)):
                is_open = number < closed
                ends[partition, number], highs[partition, number] = (end, end + 3) if is_open else (end + 4, end + 4)
            if opened < len(times_s):
                until_s = times_s[closed] if closed < len(times_s) else 100.0
                expected.append((partition, end, until_s - times_s[opened]))
            end, at = end + 4, closed
    looks = [
        (second, [ends[one, number] for one in partitions], [highs[one, number] for one in partitions])
        for number, second in enumerate(times_s)
    ]

    assert sorted(told(*looks, until_s=100.0)) == sorted(one for one in expected if one[2] >= 1)


class Answers:
    """Ends that are asked for, look by look; a leader does not answer in between."""

    def __init__(self):
        self.looks = 0

    def ends(self, _topic, _partitions, level):
        if level is IsolationLevel.READ_UNCOMMITTED:
            return {0: 30}
        self.looks += 1
        if self.looks == 2:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return {0: 20}


def test_a_block_is_in_the_history_when_the_watch_ends(tmp_path, monkeypatch):
    """A leader that does not answer ends no block."""
    monkeypatch.setattr(blocked, "_WORTH_TELLING_S", 0.0)
    monkeypatch.setattr(blocked, "_EVERY_S", 0.001)
    kafka = Answers()
    with History(tmp_path / "history.jsonl") as history:
        with BlockWatch(kafka, history, Topic("output", 1)):
            clock.wait_until(lambda: kafka.looks > 3, within_s=60, reason="the fourth look")
        told = [one for _, one in of_type(history.events(), ReadersBlocked)]

    assert [(one.partition, one.end) for one in told] == [(0, 20)]
