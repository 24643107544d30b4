"""How much a model demands is known before anything is sent; without a model nothing is asked of Spark."""

from pathlib import Path
from typing import Any

import pytest

from chaos.contract.base import Topic, Topics
from chaos.engine.demand import has_model, with_demand
from chaos.engine.run_plan import RunPlan
from chaos.expectation import model as models
from chaos.expectation.definitions import Function, Query
from chaos.expectation.model import Model
from chaos.loader.declaration import FillSource
from chaos.scenario.model import Scenario
from chaos.scenario.plan import plan
from tests import deployed

SQL = {"sql": "SELECT key, value FROM orders"}
ROWS = {"rows": {"sql": "SELECT '1' AS value FROM ids"}}


def scenario(workload: dict[str, Any] | None = None, **pipeline: object) -> Scenario:
    declared = {"kind": "command", "run": ["a"], "group": "g", "reads": ["orders"], "sink": {"topic": "kept"}, **pipeline}
    topics: dict[str, Any] = {"orders": {}, "kept": {}}
    return Scenario.model_validate(
        {"name": "a", "title": "A", "pipeline": declared, "topics": topics, "workload": {"records": 9, **(workload or {})}}
    )


def run_plan(folder: Path, one: Scenario) -> RunPlan:
    topics = Topics((Topic("orders-1", 3),), "kept-1")
    pipeline = deployed.command(("a",), "g")
    return RunPlan(one, plan(one, 5), folder, topics, (FillSource(9, 1000.0),), pipeline, "app")


@pytest.mark.parametrize(
    ("one", "model", "is_asked"),
    [
        (scenario(), None, False),
        (scenario(expected="source"), None, False),
        (scenario(ROWS), Model(), False),
        (scenario(ROWS, expected="source"), Model(), False),
        (scenario(ROWS, identity="value"), Model(identity="value"), True),
        (scenario(identity="value"), Model(identity="value"), True),
        (scenario(expected=SQL), Model(Query(SQL["sql"]), integers="orders"), True),
        (scenario(expected={"python": "a:b", "folder": "c"}), Model(Function("a:b", "c"), integers="orders"), True),
    ],
)
def test_where_there_is_a_model(tmp_path: Path, one: Scenario, model: Model | None, *, is_asked: bool) -> None:
    """Integers are judged by their keys, unless it is said otherwise; a copy of rows of one's own needs no query."""
    planned = run_plan(tmp_path, one)

    assert models.of_scenario(one) == model
    assert has_model(planned) is is_asked
    if not is_asked:
        assert with_demand(planned, lambda: pytest.fail("Spark was asked for")) is planned
        assert planned.demanded == 9


@pytest.mark.parametrize(
    ("one", "are_compared"),
    [
        (scenario(ROWS), True),
        (scenario(ROWS, keeps_headers=False), False),
        (scenario(ROWS, identity="value"), False),
        (scenario(ROWS, expected=SQL), False),
    ],
)
def test_headers_are_no_part_of_what_a_query_sees(one: Scenario, *, are_compared: bool) -> None:
    """They would stand behind the value, which then were no JSON any more."""
    assert models.compares_headers(one) is are_compared


def test_the_loader_alone_has_no_model(tmp_path: Path) -> None:
    """Its topic is judged by its ledger."""
    alone = Scenario.model_validate({"name": "a", "title": "A", "pipeline": {"kind": "none"}, "workload": ROWS})

    assert models.of_scenario(alone) is None
    assert not has_model(
        RunPlan(alone, plan(alone, 5), tmp_path, Topics((Topic("s", 3),), ""), (FillSource(9, 1.0),), None, "loader")
    )
