"""Triggers on a batch of a Spark job: what can be declared, and how it is told."""

import json

import pytest

from chaos.grammar.triggers import AtBatch
from chaos.scenario.describe import json_schema
from chaos.scenario.plan import describe, from_json, plan, to_json
from tests.unit.scenario.declared import SQUARE, STOCK, errors_in_fault, errors_of, head, loaded, read
from tests.unit.scenario.validator import problems
from tests.unit.wording import keep

KILL = "{kind: crash_executor, target: executor(all), when: %s}"
DECLARED = """\
faults:
      - {kind: crash_pipeline, when: {batch: 2}}
      - {kind: crash_pipeline, when: {batch: 0, seen: planned}}
      - {kind: crash_pipeline, when: {batch: 12, seen: done}}
      - {kind: crash_pipeline, when: {batch: last}}
"""


def test_a_batch_is_seen_by_its_rows_unless_something_else_is_declared() -> None:
    """It is the moment in which an at-least-once sink makes duplicates."""
    assert [fault.when for fault in read(DECLARED).scenarios[0].faults] == [
        AtBatch(batch=2, seen="rows"),
        AtBatch(batch=0, seen="planned"),
        AtBatch(batch=12, seen="done"),
        AtBatch(batch="last", seen="rows"),
    ]


def test_the_plan_says_it_in_words() -> None:
    """The text says what is there at that moment."""
    lines = describe(plan(read(DECLARED).scenarios[0], 7))

    keep("\n".join(lines))
    for line, names in zip(
        lines, ("rows batch 2 sink", "batch 0 planned", "batch 12 done", "rows last batch sink"), strict=True
    ):
        assert [name for name in names.split() if name not in line] == []


def test_it_survives_the_way_through_a_file() -> None:
    """A schedule is written with its run and read when the run is judged again."""
    schedule = plan(read(DECLARED).scenarios[0], 7)

    assert from_json(json.loads(json.dumps(to_json(schedule)))) == schedule


@pytest.mark.parametrize(
    ("when", "error"),
    [
        ("{batch: -1}", ("6:74", "not-a-batch")),
        ("{batch: first}", ("6:74", "not-a-batch")),
        ("{batch: true}", ("6:74", "not-a-batch")),
        ("{batch: 1.5}", ("6:74", "not-a-batch")),
        ("{batch: 2, seen: row}", ("6:83", "unknown-choice")),
        ("{batch: 2, after: 1s}", ("6:66", "two-triggers")),
        ("{batch: 2, nth: 1}", ("6:77", "unknown-key")),
    ],
)
def test_a_mistake_is_shown_where_it_is(when: str, error: tuple[str, str]) -> None:
    """And what to write instead."""
    assert errors_in_fault(KILL % when) == [error]


@pytest.mark.parametrize("pipeline", ["none", "{kind: command, run: [app], group: g}"])
def test_only_a_job_of_spark_has_batches(pipeline: str) -> None:
    """Elsewhere the moment would never come."""
    fault = "    faults: [{kind: kill_broker, target: any, when: {batch: 2, seen: done}}]\n"

    assert errors_of(head(pipeline) + fault) == [("6:61", "no-batches")]


@pytest.mark.parametrize("pipeline", [SQUARE, STOCK])
def test_every_job_of_spark_has_batches(pipeline: str) -> None:
    """Wherever its positions are kept."""
    fault = "    faults: [{kind: kill_broker, target: any, when: {batch: 2, seen: done}}]\n"
    (read_fault,) = loaded(head(pipeline) + fault).scenarios[0].faults

    assert read_fault.when == AtBatch(batch=2, seen="done")


@pytest.mark.parametrize(("right", "wrong"), [(0, -1), (2, 2.5), ("last", "first")])
def test_an_editor_knows_what_a_batch_is(right: object, wrong: object) -> None:
    """The schema refuses what the grammar refuses."""
    schema = json_schema()

    assert not list(problems({"batch": right}, schema["$defs"]["AtBatch"], schema))
    assert list(problems({"batch": wrong}, schema["$defs"]["AtBatch"], schema)) == ["$.batch: none of 2"]
