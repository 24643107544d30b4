"""A Spark job that knows nothing of this project: it is found at Spark's master, broken, and judged by what it wrote."""

from pathlib import Path

import pytest

from chaos.cluster.spark import submitted
from chaos.scenario.load import load
from verifiers.base import Verdict

FILE = Path(__file__).parents[2] / "scenarios.yaml"
pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


def test_a_job_whose_executors_die_before_its_rows_are_acknowledged(chaos_session):
    """Spark's stock sink writes them again, and nothing else is wrong; the fault found the job's executors."""
    file = load(FILE)

    report = chaos_session.run(file.scenario("submitted-job-executors-crashed"), file.system, "", lambda _event: None).report

    counts = {(one.verifier, one.subject): one.count for one in report.findings}
    assert report.verdict is Verdict.VALID, report.problems  # as expected: it is a control
    assert counts["duplicates", "sink"] > 0
    assert counts["gaps", "sink"] == counts["values", "sink"] == counts["offsets", "sink"] == 0
    assert [fault.effective for fault in report.faults] == [True]


def test_where_no_job_runs(system):
    """Whatever ran before, and whether the master has noticed that it ended."""
    with pytest.raises(LookupError, match=f"no driver of Spark answers at {system.spark.driver_host}"):
        submitted(system.spark)
