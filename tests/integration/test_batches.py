"""Triggers on a batch of a Spark job: the fault strikes this batch and no other, which its rows show."""

import json
from pathlib import Path

import pytest

from chaos.common.events import FaultTriggered
from chaos.common.history import load as load_history
from chaos.common.history import of_type
from chaos.judging.landing import landed
from chaos.scenario.load import load_text
from tests.integration.conftest import ROOT
from verifiers.base import Verdict

TOPICS = "topics: {numbers: {partitions: 3}, copies: {partitions: 3}}"
OF_TOPICS = "reads: [numbers], sink: {topic: copies}"
JOB = f"{{kind: spark_submit, application: examples/spark_job/copy_topic.py, {OF_TOPICS}, arguments: %s}}"
ARGUMENTS = '["{bootstrap}", "{source}", "{sink}", "{checkpoint}"]'
# answers are late, so rows are in the sink for a second before their task knows it
LATE = '{kind: delay_link, link: "spark->*", stream: down, latency: 1s, when: {after: 0s}, for: 2m, until: strikes}'
TWICE = "{duplicates: {duplicate: some}, ordering: {inversion: some}}"
pytestmark = [pytest.mark.integration, pytest.mark.nightly, pytest.mark.timeout(900)]


def run(session, fault, expect="valid"):
    """Run the job with this fault; the report, the batch of its trigger, and the ids that are in the sink more than once."""
    scenario = {"name": "batch", "title": "A batch is struck", "workload": {"records": 16000, "rate": "2000/s"}}
    lines = [*(f"{key}: {json.dumps(value)}" for key, value in scenario.items()), f"pipeline: {JOB % ARGUMENTS}"]
    lines += [f"faults: [{LATE}, {fault}]", f"expect: {expect}"]
    file = load_text(f"version: 2\n{TOPICS}\nscenarios:\n  - " + "\n    ".join(lines) + "\n", ROOT / "scenarios.yaml")
    report = session.run(file.scenarios[0], file.system, "", lambda _event: None).report
    seen = of_type(load_history(Path(report.run_dir, "history.jsonl")), FaultTriggered)
    (batch,) = [value.details for _, value in seen if value.fault == "strikes"] or pytest.fail(f"{report.problems}")
    rows = landed(session.spark(), Path(report.run_dir, "evidence"), "sink")
    return report, batch, [int(row["value"]) for row in rows.groupBy("value").count().where("count > 1").collect()]


def of_batch(batch, one):
    """Whether a batch has a record: id i is at offset i / 3 of partition i mod 3."""
    partition, offset = str(one % 3), one // 3
    return batch["begin"][partition] <= offset < batch["end"][partition]


@pytest.mark.parametrize("fault", ["kind: crash_executor, target: executor(all)", "kind: crash_pipeline"])
def test_a_batch_whose_rows_were_seen_is_written_again_and_no_other(chaos_session, fault):
    """Executors or the driver die when rows of batch 2 are in the sink, and Spark has not been told of them."""
    report, batch, twice = run(chaos_session, f"{{name: strikes, {fault}, when: {{batch: 2, seen: rows}}}}", TWICE)

    assert report.verdict is Verdict.VALID, report.problems  # as expected: it is a control
    assert (batch["batch"], batch["seen"]) == (2, "rows")
    assert sum(batch["grown"].values()) > 0
    assert twice
    assert [one for one in twice if not of_batch(batch, one)] == []


def test_nothing_of_a_batch_that_is_done_is_written_again(chaos_session):
    """The driver dies when the checkpoint says that batch 2 is done; the next batch may have begun by then."""
    report, batch, twice = run(chaos_session, "{name: strikes, kind: crash_pipeline, when: {batch: 2, seen: done}}")

    assert {fault.name: fault.problem for fault in report.faults} == {"delay_link-1": "", "strikes": ""}
    assert (batch["batch"], batch["seen"]) == (2, "done")
    assert [one for one in twice if of_batch(batch, one)] == []
