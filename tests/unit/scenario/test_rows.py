"""Rows of one's own in a workload: what is wrong with them is told with its place, before anything runs."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from chaos.common.errors import ScenarioError
from chaos.scenario.model import Scenario, Workload
from tests.unit.scenario.declared import STOCK, errors_of, loaded, read

SQL = "workload: {records: 10, rows: {sql: SELECT 1}}"


def workload(rows: str, folder: Path, more: str = "") -> Workload:
    """Of a file in this folder."""
    text = f"version: 2\nscenarios:\n  - {{name: a, title: A, pipeline: {STOCK}, workload: {{{more}rows: {rows}}}}}\n"
    return loaded(text, folder / "scenarios.yaml").scenarios[0].workload


def test_paths_begin_at_the_folder_of_the_file(tmp_path: Path) -> None:
    """Of a file, and of the module of a function, which may be in a folder of its own."""
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
        ("{}", "rows come from one of sql, file, python, generator and command, and this has none of them; write one of them"),
        (
            "{sql: SELECT 1, file: a.parquet}",
            "rows come from one of sql, file, python, generator and command, and this has sql and file",
        ),
        ("{sql: SELECT 1, folder: src}", "folder is where a module of python is looked for; leave it out"),
        ("{sql: ''}", "this text must not be empty"),
        ("{python: orders}", "'orders' does not name a function; write module:function, e.g. shop.testing:orders"),
        ("{python: 'shop.:orders'}", "'shop.:orders' does not name a function"),
        ("{pyton: 'a:b'}", "'pyton' is not known here (did you mean python?)"),
        ("{file: none.parquet}", "'none.parquet' is not there; a path begins at the folder of this file, "),
        ("{command: []}", "this must not be empty; write at least one"),
        ("{command: [a]}", "records is missing: a run waits for as many as rows: {command: …} sends; write records: 20000"),
        ("{generator: orders}", "there is no generator 'orders'; no package that is installed has added any"),
        ("{sql: SELECT 1, with: {a: 1}}", "with are arguments of python or of a generator; leave it out"),
        ("{sql: SELECT 1, environment: {A: b}}", "environment is that of a command; leave it out"),
        ("{sql: SELECT 1, working_directory: .}", "working_directory is that of a command; leave it out"),
        ("7", "7 is not a mapping"),
    ],
)
def test_rows_that_cannot_be(rows: str, said: str, tmp_path: Path) -> None:
    """The place in the file, and what to write."""
    with pytest.raises(ScenarioError) as caught:
        workload(rows, tmp_path)
    assert f": {said}" in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path / 'scenarios.yaml'}:3:")


def test_a_file_without_values(tmp_path: Path) -> None:
    """Parquet says its columns, so nothing needs to run for that."""
    parquet.write_table(pa.table({"key": ["a"]}), tmp_path / "a.parquet")
    with pytest.raises(ScenarioError, match=r"'a\.parquet' has no column value; its columns are key; a path begins"):
        workload("{file: a.parquet}", tmp_path)


def test_a_model_that_needs_integers() -> None:
    """What is not a number has no square."""
    head = f"version: 2\nscenarios:\n  - name: a\n    title: A\n    pipeline: {STOCK[:-1]}, model: square}}\n"

    (error,) = errors_of(f"{head}    {SQL}\n")

    said = "this pipeline has model: square, which needs the integers that are sent without rows; leave rows out"
    assert error == f"scenarios.yaml:6:35: {said}"


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
        ("{records: 10, rows: {command: [a, '{cluster}']}}", "{cluster} in '{cluster}' is not a placeholder; there are {boot"),
        (
            "{records: 10, rows: {command: [a], environment: {B: '{checkpoint}'}}}",
            "{checkpoint} in '{checkpoint}' is not a placeholder; there are {boot",
        ),
        (
            "{records: 10, rows: {command: [a], working_directory: no/such}}",
            "no/such is not a folder; a path begins at the folder of this file, ",
        ),
        (
            "{records: 10, rows: {command: [a]}, producer: {acks: all, in_flight: 1}}",
            "producer says how our loader writes, and rows: {command: …} writes itself; leave it out",
        ),
    ],
)
def test_a_loader_that_cannot_be(workload: str, said: str) -> None:
    """The place in the file, and what to write."""
    (error,) = errors_of(
        f"version: 2\nscenarios:\n  - name: a\n    title: A\n    pipeline: {STOCK}\n    workload: {workload}\n"
    )
    assert error.startswith("scenarios.yaml:6:")
    assert said in error


def test_what_cannot_be_asked_of_rows_that_are_not_known_beforehand() -> None:
    """A query can, where the pipeline says how far it is; a twin cannot, as the loader may send other records to it."""
    head = "version: 2\nscenarios:\n  - name: a\n    title: A\n"
    text = f"{head}    pipeline: {STOCK[:-1]}, expected: {{asked}}}}\n    workload: {{records: 10, rows: {{command: [a]}}}}\n"

    query = text.replace("{asked}", "{sql: 'SELECT key, value FROM datasource'}")

    assert not loaded(text.replace("{asked}", "source")).scenarios[0].counts_positions
    assert loaded(query).scenarios[0].counts_positions
    (twin,) = errors_of(text.replace("{asked}", "{same_as: fault_free}"))
    assert ":6:45: a twin needs the same records, and a loader of your own may send others; write sql, file, python" in twin
    command = "{kind: command, reads: [datasource], sink: {topic: datasink}, run: [a], positions: none, expected: {asked}}"
    (unknown,) = errors_of(query.replace(STOCK[:-1], command[: command.index(", expected")]))
    assert (
        "how many rows these records demand is not known, nor with positions: none when all of them are there; write" in unknown
    )


def test_a_loader_of_ones_own_may_use_transactions() -> None:
    """Of ours it is known whether it does, so a trigger that would never come is refused."""
    head = "version: 2\nscenarios:\n  - name: a\n    title: A\n    pipeline: none\n"
    fault = "    faults: [{kind: kill_broker, target: receiver, when: {request: EndTxn, nth: 3}}]\n"
    ours, own = ("{records: 10}", "{records: 10, rows: {command: [a]}}")

    assert loaded(f"{head}    workload: {own}\n{fault}").scenarios[0].faults
    (error,) = errors_of(f"{head}    workload: {ours}\n{fault}")
    assert "this pipeline uses no transactions, so EndTxn is never sent" in error
