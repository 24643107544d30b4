"""Rows of one's own in a workload: what is wrong with them is told with its place, before anything runs."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from chaos.common.errors import ScenarioError
from chaos.expectation import ways
from chaos.scenario.model import Scenario
from chaos.scenario.workload import Workload
from tests.unit.scenario.declared import STOCK, errors_of, loaded, read
from tests.unit.wording import mistakes_in

SQL = "workload: {records: 10, rows: {sql: SELECT 1}}"


def workload(rows: str, folder: Path, more: str = "") -> Workload:
    """A workload from a file in this folder."""
    text = f"version: 2\nscenarios:\n  - {{name: a, title: A, pipeline: {STOCK}, workload: {{{more}rows: {rows}}}}}\n"
    return loaded(text, folder / "scenarios.yaml").scenarios[0].workload


def test_paths_begin_at_the_folder_of_the_file(tmp_path: Path) -> None:
    """The paths of a file, and of a function's module, which may be in its own folder."""
    (tmp_path / "orders.jsonl").write_text('{"value": "a"}\n' * 7, encoding="utf-8")

    assert workload("{file: orders.jsonl}", tmp_path).rows.file == str(tmp_path / "orders.jsonl")
    assert workload("{python: shop.testing:orders}", tmp_path).rows.folder == str(tmp_path)
    assert workload("{python: 'testing:orders', folder: src}", tmp_path).rows.folder == str(tmp_path / "src")


def test_how_many_records_there_are(tmp_path: Path) -> None:
    """A file says it, unless the workload does; a function says it when it runs."""
    (tmp_path / "orders.jsonl").write_text('{"value": "a"}\n' * 7, encoding="utf-8")
    parquet.write_table(pa.table({"value": ["a"] * 5}), tmp_path / "orders.parquet")

    of_lines, of_parquet = workload("{file: orders.jsonl}", tmp_path), workload("{file: orders.parquet}", tmp_path)
    assert [(one.records, one.wanted) for one in (of_lines, of_parquet)] == [(7, 7), (5, 5)]
    assert workload("{file: orders.jsonl}", tmp_path, "records: 3, ").wanted == 3
    assert workload("{python: 'shop:orders'}", tmp_path).wanted is None
    assert workload("{python: 'shop:orders'}", tmp_path, "records: 3, ").wanted == 3
    assert workload("{sql: SELECT 1}", tmp_path).wanted == 30_000


def test_a_run_reads_what_it_has_written() -> None:
    """The rows are in the scenario of a run's folder."""
    (scenario,) = read(SQL).scenarios

    assert Scenario.of_run(scenario.to_run()).workload == scenario.workload
    assert scenario.workload.rows.sql == "SELECT 1"


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("{}", "rows-not-one-kind"),
        (
            "{sql: SELECT 1, file: a.parquet}",
            "rows-not-one-kind",
        ),
        ("{sql: SELECT 1, folder: src}", "folder-without-python"),
        ("{sql: ''}", "empty-text"),
        ("{python: orders}", "not-a-function"),
        ("{python: 'shop.:orders'}", "not-a-function"),
        ("{pyton: 'a:b'}", "unknown-key"),
        ("{file: none.parquet}", "unusable-file"),
        ("{command: []}", "empty-list"),
        ("{command: [a]}", "own-loader-without-records"),
        ("{generator: orders}", "no-such-function"),
        ("{sql: SELECT 1, with: {a: 1}}", "with-without-generator"),
        ("{sql: SELECT 1, environment: {A: b}}", "key-without-command"),
        ("{sql: SELECT 1, working_directory: .}", "key-without-command"),
        ("7", "not-a-mapping"),
    ],
)
def test_rows_that_cannot_be(rows: str, said: str, tmp_path: Path) -> None:
    """The place in the file, and what to write."""
    with pytest.raises(ScenarioError) as caught:
        workload(rows, tmp_path)
    (error,) = mistakes_in(caught.value)
    assert error[0].startswith("3:")
    assert error[1] == said


