"""`sink: {topic: …, as: state}`: what may be declared, what is asked then, and what it is told with."""

import pytest

from chaos.expectation import forms
from chaos.expectation.forms import Log, State
from chaos.scenario import sinks
from chaos.scenario.model import Scenario
from tests.unit.scenario.declared import errors_of, loaded

SQL = "expected: {sql: 'SELECT key, CAST(count(*) AS STRING) AS value FROM orders GROUP BY key'}"
TABLE = "sink: {parquet: '{folder}/a', as: state}"


def text(more: str = SQL, sink: str = "{topic: totals, as: state}", kept: str = "group: g", policy: str = "delete") -> str:
    """A file with one scenario."""
    pipeline = f"kind: command, run: [a], {kept}, reads: [orders], sink: {sink}"
    head = f"version: 2\nscenarios:\n  - name: a\n    title: A\n    pipeline: {{{pipeline}, {more}}}\n"
    return head + f"topics: {{orders: {{}}, totals: {{config: {{cleanup.policy: {policy}}}}}}}\n"


def scenario(**more: str) -> Scenario:
    (found,) = loaded(text(**more)).scenarios
    assert Scenario.of_run(found.to_run()).pipeline == found.pipeline
    return found


def test_a_state_may_be_compacted() -> None:
    """Compacted records are no part of a state; verifiers that would miss them are left out, and the run says so."""
    log = scenario(sink="{topic: totals}")
    state, compacted = scenario(), scenario(policy="compact")

    assert [type(forms.of_scenario(one)) for one in (log, state, compacted)] == [Log, State, State]
    assert state.verify == log.verify
    assert set(log.verify) - set(compacted.verify) == {"atomicity", "stability"}
    assert compacted.left_out["stability"] == sinks.OF_COMPACTED


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"more": "restarts: 1"},
            "state-without-expected",
        ),
        ({"more": "expected: source"}, "state-without-expected"),
        ({"more": "expected: transactions"}, "state-without-expected"),
        (
            {"more": f"{SQL}, identity: value"},
            "identity-of-state",
        ),
        ({"kept": "positions: none"}, "state-without-positions"),
        ({"sink": "{topic: totals, as: state, routing: any}"}, "routing-of-state"),
        ({"sink": "{topic: totals, as: stat}"}, "unknown-choice"),
        ({"sink": "{topic: totals}", "policy": "compact"}, "compacted-log"),
    ],
)
def test_what_is_no_state(more: dict[str, str], said: str) -> None:
    """Told with its place, before anything runs."""
    (error, *_) = errors_of(text(**more))

    assert error[0].startswith("5:")
    assert error[1] == said


def test_a_source_is_no_state() -> None:
    """It is judged by what was sent, also where no pipeline reads it."""
    read = text().replace("{orders: {}", "{orders: {config: {cleanup.policy: compact}}")
    alone = (
        "version: 2\nscenarios:\n  - {name: a, title: A, pipeline: none}\ntopics: {a: {config: {cleanup.policy: compact}}}\n"
    )

    for each in (read, alone, alone.replace("pipeline: none", "pipeline: none, workload: {into: a}")):
        (error,) = errors_of(each)
        assert error[1] == "compacted-source"


def test_a_table_is_a_state_anyway() -> None:
    """So it need not be said."""
    job = "kind: spark_submit, application: a.py, arguments: ['{checkpoint}'], reads: [orders]"
    errors = errors_of(
        text().replace(
            "kind: command, run: [a], group: g, reads: [orders], sink: {topic: totals, as: state}", f"{job}, {TABLE}"
        )
    )

    assert any("state-of-table" in error for error in errors)
