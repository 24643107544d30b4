"""What a report keeps for the next audit is found again, or refused."""

import json
from dataclasses import replace

import pytest

from chaos.audit import since_report
from chaos.audit.logs import AuditUsageError, Fixed
from chaos.audit.since import Carried, Reached
from chaos.audit.topics import OfTopics
from chaos.audit.where import Where
from tests.unit.wording import raised
from verifiers.base import Bounds

BOUNDS = Bounds(0, 9, 9)
IDS = {"a": "1", "b": "2", "c": "3"}
FIXED = Fixed(
    dict.fromkeys(range(3), BOUNDS),
    {0: BOUNDS},
    numbers={"source": {"a": {0: 0, 1: 1}, "b": {0: 2}}, "sink": {"c": {0: 0}}},
    ids=IDS,
)
REACHED = Reached(
    {0: 4, 1: 0, 2: 7},
    {0: 5},
    {0: 9, 1: 9, 2: 9},
    (
        Carried(2, 3, required=True, columns={"key": "Köln".encode(), "value": None}),
        Carried(2, 4, required=False, columns={"key": b"\xff\x00\xc3", "value": b"", "own": b"{"}),
    ),
    ((2, 8),),
    {(2, 0): 8},
)
KEPT = since_report.to_json(REACHED, FIXED, {})


def begun(kept, fixed=FIXED):
    return since_report.Report("r.json", json.loads(json.dumps(kept))).begun(fixed)


def refused(*names, kept=KEPT, fixed=FIXED):
    with raised(AuditUsageError, "--since r.json: ", *names, "without --since"):
        begun(kept, fixed)


def test_everything_is_found_again():
    """Also bytes that are no text."""
    fixed, reached = begun(KEPT)

    assert reached == REACHED
    assert [fixed.source[number].low for number in range(3)] == [4, 0, 7]
    assert fixed.sink[0].low == 5


def test_more_partitions():
    """Those of the second topic have other numbers now; a new one is read from its beginning."""
    numbers = {"source": {"a": {0: 0, 1: 1, 2: 2}, "b": {0: 3}}, "sink": {"c": {0: 0}}}
    more = replace(FIXED, source=dict.fromkeys(range(4), BOUNDS), numbers=numbers)

    fixed, reached = begun(KEPT, more)

    assert [fixed.source[number].low for number in range(4)] == [4, 0, 0, 7]
    assert [one.place for one in reached.carried] == [(3, 3), (3, 4)]
    assert (reached.answered, reached.last) == (((3, 8),), {(3, 0): 8})


def test_retention_of_what_was_judged_is_no_loss():
    low = replace(FIXED, source={0: Bounds(4, 9, 9), 1: Bounds(2, 9, 9), 2: Bounds(1, 9, 9)})

    assert begun(KEPT, low)[0].expired("source") == {1: 2}


def test_a_topic_that_was_made_anew():
    """Whatever it has now."""
    anew = replace(FIXED, ids=IDS | {"b": "9"}, source={0: BOUNDS, 1: BOUNDS, 2: Bounds(0, 1, 1)})

    refused(" topic b ", fixed=anew)


def test_a_topic_that_is_shorter():
    shorter = replace(FIXED, sink={0: Bounds(0, 4, 9)})

    refused(" partition 0 of c ", " offset 4 now", " 5 then", fixed=shorter)


@pytest.mark.parametrize(
    "change",
    [
        {"ids": {}},
        {"ids": None},
        {"source": {"x": {"0": 1}}},
        {"source": {"a": {"9": 1}}},
        {"source": {"a": {"0": "many"}}},
        {"read": []},
        {"carried": [["a", 0, 3, True]]},
        {"carried": [["a", 0, 3, True, {"key": 7}]]},
        {"answered": [["a", "0", 3]]},
        {"last": [["a", 0, "c", 5, 3]]},
    ],
)
def test_a_damaged_report(change):
    refused("damaged", kept={**KEPT, **change})


def test_an_audit_that_fails_passes_on_what_it_was_given(tmp_path):
    """So a night without a broker does not end the chain."""
    asked = OfTopics(Where("127.0.0.1:9"), ("a", "b"), ("c",), model="identity", since=str(tmp_path / "r.json"), keep=True)
    kept = {**json.loads(json.dumps(KEPT)), "asked": dict(asked.shared)}
    (tmp_path / "r.json").write_text(json.dumps({"findings": [], "problem": "no answer", "reached": kept}), encoding="utf-8")

    done = asked.run(print)

    assert "127.0.0.1:9 does not answer" in done.problem
    assert done.reached == kept
