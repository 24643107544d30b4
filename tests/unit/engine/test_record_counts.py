"""Records of an output are counted, and transaction markers are not; a reader that is late does not hold progress up."""

import json
from random import Random

import pytest
from confluent_kafka import KafkaError

from chaos.cluster.kafka import Cluster
from chaos.contract.base import Topic
from chaos.engine import record_counts
from chaos.engine.record_counts import Counted


class Message:
    """A record, or the end of a partition."""

    def __init__(self, partition, offset, code=None):
        self._place, self._code = (partition, offset), code

    def error(self):
        return None if self._code is None else KafkaError(self._code)

    def partition(self):
        return self._place[0]

    def offset(self):
        return self._place[1]


class Reader:
    """Gives what was put into it, all at once."""

    def __init__(self):
        self.waiting = []

    def consume(self, most, timeout):
        assert timeout == 0, "progress is sampled in this thread"
        given, self.waiting = self.waiting[:most], self.waiting[most:]
        return given

    def close(self):
        self.waiting = None


@pytest.fixture
def now(monkeypatch):
    """The clock of the test, in seconds."""
    at = [0.0]
    monkeypatch.setattr(record_counts.clock, "monotonic_s", lambda: at[0])
    return at


@pytest.fixture
def count(monkeypatch, now):  # noqa: ARG001 - the clock stands still
    """Counts with a reader of the test."""
    reader = Reader()
    monkeypatch.setattr(Counted, "_begun", lambda _self: reader)
    made = Counted(Cluster({1: ("b", 1)}), Topic("sink", 2))
    return made, reader


def records(partition, *offsets):
    return [Message(partition, offset) for offset in offsets]


def eof(partition, offset):
    return [Message(partition, offset, KafkaError._PARTITION_EOF)]


def test_markers_are_no_records(count):
    """One record in each transaction: half of the offsets are markers, so half of the workload is not through yet."""
    counting, reader = count
    reader.waiting = records(0, 0, 2, 4, 6) + eof(0, 8)

    assert counting.records(8) == 4


def test_an_aborted_transaction_is_no_record_for_any_moment(count, now):
    """The end of the log is past its rows and marker before the reader is: `progress` would take them for growth."""
    counting, reader = count
    reader.waiting = records(0, *range(4)) + eof(0, 4)
    assert counting.records(4) == 4

    now[0] = 50.0
    assert counting.records(9) == 4

    reader.waiting = eof(0, 9)
    assert counting.records(9) == 4


def test_what_a_late_reader_has_not_read_is_counted_by_its_share(count, now):
    """While a leader moves, the output may go on: by as many records as it usually has among its offsets."""
    counting, reader = count
    assert counting.records(10) == 0
    now[0] = 5.0
    assert counting.records(10) == 10, "nothing is known yet"

    reader.waiting = records(0, 0, 2, 4, 6) + eof(0, 8)
    assert counting.records(28) == 4 + 10
    assert counting.records(3) == 3, "it was read further than its end was told"

    reader.waiting = eof(0, 28)
    assert counting.records(28) == 4


def test_a_reader_that_follows_is_not_late(count, now):
    """It is always a little behind a log that grows."""
    counting, reader = count
    for many in range(10):
        assert counting.records(many + 1) == many
        reader.waiting = records(0, many)
        now[0] += 4.9


def test_how_far_a_reader_has_come_is_told_by_its_statistics(count, now):
    """It finds nothing to give behind aborted transactions, and no end either while they follow each other."""
    counting, reader = count
    reader.waiting = records(0, *range(4)) + eof(0, 4)
    for end in range(4, 40):
        told = {"-1": {"next_offset": -1001}, "0": {"next_offset": end}, "1": {"next_offset": -1001}}
        counting._told(json.dumps({"topics": {"sink": {"partitions": told}}}))
        assert counting.records(end + 1) == 4
        now[0] += 1.0

    counting._told(json.dumps({"topics": {}}))  # before the first metadata


def test_an_error_of_a_moment_is_passed_over(count):
    """A leader that is gone comes back."""
    counting, reader = count
    reader.waiting = [Message(0, 0, KafkaError._TRANSPORT), *records(1, 0)]

    assert counting.records(1) == 1


@pytest.mark.parametrize("seed", range(100))
def test_however_records_come_they_are_counted_once(count, seed, monkeypatch):
    """Partitions, transactions and looks by chance."""
    monkeypatch.setattr(record_counts, "_AT_ONCE", 7)
    rng, (counting, reader) = Random(seed), count
    ends, total = [0, 0], 0
    for _ in range(30):
        partition, many = rng.randrange(2), rng.randrange(9)
        reader.waiting += records(partition, *range(ends[partition], ends[partition] + many))
        ends[partition] += many + rng.randrange(2)  # a marker, or none
        reader.waiting += eof(partition, ends[partition])
        total += many
        if rng.random() < 0.5:
            assert counting.records(sum(ends)) == total
    assert counting.records(sum(ends)) == total
