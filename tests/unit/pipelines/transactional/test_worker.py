import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, TopicPartition

from pipelines.messages import ThrottledEvents
from pipelines.transactional import worker as ctp_worker
from pipelines.transactional.delivery import BrokenError, Place
from pipelines.transactional.options import Options
from pipelines.transactional.worker import Worker, begins, member, transformed


@dataclass
class Record:
    """A stand-in for what a consumer returns."""

    at: tuple[int, int]
    of_key: bytes | None
    of_value: bytes | None

    def partition(self) -> int:
        return self.at[0]

    def offset(self) -> int:
        return self.at[1]

    def key(self) -> bytes | None:
        return self.of_key

    def value(self) -> bytes | None:
        return self.of_value

    def error(self) -> None:
        return None


def test_a_row_goes_to_the_partition_its_record_came_from():
    """With its key, squared; the ends are the positions to read on from. Big numbers stay exact."""
    big = 10**18 + 1

    records: list[Any] = [Record((0, 7), b"3", b"3"), Record((2, 0), b"b", str(big).encode()), Record((0, 9), None, b"-4")]
    batch = transformed(records)

    assert batch.rows == [(0, b"3", b"9"), (2, b"b", str(big * big).encode()), (0, None, b"16")]
    assert batch.ends == {0: 10, 2: 1}


def test_a_sink_may_have_fewer_partitions_than_the_source():
    """Then rows of several source partitions go to one; positions are those of the source all the same."""
    records: list[Any] = [Record((partition, 4), b"k", b"3") for partition in range(5)]
    batch = transformed(records, sink_partitions=2)

    assert [partition for partition, _, _ in batch.rows] == [0, 1, 0, 1, 0]
    assert batch.ends == dict.fromkeys(range(5), 5)


@pytest.mark.parametrize("value", [None, b"", b"1.5", b"\xff"])
def test_a_value_that_is_not_an_integer_ends_the_worker_with_its_place(value):
    """To skip it silently would be a loss."""
    record: Any = Record((1, 7), b"k", value)
    with pytest.raises(BrokenError, match="at offset 7 of partition 1 is not an integer"):
        transformed([record])


def test_a_member_reads_committed_rows_and_does_not_guess_where_to_begin():
    """Its name decides which partitions it gets."""
    settings = member(1, Options(), Place("link", "datasource-7", "datasink-7", "datasource-7-ctp"))

    assert (settings["isolation.level"], settings["enable.auto.commit"]) == ("read_committed", False)
    assert settings["auto.offset.reset"] == "error"
    assert member(1, Options(auto_offset_reset="latest"), Place("l", "s", "t", "g"))["auto.offset.reset"] == "latest"
    assert (settings["client.id"], settings["group.id"]) == ("datasource-7-ctp-1", "datasource-7-ctp")


def test_a_member_may_read_and_commit_more_than_it_should():
    """A client that commits by itself commits what it has handed over."""
    chosen = Options(delivery="at_least_once", positions="client", isolation="read_uncommitted", max_poll_interval_ms=7000)

    settings = member(0, chosen, Place("link", "source", "sink", "group"))

    assert settings["isolation.level"] == "read_uncommitted"
    assert settings["enable.auto.commit"] is settings["enable.auto.offset.store"] is True
    assert settings["max.poll.interval.ms"] == 7000


@pytest.mark.parametrize(("reset", "begin"), [("earliest", OFFSET_BEGINNING), ("latest", OFFSET_END)])
def test_what_is_read_again_begins_where_it_was_committed(reset, begin):
    """Or where `auto.offset.reset` says, if there is no position."""
    asked = [TopicPartition("datasource-7", partition) for partition in (0, 2)]

    assert begins(asked, {0: 11, 2: 0}, reset) == {0: 11, 2: 0}
    assert begins(asked, {0: 11}, reset) == {0: 11, 2: begin}
    assert begins(asked, {0: 11, 2: 0}, "error") == {0: 11, 2: 0}
    with pytest.raises(BrokenError, match="no position in datasource-7-2"):
        begins(asked, {0: 11}, "error")


@dataclass
class Reader:
    """A consumer: each turn is what happens to its partitions, and the records that it returns."""

    turns: list
    position: int = 0
    sought: list = field(default_factory=list)
    given: Any = None

    def subscribe(self, _topics, *, on_assign, on_revoke, on_lost):
        assert on_revoke == on_lost
        self.given = on_assign

    def consume(self, _records, _within_s):
        partitions, records = self.turns.pop(0)
        if partitions:
            self.given(self, [TopicPartition("datasource-7", partition) for partition in partitions])
        return [Record(place, b"1", b"1") for place in records]

    def committed(self, asked, *, timeout):
        assert timeout > 0
        return [TopicPartition(one.topic, one.partition, self.position) for one in asked]

    def seek(self, position):
        self.sought.append((position.partition, position.offset))

    def close(self):
        pass


