"""A trigger on progress comes at a seeded moment between two growths of the output, and not always at the same one."""

from dataclasses import replace
from threading import Event as Flag

import pytest

from chaos.common import clock, events
from chaos.common.errors import InconclusiveError
from chaos.common.events import ProgressSampled
from chaos.common.history import Event, History
from chaos.engine import triggers
from chaos.engine.triggers import Watch, usual_interval_s, wait_for
from chaos.grammar.triggers import OnRequest, Progress
from chaos.scenario.model import Scenario
from chaos.scenario.plan import describe, from_json, plan, to_json
from tests.unit.wording import keep, raised

WHEN = Progress(progress="40%")


class Past:
    """A history whose output grew at these moments."""

    def __init__(self, *grown_s):
        self._events = [
            Event(number, 0, moment_s, ProgressSampled(written=9, committed=number, total=9, end=number))
            for number, moment_s in enumerate((0.0, *grown_s))
        ]

    def events(self):
        return tuple(self._events)


@pytest.mark.parametrize(
    ("grown_s", "expected"),
    [
        ((), 0.0),
        ((1.0,), 0.0),
        ((1.0, 3.0), 0.0),
        ((1.0, 3.0, 5.0), 2.0),
        ((1.0, 2.0, 3.0, 90.0), 1.0),
        ((1.0, 201.0, 401.0), 60.0),
    ],
)
def test_the_usual_time_between_two_growths(grown_s, expected):
    """The median, so that one long pause counts little; nothing is said of the first growths, and a minute is the most."""
    assert usual_interval_s(Past(*grown_s)) == expected


@pytest.fixture
def waited(tmp_path, monkeypatch):
    """The time that a trigger waits after its moment, if growths are two seconds apart."""
    pauses_s = []
    monkeypatch.setattr(triggers, "usual_interval_s", lambda _history: 2.0)
    monkeypatch.setattr(clock, "pause", lambda seconds, _stop: pauses_s.append(seconds))
    with History(tmp_path / "history.jsonl") as history:
        history.record(ProgressSampled(written=9, committed=9, total=9, end=9))
        yield Watch(history, clock.monotonic_s(), 9, 5.0, Flag()), pauses_s


@pytest.mark.parametrize("offset", [0.25, 0.999])
def test_a_part_of_that_time_is_waited_for(waited, offset):
    """How much of it, and of how much, is in the history."""
    watch, pauses_s = waited

    seen = wait_for(WHEN, watch, offset=offset)

    assert pauses_s == [2.0 * offset]
    assert seen == {"committed": 9, "of": 9, "offset_s": round(2 * offset, 3), "interval_s": 2.0}


def test_without_an_offset_nothing_is_waited_for(waited):
    """`at: growth` strikes when the output was seen to grow."""
    watch, pauses_s = waited

    assert wait_for(WHEN, watch) == {"committed": 9, "of": 9}
    assert pauses_s == []


def test_a_run_that_ends_in_the_meantime(tmp_path, monkeypatch):
    """The fault is not injected any more."""
    monkeypatch.setattr(triggers, "usual_interval_s", lambda _history: 60.0)
    with History(tmp_path / "history.jsonl") as history:
        history.record(ProgressSampled(written=9, committed=9, total=9, end=9))
        watch = Watch(history, clock.monotonic_s(), 9, 5.0, Flag())
        stopping = replace(watch, stop=watch.stop)
        stopping.stop.set()

        with raised(InconclusiveError):
            wait_for(WHEN, stopping, offset=0.9)


def scenario(when):
    """One crash."""
    app = {"kind": "command", "reads": ["datasource"], "sink": {"topic": "datasink"}, "run": ["app"], "group": "g"}
    return Scenario.model_validate(
        {"name": "one", "title": "One", "pipeline": app, "faults": [{"kind": "crash_pipeline", "when": when}]}
    )


def test_seeds_reach_every_part_of_the_interval():
    """And the same seed always the same one."""
    offsets = [plan(scenario({"progress": "40%"}), seed).steps[0].offset for seed in range(200)]

    assert all(0 <= offset < 1 for offset in offsets)
    assert all(30 <= sum(low <= offset < low + 0.25 for offset in offsets) <= 75 for low in (0, 0.25, 0.5, 0.75))
    assert offsets[:5] == [plan(scenario({"progress": "40%"}), seed).steps[0].offset for seed in range(5)]


def test_the_plan_and_the_schedule_tell_it():
    """The printed, the written and the re-read offset agree."""
    schedule = plan(scenario({"progress": "40%"}), 7)
    offset, (line,), (step,) = schedule.steps[0].offset, describe(schedule), to_json(schedule)["steps"]

    assert all(word in line for word in ("40 %", f"{100 * offset:.0f} %", "crash_pipeline"))
    keep(line)
    assert step["offset"] == round(offset, 4)
    assert from_json(to_json(schedule)).steps[0].offset == offset


@pytest.mark.parametrize("when", [{"progress": "40%", "at": "growth"}, {"after": "5s"}, {"request": "OffsetCommit", "nth": 3}])
def test_other_triggers_have_no_offset(when):
    """They say themselves which moment they mean."""
    schedule = plan(scenario(when), 7)

    assert schedule.steps[0].offset == 0
    assert "offset" not in to_json(schedule)["steps"][0]
    assert "next growth" not in describe(schedule)[0]


def test_words_of_a_trigger_at_a_growth():
    """They tell it apart from the other."""
    assert str(Progress(progress="40%", at="growth")) == "at 40 % of the workload, when the output grows"
    assert str(OnRequest(request="OffsetCommit")) == "while OffsetCommit 1 is on the wire"
    assert events.read("nemesis", "ok", "trigger", {"fault": "a", "offset_s": 1.0}).details == {"offset_s": 1.0}
