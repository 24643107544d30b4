"""The vocabulary of the history: every event has one type, one line of documentation, and is read back as it was written."""

import json
import re

import pytest

from chaos.common import events
from chaos.common.errors import DeadlineError, InjectionError, ProcessEndedError, StandstillError
from chaos.common.events import (
    TYPES,
    FaultFailed,
    FaultHealed,
    FaultInjected,
    FaultProved,
    FaultStepBegan,
    FaultTriggered,
    PhaseFailed,
    ProcessReport,
    ProgressSampled,
    RequestMissed,
    UnknownEvent,
)

ROW = re.compile(r"^    (\w+) +(invoke|ok|fail|info) +(a step|\w+) +(\w+) +(.+)$", re.MULTILINE)


def written(kind):
    """The keys of an event's value, as the table tells them: those that are always there, and those that may be."""
    fields = {name: field for name, field in kind.model_fields.items() if not field.exclude}
    return {name for name, field in fields.items() if field.is_required()}, set(fields)


def test_the_table_of_events_tells_of_every_type():
    """Where it stands, and its keys; a key with a default is in brackets, or was always written all the same."""
    rows = {name: ((process, type_, f), keys) for process, type_, f, name, keys in ROW.findall(events.__doc__)}

    assert list(rows) == [kind.__name__ for kind in TYPES]
    for kind in TYPES:
        place, keys = rows[kind.__name__]
        fixed = [key.strip() for key in keys.split("…")[0].split(",") if key.strip()]
        required, known = written(kind)
        assert place == (kind.PLACE[0], kind.PLACE[1], kind.PLACE[2] or "a step")
        assert {key.strip("[]") for key in fixed} == known
        assert required <= {key for key in fixed if not key.startswith("[")}


@pytest.mark.parametrize(
    "value",
    [
        FaultStepBegan(step="trigger", fault="kill-1", when="progress 20%"),
        FaultFailed(step="heal", fault="kill-1", error="InjectionError: no"),
        FaultTriggered(fault="kill-1", api="EndTxn", link="app->broker-1"),
        FaultInjected(fault="kill-1", target="broker-2", hold_s=3.0, after_trip_ms=1.5),
        FaultProved(fault="kill-1", effective=False, proof={"refused": []}),
        FaultHealed(fault="kill-1", target="broker-2", moved=3, to=None),
        FaultHealed(fault="late-1", effective=False, problem="nobody answered"),
        RequestMissed(fault="kill-1", request="EndTxn", links=["app->broker-1"], sent=0, unparsed=0),
        ProgressSampled(written=3, committed=2, total=9, end=2),
        ProcessReport(who="pipeline", event="batch", content={"event": 1, "who": "x", "f": None}),
        UnknownEvent(seen_at=("nemesis", "ok", "dance"), content={"fault": "kill-1"}),
        UnknownEvent(seen_at=("nemesis", "maybe", "inject"), content={}),
    ],
)
def test_an_event_is_read_back_as_it_was_written(value):
    """Unknown keys are kept as they are."""
    again = events.read(value.process, value.type, value.f, json.loads(json.dumps(value.to_json())))

    assert again == value
    assert type(again) is type(value)
    assert again.to_json() == value.to_json()


@pytest.mark.parametrize("value", [{"fault": "kill-1"}, {"fault": "kill-1", "effective": "perhaps"}, [], None])
def test_an_event_that_lacks_what_every_version_wrote_is_refused(value):
    """Whether a fault took effect cannot be guessed."""
    with pytest.raises((ValueError, TypeError)):
        events.read("nemesis", "ok", "prove", value)


def test_a_key_of_a_newer_version_is_kept():
    """It is a detail of an event that is known."""
    value = events.read("nemesis", "ok", "inject", {"fault": "kill-1", "target": "broker-2", "power": 9})

    assert isinstance(value, FaultInjected)
    assert value.details == {"power": 9}


def test_the_end_of_the_pipeline_is_the_cause_of_what_failed_by_it():
    """Also where the error was raised again as another one, as a heal may do."""
    ended = ProcessEndedError("pipeline", "the pipeline ended with 1")
    again = InjectionError("it was not started again")
    again.__cause__ = ended

    failed = [PhaseFailed.by("heal", error) for error in (ended, again, InjectionError("no"))]
    assert [one.cause for one in failed] == ["pipeline ended"] * 2 + [""]
    assert failed[1].error == "InjectionError: it was not started again"


def test_a_standstill_is_a_cause_and_any_other_deadline_is_none():
    """A cluster that is not healthy again says nothing about the program under test."""
    errors = StandstillError("waited 60 s for output"), DeadlineError("waited 60 s for the brokers")

    assert [PhaseFailed.by("heal", error).cause for error in errors] == ["standstill", ""]
