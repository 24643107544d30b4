"""`expected` and `identity` of a pipeline: what can be checked without Spark, and where it is told."""

from pathlib import Path

import pytest

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
    assert error[1] == "twin-without-positions"


def test_a_run_reads_what_it_has_written() -> None:
    """The model is in the scenario of a run's folder; so is that there is none."""
    for more in (
        f'expected: {{sql: "{SQL}"}}, identity: value',
        "expected: {same_as: fault_free}",
        "expected: source",
        "restarts: 1",
    ):
        (scenario,) = loaded(text(more)).scenarios
        assert Scenario.of_run(scenario.to_run()).pipeline == scenario.pipeline


def test_names_that_sql_quotes() -> None:
    """In backquotes, where they are no names of SQL."""
    reads = COMMAND.replace("reads: [orders]", "reads: [shop.orders-v1]")
    loaded(text("expected: {sql: 'SELECT key, value FROM `shop.orders-v1`'}", reads))

    (error,) = errors_of(text("expected: {sql: 'SELECT key, value FROM `shop.orders-v2`'}", reads))
    assert "query-without-topic" in error


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("expected: {}", "not-one-expected"),
        (
            "expected: {sql: SELECT 1, python: 'a:b'}",
            "not-one-expected",
        ),
        ("expected: {same_as: faults}", "unknown-choice"),
        ("expected: {same_as: fault_free, folder: src}", "folder-without-python"),
        ("expected: {sql: SELECT 1 FROM orders, files: [a]}", "files-without-twin"),
        ("expected: {same_as: fault_free, files: [no.py]}", "file-not-there"),
        (
            "expected: {sql: SELECT 1 FROM orders, folder: src}",
            "folder-without-python",
        ),
        ("expected: {sql: ''}", "empty-text"),
        ("expected: {python: kept}", "not-a-function"),
        ("expected: {sq: SELECT 1}", "unknown-key"),
        ("expected: square", "not-expected-rows"),
        ("expected: {sql: SELECT key FROM order}", "query-without-topic"),
        (
            "expected: transactions, transactions: false",
            "transactions-without-positions",
        ),
        ("rows_per_record: 1, transactions: false", "rows-without-transactions"),
        ("timers: true", "timers-without-transactions"),
        ("rows_per_record: {min: 2, max: 1}", "min-above-max"),
        ("rows_per_record: {min: -1, max: 1}", "too-small"),
        ("rows_per_record: one", "not-rows-per-record"),
        (
            "expected: transactions, identity: value",
            "identity-of-transactions",
        ),
        ("model: square", "model-by-name"),
        ("expected: source, model: null", "model-by-name"),
        ("identity: ''", "empty-text"),
    ],
)
def test_what_cannot_be_expected(more: str, said: str) -> None:
    """Told with its place, before anything runs."""
    place, code = errors_of(text(more))[0]

    assert code == said
    assert place.startswith("5:")


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

    assert any("topics-alike-in-sql" in error for error in errors)


def test_a_pipeline_that_no_scenario_has() -> None:
    """Mistakes of a named pipeline are reported, too, with their place."""
    named = f"pipelines:\n  other:\n    {{{COMMAND}, expected: {{sql: SELECT 1}}}}\n"

    (error,) = errors_of(text("expected: source") + named)

    assert error[0].startswith("9:")
    assert error[1] == "query-without-topic"
