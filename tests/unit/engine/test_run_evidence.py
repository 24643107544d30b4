"""The evidence of a finished run, and the part that its programs report."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from pydantic import TypeAdapter

from chaos.common.errors import InconclusiveError
from chaos.engine import run_evidence
from chaos.engine.program_statements import about_sink, about_source
from chaos.scenario.pipelines import Pipeline
from chaos.scenario.workload import Workload
from tests.unit.engine.played import FakeEnds, FakeManagedProcess, run_plan, run_processes


def test_a_run_whose_loader_never_began_cannot_be_observed(history, tmp_path):
    """Without a ledger nobody knows what was handed in; what runs is stopped all the same, and no Spark is asked for."""
    pipeline = FakeManagedProcess()
    processes = run_processes(history, tmp_path, pipeline=pipeline)

    with pytest.raises(InconclusiveError, match=r"ledger\.csv is missing, because the loader never began"):
        run_evidence.observe(run_plan(tmp_path), FakeEnds({}), lambda: pytest.fail("asked"), processes, None, None)

    assert pipeline.done == ["stop"]


def said_by(folder, pipeline, **declared):
    """The views that are made of what the programs of a run say or commit: of the source, and of the sink."""
    made = run_plan(folder)
    declared = {"kind": "none", **declared}
    workload = Workload(producer={"transaction_records": declared.pop("transaction_records", None)})
    leave_out = declared.pop("leave_out", {})
    changed = {"pipeline": TypeAdapter(Pipeline).validate_python(declared), "workload": workload, "leave_out": leave_out}
    scenario = made.scenario.model_copy(update=changed)
    run, kafka = replace(made, scenario=scenario, pipeline=pipeline), SimpleNamespace(committed=tuple)
    return about_source(run, kafka, "source"), about_sink(run, kafka, None) if pipeline else {}


def test_what_was_read_is_judged_in_the_source_and_what_was_written_where_it_is(tmp_path):
    """A pipeline's reports are judged in the sink, those of a loader under test in the source."""
    command = {"kind": "command", "reads": ["datasource"], "sink": {"topic": "datasink"}, "run": ["a"], "group": "g"}
    a_pipeline = SimpleNamespace(consumer_group=lambda _topics: "g")
    without_group = SimpleNamespace(consumer_group=lambda _topics: "")

    found = [
        said_by(tmp_path, a_pipeline, **command, speaks=["transactions", "deliveries"]),
        said_by(tmp_path, a_pipeline, **command, speaks=["transactions"]),
        said_by(tmp_path, without_group, **command),
        said_by(tmp_path, None, transaction_records=5),
        said_by(tmp_path, None),
    ]

    assert [(set(of_source), set(of_sink)) for of_source, of_sink in found] == [
        ({"deliveries", "commits"}, {"told"}),
        ({"commits"}, {"told"}),
        (set(), set()),
        ({"told"}, set()),
        (set(), set()),
    ]


def test_what_is_not_asked_is_no_evidence(tmp_path):
    """Where `outcomes` is left out, `atomicity` must not leave to it what it cannot tell."""
    command = {
        "kind": "command",
        "reads": ["datasource"],
        "sink": {"topic": "datasink"},
        "run": ["a"],
        "group": "g",
        "speaks": ["transactions", "deliveries"],
    }
    a_pipeline = SimpleNamespace(consumer_group=lambda _topics: "g")

    found = [
        said_by(tmp_path, a_pipeline, **command, leave_out={name: "why"}) for name in ("outcomes", "deliveries", "commits")
    ]

    assert [(set(of_source), set(of_sink)) for of_source, of_sink in found] == [
        ({"deliveries", "commits"}, set()),
        ({"commits"}, {"told"}),
        ({"deliveries"}, {"told"}),
    ]


@pytest.mark.parametrize(
    ("pipeline", "declared", "logs"),
    [
        (None, {"transaction_records": 5}, ["loader"]),
        (
            SimpleNamespace(consumer_group=lambda _topics: ""),
            {
                "kind": "command",
                "reads": ["datasource"],
                "sink": {"topic": "datasink"},
                "run": ["a"],
                "group": "g",
                "speaks": ["transactions", "deliveries"],
            },
            ["pipeline", "pipeline-2"],
        ),
    ],
)
def test_the_logs_of_all_instances_are_listened_to(tmp_path, pipeline, declared, logs):
    """An instance that took over has a log of its own."""
    (tmp_path / "logs").mkdir()
    for name in ("pipeline", "pipeline-2", "loader"):
        (tmp_path / "logs" / f"{name}.log").write_text('{"begin": 1}\n', encoding="utf-8")

    of_source, of_sink = said_by(tmp_path, pipeline, **declared)

    assert [row.transaction for row in {**of_source, **of_sink}["told"]()] == [f"{name} 1" for name in logs]
