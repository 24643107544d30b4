"""Events of a pipeline's process are throttled without losing a count."""

import json

import pytest

from pipelines.messages import ThrottledEvents


@pytest.fixture
def now(monkeypatch):
    """A clock that the test moves."""
    at = [0.0]
    monkeypatch.setattr("pipelines.messages.monotonic_s", lambda: at[0])
    return at


def said(capsys):
    """The events written since the last call."""
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_first_is_said_at_once_and_what_follows_adds_up(now, capsys):
    """A pipeline of a thousand transactions a second must not fill a disk with its log."""
    events = ThrottledEvents()
    for number in range(1, 101):
        now[0] = number / 1000
        events.count("committed", 0, 10, positions={str(number % 2): number}, transaction=number)
    now[0] = 0.3
    events.catch_up()

    first, rest = said(capsys)
    assert (first["times"], first["records"], first["transaction"]) == (1, 10, 1)
    assert (rest["times"], rest["records"], rest["transaction"]) == (99, 990, 100)
    assert rest["positions"] == {"0": 100, "1": 99}


def test_kinds_and_workers_are_held_back_apart(now, capsys):
    """An abort is reported at once beside a thousand commits."""
    events = ThrottledEvents()
    for event, worker in (("committed", 0), ("aborted", 0), ("committed", 1), ("committed", 1)):
        events.count(event, worker, 1)

    assert [(one["event"], one["worker"]) for one in said(capsys)] == [("committed", 0), ("aborted", 0), ("committed", 1)]
    assert now == [0.0]


@pytest.mark.parametrize(("at_once", "lines"), [(False, 0), (True, 1)])
def test_at_the_end_nothing_is_held_back(now, capsys, at_once, lines):
    """In the middle of a run it is."""
    events = ThrottledEvents()
    events.count("committed", 0, 1)
    events.count("committed", 0, 1)
    said(capsys)
    now[0] = 0.1

    events.catch_up(at_once=at_once)

    assert len(said(capsys)) == lines