@pytest.mark.parametrize(("failed", "reset", "again"), [("", "error", []), ("why", "error", [5]), ("why", "earliest", [None])])
def test_a_worker_states_what_it_was_given_and_where_it_begins(monkeypatch, capsys, failed, reset, again):
    """Records read while partitions change hands are discarded, and not reported; what failed is read again from a start."""
    reader = Reader([([0, 1], [(0, 9)]), ([], [(0, 5), (1, 2)]), ([], [])], position=5 if reset == "error" else -1001)
    monkeypatch.setattr(ctp_worker, "Consumer", lambda _settings: reader)
    delivery = type("", (), {"prepare": lambda _: None, "deliver": lambda *_: failed})()
    monkeypatch.setattr(ctp_worker, "delivery", lambda *_: delivery)
    options = Options(auto_offset_reset=reset)

    Worker(2, options, Place("link", "datasource-7", "sink", "g"), ThrottledEvents(), lambda: not reader.turns).run()

    lines = [line for line in map(json.loads, capsys.readouterr().out.splitlines()) if "event" not in line]
    assert {line.pop("by") for line in lines} == {"worker-2"}
    begin = 5 if reset == "error" else None
    assert lines == [
        {"start": [["datasource-7", 0, None], ["datasource-7", 1, None]]},
        {"start": [["datasource-7", 0, begin]]},
        {"got": [["datasource-7", 0, 5], ["datasource-7", 1, 2]]},
        *({"start": [["datasource-7", 0, one], ["datasource-7", 1, one]]} for one in again),
    ]


def test_a_position_that_the_group_cannot_tell_is_asked_for_again(monkeypatch, capsys):
    """An error in the answer does not mean that there is no position."""

    class Unknown(TopicPartition):
        error = KafkaError(KafkaError.UNSTABLE_OFFSET_COMMIT)

    class Unsure(Reader):
        answers = 0

        def committed(self, asked, *, timeout):
            self.answers += 1
            told = super().committed(asked, timeout=timeout)
            return [Unknown(one.topic, one.partition, one.offset) for one in told] if self.answers == 1 else told

    reader = Unsure([([0], []), ([], [(0, 5)]), ([], [])], position=5)
    monkeypatch.setattr(ctp_worker, "Consumer", lambda _settings: reader)
    delivery = SimpleNamespace(prepare=lambda: None, deliver=lambda *_: "why")
    monkeypatch.setattr(ctp_worker, "delivery", lambda *_: delivery)

    Worker(2, Options(), Place("link", "datasource-7", "sink", "g"), ThrottledEvents(), lambda: not reader.turns).run()

    assert (reader.answers, reader.sought) == (2, [(0, 5)])
    assert '{"start": [["datasource-7", 0, 5]], "by": "worker-2"}' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("interval_ms", "turns", "batches"),
    [
        pytest.param(60_000, [[5], [], [6]], [[5, 6]], id="it waits for a whole batch"),
        pytest.param(0, [[5], [], [6]], [[5], [6]], id="its interval is over"),
    ],
)
def test_a_batch_is_whole_unless_its_interval_is_over(monkeypatch, interval_ms, turns, batches):
    """Slow records do not make batches smaller, so the number of transactions is known beforehand."""
    reader = Reader([([], [(0, offset) for offset in offsets]) for offsets in turns])
    delivered = []
    delivery = type("", (), {"prepare": lambda _: None, "deliver": lambda _, batch, __: delivered.append(batch.ends[0] - 1)})()
    monkeypatch.setattr(ctp_worker, "Consumer", lambda _settings: reader)
    monkeypatch.setattr(ctp_worker, "delivery", lambda *_: delivery)
    options = Options(batch_records=2, interval_ms=interval_ms)

    Worker(0, options, Place("link", "datasource-7", "sink", "g"), ThrottledEvents(), lambda: not reader.turns).run()

    assert delivered == [batch[-1] for batch in batches]


def test_partitions_that_change_hands_end_a_batch(monkeypatch, capsys):
    """Its records may belong to another worker by now, so none of them is delivered."""
    reader = Reader([([], [(0, 5)]), ([0], [(0, 6)]), ([], [])], position=5)
    delivered = []
    delivery = type("", (), {"prepare": lambda _: None, "deliver": lambda _, batch, __: delivered.append(batch)})()
    monkeypatch.setattr(ctp_worker, "Consumer", lambda _settings: reader)
    monkeypatch.setattr(ctp_worker, "delivery", lambda *_: delivery)
    options = Options(batch_records=3, interval_ms=60_000)

    Worker(0, options, Place("link", "datasource-7", "sink", "g"), ThrottledEvents(), lambda: not reader.turns).run()

    assert (delivered, reader.sought) == ([], [(0, 5)])
    assert '"got"' not in capsys.readouterr().out
