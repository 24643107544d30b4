"""`sink` of a Spark job: a topic or a table, what must be said of a table, and where it is told what is wrong."""

from pathlib import Path

import pytest

from chaos.scenario import sinks
from chaos.scenario.model import Scenario
from chaos.scenario.sinks import TableSink
from chaos.scenario.sinks.delta import DeltaTable
from chaos.scenario.sinks.iceberg import IcebergTable
from chaos.scenario.sinks.parquet import ParquetTable
from chaos.scenario.sinks.python import PythonSink
from tests.unit.scenario.declared import ANY_FILE, errors_of, loaded

JOB = f"kind: spark_submit, application: {ANY_FILE}, arguments: ['{{checkpoint}}'], reads: [orders]"
EXPECTED = "expected: {sql: SELECT key AS customer FROM orders}"
TOPICS = "topics: {orders: {}, kept: {}}\n"


def text(sink: str, more: str = EXPECTED, fault: str = "") -> str:
    """A file with one scenario."""
    faults = f"    faults: [{{{fault}}}]\n" if fault else ""
    pipeline = f"    pipeline: {{{JOB}, sink: {{{sink}}}, {more}}}\n"
    return f"version: 2\nscenarios:\n  - name: a\n    title: A\n{pipeline}{faults}{TOPICS}"


def scenario(sink: str, more: str = EXPECTED, folder: Path = Path()) -> Scenario:
    return loaded(text(sink, more), folder / "scenarios.yaml").scenarios[0]


@pytest.mark.parametrize(
    ("sink", "table"),
    [
        ("parquet: '{folder}/kept'", ParquetTable(parquet="{folder}/kept")),
        ("delta: '/lake/{suffix}'", DeltaTable(delta="/lake/{suffix}")),
        ("iceberg: '{folder}/kept'", IcebergTable(iceberg="{folder}/kept")),
        ("topic: kept", None),
    ],
)
def test_a_topic_or_a_table(sink: str, table: TableSink | None) -> None:
    """One key says which kind of table it is."""
    assert scenario(sink).table == table


def test_a_database_is_read_with_the_driver_that_its_url_asks_for() -> None:
    """The password is named by its variable, and is not in the declaration."""
    url = "jdbc:postgresql://127.0.0.1/shop"
    table = scenario(f"jdbc: {{url: '{url}', table: 't_{{suffix}}', user: shop, password_in: SHOP_PASSWORD}}").table

    options = {"url": url, "user": "shop", "driver": "org.postgresql.Driver"}
    known = {"format": "jdbc", "place": "t_{suffix}", "password_in": "SHOP_PASSWORD", "arguments": {}}
    assert table.spec == {**known, "options": options}


def test_a_function_is_looked_for_below_the_folder_of_the_file(tmp_path: Path) -> None:
    """Like that of a model."""
    table = scenario("python: 'shop:read'", folder=tmp_path).table

    assert table == PythonSink(python="shop:read", folder=str(tmp_path))
    assert (table.place, table.options) == ("shop:read", {"folder": str(tmp_path)})


def test_a_run_reads_what_it_has_written() -> None:
    """The sink is in the scenario of a run's folder."""
    for sink in ("parquet: '{folder}/kept'", "jdbc: {url: 'jdbc:h2:{folder}/db', table: kept}", "python: 'shop:read'"):
        one = scenario(sink)
        assert Scenario.of_run(one.to_run()).pipeline == one.pipeline


def test_what_only_logs_have_is_not_asked() -> None:
    """And it is said so."""
    asked = scenario("parquet: '{folder}/kept'")

    assert {"duplicates", "gaps", "values", "ordering", "ledger", "progress"} <= set(asked.verify)
    assert not {"atomicity", "offsets", "stability", "hanging", "commits", "precedence"} & set(asked.verify)
    assert asked.left_out["offsets"] == sinks.NOT_ASKED


@pytest.mark.parametrize(
    ("sink", "said"),
    [
        (
            "",
            "not-one-sink",
        ),
        (
            "topic: kept, delta: '{folder}'",
            "not-one-sink",
        ),
        ("delta: '{folder}', folder: src", "folder-without-python"),
        (
            "delta: '{folder}', routing: any",
            "routing-of-table",
        ),
        ("delta: /lake/orders", "one-table-for-all"),
        ("delta: '{folders}'", "unknown-placeholder"),
        ("parqet: '{folder}'", "unknown-key"),
        ("python: shop", "not-a-function"),
    ],
)
def test_what_is_wrong_with_a_sink(sink: str, said: str) -> None:
    """Each in a line, at its place."""
    found = errors_of(text(sink))

    assert all(place.startswith("5:") for place, _ in found)
    assert said in dict(found).values()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("restarts: 1", "table-without-expected"),
        ("expected: source", "table-without-expected"),
        (f"{EXPECTED}, positions: {{group: g}}", "positions-of-table"),
    ],
)
def test_what_must_be_said_beside_a_table(more: str, said: str) -> None:
    """A model with the table's columns, and positions that are in the checkpoint."""
    assert said in dict(errors_of(text("delta: '{folder}/kept'", more))).values()


def test_faults_that_a_table_cannot_have() -> None:
    """No transaction can hang in it; and rows of a database are not seen in time."""
    hanging = "kind: hanging_transaction, partition: 0, for: 5s, when: {after: 1s}"
    rows = "kind: crash_pipeline, when: {batch: 1, seen: rows}"
    database = "jdbc: {url: 'jdbc:h2:{folder}/db', table: kept}"

    assert any("transaction-in-table" in one for one in errors_of(text("delta: '{folder}'", fault=hanging)))
    assert any("rows-not-seen" in one for one in errors_of(text(database, fault=rows)))
    loaded(text("delta: '{folder}'", fault=rows))
    loaded(text(database, fault=rows.replace("rows", "done")))


def test_a_command_writes_topics_only() -> None:
    """It has no Spark that could read its table."""
    declared = text("delta: '{folder}'", "restarts: 1").replace(JOB, "kind: command, run: [a], group: g, reads: [orders]")

    assert "unknown-key" in dict(errors_of(declared)).values()


def test_the_folder_of_the_file_may_be_in_the_texts_of_any_table(tmp_path: Path) -> None:
    """In those of a database as in a path."""
    database = scenario("jdbc: {url: 'jdbc:h2:{project}/{suffix}', table: kept}", folder=tmp_path).table

    assert database.options["url"] == f"jdbc:h2:{tmp_path}/{{suffix}}"
    assert scenario("delta: '{project}/{suffix}'", folder=tmp_path).table.place == f"{tmp_path}/{{suffix}}"
