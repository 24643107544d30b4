"""`chaos plan` leaves out no key of a fault that decides what will be seen."""

import pytest

from chaos.scenario.model import Scenario
from chaos.scenario.plan import describe, plan

APP = {
    "kind": "command",
    "reads": ["datasource"],
    "sink": {"topic": "datasink"},
    "run": ["app"],
    "group": "g",
}


def line(fault):
    """The line of one fault."""
    scenario = Scenario.model_validate({"name": "one", "title": "One", "pipeline": APP, "faults": [fault]})
    (told,) = describe(plan(scenario, 7))
    return told


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (
            {"kind": "crash_pipeline", "when": {"request": "EndTxn", "then": "lose"}},
            "while EndTxn 1 is on the wire, and is then lost:",
        ),
        (
            {"kind": "crash_pipeline", "when": {"request": "EndTxn", "link": "app->broker-2"}},
            "on the wire on app->broker-2: crash",
        ),
        ({"kind": "crash_pipeline", "when": {"request": "EndTxn"}}, "while EndTxn 1 is on the wire: crash"),
        (
            {
                "kind": "pause_pipeline",
                "for": "20s",
                "when": {"after": "1s"},
                "outlasts": ["session_timeout", "transaction_timeout"],
            },
            "for 20 s, longer than session timeout and transaction timeout",
        ),
        ({"kind": "pause_pipeline", "for": "20s", "when": {"after": "1s"}}, "pause_pipeline for 20 s"),
    ],
)
def test_a_key_is_told(fault, words):
    """The plan says what becomes of the frame, where it passes, and what a pause must outlast."""
    told = line(fault)

    assert words in told
    assert ("longer than" in told) == ("outlasts" in fault)