def test_a_file_without_values(tmp_path: Path) -> None:
    """Parquet says its columns, so nothing needs to run for that."""
    parquet.write_table(pa.table({"key": ["a"]}), tmp_path / "a.parquet")
    with pytest.raises(ScenarioError) as caught:
        workload("{file: a.parquet}", tmp_path)
    (error,) = mistakes_in(caught.value)
    assert error[1] == "unusable-file"


OWN = (
    "rows: {environment: {HOME: '{project}', TO: '{other}'}, "
    "command: ['{python}', '{project}/a.py', '{records}', '{datasource}', '{other}']}"
)


def test_a_loader_of_ones_own(tmp_path: Path) -> None:
    """Its words may name the folder of the file and topics, which a run makes then."""
    head = "version: 2\ntopics: {datasource: {}, datasink: {}, other: {}}\nscenarios:\n  - name: a\n    title: A\n"
    text = f"{head}    pipeline: {STOCK}\n    workload: {{records: 10, {OWN}}}\n"

    scenario = loaded(text, tmp_path / "scenarios.yaml").scenarios[0]

    assert scenario.workload.rows.command == ("{python}", f"{tmp_path}/a.py", "{records}", "{datasource}", "{other}")
    assert scenario.workload.rows.environment == {"HOME": str(tmp_path), "TO": "{other}"}
    assert scenario.used == ("datasource", "datasink", "other")
    assert scenario.workload.wanted == 10
    assert Scenario.of_run(scenario.to_run()).workload == scenario.workload


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        ("{records: 10, rows: {command: [a, '{cluster}']}}", "unknown-placeholder"),
        (
            "{records: 10, rows: {command: [a], environment: {B: '{checkpoint}'}}}",
            "unknown-placeholder",
        ),
        (
            "{records: 10, rows: {command: [a], working_directory: no/such}}",
            "not-a-folder",
        ),
        (
            "{records: 10, rows: {command: [a]}, producer: {acks: all, in_flight: 1}}",
            "own-loader-with-producer",
        ),
    ],
)
def test_a_loader_that_cannot_be(workload: str, said: str) -> None:
    """The place in the file, and what to write."""
    (error,) = errors_of(
        f"version: 2\nscenarios:\n  - name: a\n    title: A\n    pipeline: {STOCK}\n    workload: {workload}\n"
    )
    assert error[0].startswith("6:")
    assert error[1] == said


def test_what_cannot_be_asked_of_rows_that_are_not_known_beforehand() -> None:
    """A query can, where the pipeline says how far it is; a twin cannot, as the loader may send other records to it."""
    head = "version: 2\nscenarios:\n  - name: a\n    title: A\n"
    text = f"{head}    pipeline: {STOCK[:-1]}, expected: {{asked}}}}\n    workload: {{records: 10, rows: {{command: [a]}}}}\n"

    query = text.replace("{asked}", "{sql: 'SELECT key, value FROM datasource'}")

    assert not ways.of_scenario(loaded(text.replace("{asked}", "source")).scenarios[0]).counts_records
    assert ways.of_scenario(loaded(query).scenarios[0]).counts_records
    assert errors_of(text.replace("{asked}", "{same_as: fault_free}")) == [("6:45", "twin-of-own-loader")]
    command = "{kind: command, reads: [datasource], sink: {topic: datasink}, run: [a], positions: none, expected: {asked}}"
    (unknown,) = errors_of(query.replace(STOCK[:-1], command[: command.index(", expected")]))
    assert unknown[1] == "own-loader-without-positions"


def test_a_loader_of_ones_own_may_use_transactions() -> None:
    """The built-in loader declares its transactions, so a trigger that would never come is refused."""
    head = "version: 2\nscenarios:\n  - name: a\n    title: A\n    pipeline: none\n"
    fault = "    faults: [{kind: kill_broker, target: receiver, when: {request: EndTxn, nth: 3}}]\n"
    ours, own = ("{records: 10}", "{records: 10, rows: {command: [a]}}")

    assert loaded(f"{head}    workload: {own}\n{fault}").scenarios[0].faults
    (error,) = errors_of(f"{head}    workload: {ours}\n{fault}")
    assert error[1] == "request-never-sent"
