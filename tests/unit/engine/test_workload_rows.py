"""The rows of a run are in its folder before anything is sent; what is wrong with them makes it UNKNOWN, in a line."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from chaos.common.errors import InconclusiveError
from chaos.contract.base import Topic, Topics
from chaos.engine.run_plan import RunPlan
from chaos.engine.workload_rows import made_beforehand, with_rows
from chaos.loader import rows_file
from chaos.loader.declaration import FillSource, UserLoader
from chaos.scenario.model import Scenario
from chaos.scenario.plan import plan, scenario_seed
from tests.unit.plugins import install
from tests.unit.wording import raised

MODULE = """
def orders(seed):
    yield from [{"key": "a", "value": str(seed)}] * 4

def many(seed, *, rows, value="x"):
    yield from [(None, value)] * rows

def breaks(seed):
    yield ("a", "b")
    raise OSError("no stock")
"""


def run_plan(folder: Path, **workload: object) -> RunPlan:
    """The plan of a run with the loader alone, whose module is in the folder."""
    (folder / "shop.py").write_text(MODULE, encoding="utf-8")
    scenario = Scenario.model_validate({"name": "a", "title": "A", "pipeline": {"kind": "none"}, "workload": workload})
    scenario = scenario.below(folder)
    loader = FillSource(scenario.workload.records, 1000.0)
    return RunPlan(scenario, plan(scenario, 5), folder, Topics((Topic("source", 3),), "sink"), (loader,), None, "loader")


def no_spark() -> SparkSession:
    """Only SQL is asked of it."""
    pytest.fail("Spark was asked for")


def test_integers_need_no_rows(tmp_path: Path) -> None:
    """Nothing is changed where they are sent."""
    planned = run_plan(tmp_path, records=10)

    assert with_rows(planned, no_spark) is planned
    assert not (tmp_path / rows_file.FILE).exists()


def test_a_loader_of_ones_own_has_none_beforehand(tmp_path: Path) -> None:
    """Its records are known only when they are in the topic."""
    planned = run_plan(tmp_path, records=10, rows={"command": ["a"]})
    planned = replace(planned, loaders=(UserLoader(("a",), 10, 1.0, 7, {}),))

    assert not made_beforehand(planned)
    assert with_rows(planned, no_spark) is planned


def test_a_function_says_how_many_there_are(tmp_path: Path) -> None:
    """The run's scenario knows that from now on; the seed is the scenario's own."""
    made = with_rows(run_plan(tmp_path, rows={"python": "shop:orders"}), no_spark)

    (loader,) = made.loaders
    assert isinstance(loader, FillSource)
    assert (made.records, loader.records, loader.rows) == (4, 4, tmp_path / rows_file.FILE)
    assert {row.value for row in rows_file.read(tmp_path / rows_file.FILE)} == {str(scenario_seed(5, "a")).encode()}


def test_a_function_is_given_what_the_scenario_says(tmp_path: Path) -> None:
    """By name, beside the seed."""
    made = with_rows(run_plan(tmp_path, rows={"python": "shop:many", "with": {"rows": 3, "value": "a"}}), no_spark)

    assert made.records == 3
    assert {row.value for row in rows_file.read(tmp_path / rows_file.FILE)} == {b"a"}


GENERATORS = """
def recurring(seed, customers=97):
    for number in range(4):
        yield {"key": f"customer-{number % customers}", "value": str(seed)}
"""


@pytest.fixture
def shop_chaos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with a generator, as this process and those that it starts find it."""
    site = tmp_path / "site"
    install(site, "shop-chaos", {"chaos.generators: recurring": "shop_rows:recurring"}, shop_rows=GENERATORS)
    monkeypatch.setenv("PYTHONPATH", str(site))


@pytest.mark.usefixtures("shop_chaos")
def test_a_generator_of_a_package(tmp_path: Path) -> None:
    """By its name, wherever its module is."""
    made = with_rows(run_plan(tmp_path, rows={"generator": "recurring", "with": {"customers": 2}}), no_spark)

    assert made.records == 4
    assert {row.key for row in rows_file.read(tmp_path / rows_file.FILE)} == {b"customer-0", b"customer-1"}


@pytest.mark.usefixtures("shop_chaos")
@pytest.mark.parametrize(
    ("declared", "names"),
    [
        (
            {"generator": "recurring", "with": {"customers": 0}},
            ("recurring of shop-chaos 1.0", "ZeroDivisionError", "shop_rows.py:4)"),
        ),
        ({"generator": "skewed"}, ("skewed", sys.executable)),
    ],
    ids=["one that raises", "one that is not there"],
)
def test_a_generator_that_gives_no_rows(tmp_path: Path, declared: dict[str, object], names: tuple[str, ...]) -> None:
    """One line, with the package and the place in its code."""
    with raised(InconclusiveError, "workload, rows, generator: ", *names, hidden={sys.executable: "<python>"}):
        with_rows(run_plan(tmp_path, rows=declared), no_spark)


def test_a_file_that_was_changed_since_it_was_declared(tmp_path: Path) -> None:
    """It has fewer rows now than the scenario counted."""
    (tmp_path / "a.jsonl").write_text('{"value": "a"}\n' * 3, encoding="utf-8")
    planned = run_plan(tmp_path, rows={"file": "a.jsonl"})
    (tmp_path / "a.jsonl").write_text('{"value": "a"}\n', encoding="utf-8")

    with pytest.raises(InconclusiveError, match=r"^workload, rows, file: there are 1 rows, but records: 3 is declared"):
        with_rows(planned, no_spark)


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        ({"rows": {"python": "shop:breaks"}}, r"python: shop:breaks raised OSError: no stock \(.*shop\.py:10\)"),
        ({"rows": {"python": "shop:none"}}, "python: there is no function none in shop"),
        (
            {"rows": {"python": "shop:many", "with": {"row": 3}}},
            r"python: shop:many raised TypeError: many\(\) got an unexpected keyword argument 'row'",
        ),
        ({"records": 5, "rows": {"python": "shop:orders"}}, "python: there are 4 rows, but records: 5 is declared"),
        (
            {"rate": "0.001/s", "rows": {"python": "shop:orders"}},
            "python: 4 records at 0.001/s take 4000 s; a workload must end",
        ),
        ({"rows": {"file": "none.jsonl"}}, "file: .*none.jsonl does not exist"),
    ],
)
def test_rows_that_cannot_be_had(tmp_path: Path, workload: dict[str, object], said: str) -> None:
    """One line, with its place; the run's folder says what was asked for."""
    with pytest.raises(InconclusiveError, match=f"^workload, rows, {said}") as caught:
        with_rows(run_plan(tmp_path, **workload), no_spark)
    assert "\n" not in str(caught.value)
    assert (tmp_path / "scenario.json").exists()


def test_a_function_that_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given up on, and its process ends."""
    (tmp_path / "endless.py").write_text("def orders(seed):\n    while True:\n        pass\n", encoding="utf-8")
    monkeypatch.setattr("chaos.scenario.rows.function._MADE_WITHIN_S", 2.0)

    with raised(InconclusiveError, "2 s"):
        with_rows(replace(run_plan(tmp_path, rows={"python": "endless:orders"})), no_spark)
