"""`expected` and `identity` of a pipeline: what can be checked without Spark, and where it is told."""

from pathlib import Path

import pytest

from chaos.common.errors import ScenarioError
from chaos.scenario.model import Scenario
from chaos.scenario.pipelines import CommandPipeline
from tests.unit.scenario.declared import errors_of, loaded

COMMAND = "kind: command, run: [a], group: g, reads: [orders], sink: {topic: kept}"
TOPICS = "topics: {orders: {}, kept: {}, Orders: {}, shop.orders-v1: {}}\n"
SQL = "SELECT key, value FROM orders WHERE value > '3'"


def text(more: str, pipeline: str = COMMAND) -> str:
    """A file with one scenario."""
    return f"version: 2\nscenarios:\n  - name: a\n    title: A\n    pipeline: {{{pipeline}, {more}}}\n{TOPICS}"


def pipeline(more: str, folder: Path = Path()) -> CommandPipeline:
    found = loaded(text(more), folder / "scenarios.yaml").scenarios[0].pipeline
    assert isinstance(found, CommandPipeline)
    return found


def test_a_query_a_function_and_a_copy(tmp_path: Path) -> None:
    """The module of a function is looked for below the folder of the file."""
    assert pipeline(f'expected: {{sql: "{SQL}"}}').expected.sql == SQL
    assert pipeline("expected: source").expected == "source"
    assert pipeline("expected: {python: 'shop.models:kept'}", tmp_path).expected.folder == str(tmp_path)
    assert pipeline("expected: {python: 'shop:kept', folder: src}", tmp_path).expected.folder == str(tmp_path / "src")


def test_a_twin(tmp_path: Path) -> None:
    """Its files are below the folder of the file, too; and it ends only where it is known how far a pipeline is."""
    (tmp_path / "src").mkdir()
    found = pipeline("expected: {same_as: fault_free, files: [src]}", tmp_path).expected

    assert (found.same_as, found.files) == ("fault_free", (str(tmp_path / "src"),))
    without = COMMAND.replace("group: g", "positions: none")
    (error,) = errors_of(text("expected: {same_as: fault_free}", without))
    assert "with positions: none it is not known when a run without faults is over; write group or positions" in error


def test_a_run_reads_what_it_has_written() -> None:
    """The model is in the scenario of a run's folder; so is that there is none."""
    for more in (
        f'expected: {{sql: "{SQL}"}}, identity: value',
        "expected: {same_as: fault_free}",
        "expected: source",
        "model: square",
        "restarts: 1",
    ):
        (scenario,) = loaded(text(more)).scenarios
        assert Scenario.of_run(scenario.to_run()).pipeline == scenario.pipeline


