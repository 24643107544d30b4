import json

import pytest

from pipelines.throttled_events import Voice


@pytest.fixture
def now(monkeypatch):
    """A clock that the test moves."""
    at = [0.0]
    monkeypatch.setattr("pipelines.throttled_events.monotonic_s", lambda: at[0])
    return at


def said(capsys):
    """Everything since the last time."""
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_first_is_said_at_once_and_what_follows_adds_up(now, capsys):
    """A pipeline of a thousand transactions a second must not fill a disk with its log."""
    voice = Voice()
    for number in range(1, 101):
        now[0] = number / 1000
        voice.count("committed", 0, 10, positions={str(number % 2): number}, transaction=number)
    now[0] = 0.3
    voice.catch_up()

    first, rest = said(capsys)
    assert (first["times"], first["records"], first["transaction"]) == (1, 10, 1)
    assert (rest["times"], rest["records"], rest["transaction"]) == (99, 990, 100)
    assert rest["positions"] == {"0": 100, "1": 99}


def test_kinds_and_workers_are_held_back_apart(now, capsys):
    """An abort is heard beside a thousand commits."""
    voice = Voice()
    for event, worker in (("committed", 0), ("aborted", 0), ("committed", 1), ("committed", 1)):
        voice.count(event, worker, 1)

    assert [(one["event"], one["worker"]) for one in said(capsys)] == [("committed", 0), ("aborted", 0), ("committed", 1)]
    assert now == [0.0]


@pytest.mark.parametrize(("at_once", "lines"), [(False, 0), (True, 1)])
def test_the_last_words_do_not_wait(now, capsys, at_once, lines):
    """In the middle of a run they do."""
    voice = Voice()
    voice.count("committed", 0, 1)
    voice.count("committed", 0, 1)
    said(capsys)
    now[0] = 0.1

    voice.catch_up(at_once=at_once)

    assert len(said(capsys)) == lines
