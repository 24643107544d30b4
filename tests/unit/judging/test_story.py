"""The last event of each kind says what became of a fault."""

from typing import Any

import pytest

from chaos.common.events import read
from chaos.common.history import Event
from chaos.judging.story import Story, stories

Line = tuple[str, str, dict[str, Any]]

PROVED: Line = ("ok", "prove", {"effective": True, "proof": {"pids": {"broker-1": 7}}})


def told(*lines: Line, fault: str = "kill-1") -> Story:
    """The story of this fault, one event each second."""
    events = [
        Event(index, 1000 * index, float(index), read("nemesis", type_, f, {"fault": fault, **value}))
        for index, (type_, f, value) in enumerate(lines)
    ]
    return stories(["kill-1"], events)["kill-1"]


def test_a_fault_is_told_from_its_trigger_to_its_heal() -> None:
    """With the moment of each."""
    story = told(
        ("invoke", "trigger", {"when": "…", "moment": "while EndTxn 3 was on the wire"}),
        ("ok", "trigger", {}),
        ("ok", "inject", {"target": "broker-1"}),
        PROVED,
        ("ok", "heal", {"target": "broker-1"}),
    )

    assert story.waits is not None
    assert story.waits.moment == "while EndTxn 3 was on the wire"
    moments = [one.event.time_ms if one else None for one in (story.triggered, story.injected, story.proved, story.healed)]
    assert moments == [1000, 2000, 3000, 4000]


@pytest.mark.parametrize(
    ("more", "effective"),
    [((), True), ((("ok", "heal", {}),), True), ((("ok", "heal", {"effective": False, "problem": "no answer"}),), False)],
)
def test_its_end_may_show_that_it_had_no_effect(more: tuple[Line, ...], *, effective: bool) -> None:
    """It stays proved."""
    story = told(PROVED, *more)

    assert (story.is_proved, story.is_effective) == (True, effective)


def test_what_failed_keeps_its_error_and_its_cause() -> None:
    """By step, the last of each."""
    failed: Line = ("fail", "heal", {"error": "the pipeline ended with 1; made anew", "cause": "pipeline ended"})
    story = told(PROVED, ("fail", "heal", {"error": "too early"}), failed)

    assert set(story.failures) == {"heal"}
    assert story.failures["heal"].says("made anew")
    assert not story.failures["heal"].says("MemoryError")


def test_a_fault_of_which_nothing_is_told() -> None:
    """Events of another fault are not its own; one that was spared is not in the run."""
    assert told(PROVED, fault="kill-2") == Story()
    spared = Event(0, 0, 0.0, read("nemesis", "info", "spared", {"fault": "kill-1"}))
    assert stories(["kill-1"], [spared]) == {}