def test_names_that_sql_quotes() -> None:
    """In backquotes, where they are no names of SQL."""
    reads = COMMAND.replace("reads: [orders]", "reads: [shop.orders-v1]")
    loaded(text("expected: {sql: 'SELECT key, value FROM `shop.orders-v1`'}", reads))

    (error,) = errors_of(text("expected: {sql: 'SELECT key, value FROM `shop.orders-v2`'}", reads))
    assert error.endswith("the query names none of the topics that this pipeline reads: `shop.orders-v1`")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("expected: {}", "what is expected is said in sql, in python or by same_as, and this has none of them; write one"),
        (
            "expected: {sql: SELECT 1, python: 'a:b'}",
            "what is expected is said in sql, in python or by same_as, and this has sql and python; write one of them",
        ),
        ("expected: {same_as: faults}", "'faults' is not known here (did you mean fault_free?); write fault_free"),
        ("expected: {same_as: fault_free, folder: src}", "folder is where a module of python is looked for; leave it out"),
        ("expected: {sql: SELECT 1 FROM orders, files: [a]}", "files are what a twin is made of, and this has no same_as"),
        ("expected: {same_as: fault_free, files: [no.py]}", "'no.py' is not there; a path begins at the folder of this file"),
        (
            "expected: {sql: SELECT 1 FROM orders, folder: src}",
            "folder is where a module of python is looked for; leave it out",
        ),
        ("expected: {sql: ''}", "this text must not be empty"),
        ("expected: {python: kept}", "'kept' does not name a function; write module:function, e.g. shop.testing:orders"),
        ("expected: {sq: SELECT 1}", "'sq' is not known here (did you mean sql?)"),
        ("expected: square", "'square' does not say what is expected; write source (a copy), {sql: SELECT …}, {python: "),
        ("expected: {sql: SELECT key FROM order}", "the query names none of the topics that this pipeline reads: orders"),
        ("expected: transactions, model: identity", "model and expected both say what is right; leave model out"),
        (
            "expected: transactions, transactions: false",
            "transactions are asked of positions that are committed in them",
        ),
        ("rows_per_record: 1, transactions: false", "transactions are asked of positions that are committed in them"),
        ("timers: true", "timers are asked of transactions; write expected: transactions or rows_per_record, or leave it out"),
        ("rows_per_record: {min: 2, max: 1}", "at most 1 rows, and at least 2: write the smaller number as min"),
        ("rows_per_record: {min: -1, max: 1}", "-1 is too small; the least is 0.0"),
        ("rows_per_record: one", "'one' does not say how many rows a record makes; write a number, or {min: 0, max: 1}"),
        (
            "expected: transactions, identity: value",
            "no rows are compared with others where transactions are asked",
        ),
        ("expected: source, model: identity", "model and expected both say what is right; leave model out"),
        ("model: square, identity: value", "this pipeline has model: square, whose records are identified by their keys"),
        ("identity: ''", "this text must not be empty"),
    ],
)
def test_what_cannot_be_expected(more: str, said: str) -> None:
    """Told with its place, before anything runs."""
    with pytest.raises(ScenarioError) as caught:
        loaded(text(more))
    first = str(caught.value).splitlines()[0]
    assert f": {said}" in first
    assert first.startswith("scenarios.yaml:5:")


@pytest.mark.parametrize("beside", ["expected: transactions", "rows_per_record: 1"])
def test_a_timer_is_said_where_transactions_are_asked(beside: str) -> None:
    """It is kept with the run, so that it is judged again in the same way."""
    scenario = loaded(text(f"timers: true, {beside}")).scenarios[0]

    assert Scenario.of_run(scenario.to_run()).pipeline.timers
    assert not loaded(text(beside)).scenarios[0].pipeline.timers


@pytest.mark.parametrize(
    ("more", "asked"),
    [
        ("", None),
        ("rows_per_record: 1", (1, 1)),
        ("rows_per_record: {min: 0, max: 2.5}, expected: transactions", (0, 2.5)),
        (f'rows_per_record: 2, expected: {{sql: "{SQL}"}}', (2, 2)),
    ],
)
def test_who_says_how_many_rows_a_record_makes_asks_for_transactions(more: str, asked: tuple[float, float] | None) -> None:
    """Also beside a model, which is asked as ever."""
    scenario = loaded(text(more)).scenarios[0]

    assert ("transactions" in scenario.verify) == (asked is not None)
    assert ("offsets" in scenario.verify) == ("transactions" not in str(scenario.pipeline.expected))
    again = Scenario.of_run(scenario.to_run()).pipeline.rows_per_record
    assert again == scenario.pipeline.rows_per_record
    assert (None if again is None else (again.min, again.max)) == asked


def test_topics_that_differ_in_capitals_only() -> None:
    """SQL takes them for one."""
    reads = COMMAND.replace("reads: [orders]", "reads: [orders, Orders]")

    errors = errors_of(text(f'expected: {{sql: "{SQL}"}}', reads))

    assert any("Orders and another topic that is read differ in capitals only" in error for error in errors)


def test_a_pipeline_that_no_scenario_has() -> None:
    """What is wrong with a named one is told, too, and where."""
    named = f"pipelines:\n  other:\n    {{{COMMAND}, expected: {{sql: SELECT 1}}}}\n"

    (error,) = errors_of(text("expected: source") + named)

    assert error.startswith("scenarios.yaml:9:")
    assert "the query names none of the topics" in error
