"""Reading a topic in this process: where it ends, and what ends it."""

from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from chaos.audit import small_logs
from chaos.audit.logs import Fixed, Topics
from chaos.common.errors import InconclusiveError
from tests.unit.wording import raised
from verifiers.base import Bounds

NUMBERS = {"orders": {0: 3, 1: 4}}
END, LEFT, DENIED = KafkaError._PARTITION_EOF, KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.TOPIC_AUTHORIZATION_FAILED


def message(partition, offset, code=None):
    """A record, or an error with this code."""
    error = None if code is None else KafkaError(code, "why", retriable=code == LEFT)
    return SimpleNamespace(error=lambda: error, topic=lambda: "orders", partition=lambda: partition, offset=lambda: offset)


def read(*answers, ends, stop=None):
    """The numbers and offsets that are read, where the consumer gives these answers and nothing more."""
    given = iter(answers)
    consumer: Any = SimpleNamespace(consume=lambda _most, _within_s: next(given, []))
    found = small_logs._committed(consumer, NUMBERS, ends, stop or Event())
    return [(number, one.offset()) for number, one in found]


def test_it_ends_where_the_ends_were():
    """At the last record, or where the log ends because markers and aborted records do not show; what is new is passed over."""
    ends = {3: Bounds(5, 7, 9), 4: Bounds(0, 3, 3)}

    assert read(
        [message(0, 5), message(1, 0)],
        [],
        [message(0, 6), message(0, 7), message(0, 8)],
        [message(1, 2, END)],
        [message(1, 3, END)],
        [message(1, 4)],
        ends=ends,
    ) == [(3, 5), (4, 0), (3, 6)]


def test_an_empty_log_is_not_waited_for():
    """Its begin is its end."""
    assert read(ends={3: Bounds(4, 4, 4)}) == []


def test_an_end_that_is_not_reached(monkeypatch):
    """One whose leader is gone is waited for, for a while."""
    monkeypatch.setattr(small_logs, "_SILENT_S", 0.0)

    with raised(small_logs._UnreadableError, "0 s"):
        read([message(0, 0)], [message(0, 1, LEFT)], ends={3: Bounds(0, 3, 3)})


def test_a_topic_that_may_not_be_read():
    """The reason is Kafka's."""
    with pytest.raises(small_logs._UnreadableError, match="why"):
        read([message(0, 0, DENIED)], ends={3: Bounds(0, 3, 3)})


def test_a_folder_that_cannot_be_written(monkeypatch, tmp_path):
    """One line, and no traceback."""
    (tmp_path / "source").write_text("")
    asked = Topics("somewhere:1", ("orders",), ("squares",))
    fixed = Fixed(
        {0: Bounds(0, 1, 1)}, {0: Bounds(0, 1, 1)}, numbers={"source": {"orders": {0: 0}}, "sink": {"squares": {0: 0}}}
    )
    monkeypatch.setattr(small_logs, "why_unreadable", lambda said, *_: f"orders could not be read: {said}")

    with small_logs.SmallLogs(asked, fixed, tmp_path) as few, pytest.raises(InconclusiveError, match=r"orders .*File exists"):
        few.landed()


def test_it_stops_when_it_is_told_to():
    """As when Spark could not be started."""
    stop = Event()
    stop.set()

    assert read([message(0, 0)], ends={3: Bounds(0, 3, 3)}, stop=stop) == []
