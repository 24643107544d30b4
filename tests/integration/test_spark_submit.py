"""A Spark job that knows nothing of this project: it is found at Spark's master, broken, and judged by what it wrote."""

import json
from pathlib import Path

import pyspark
import pytest

from chaos.cluster.spark import submitted
from chaos.scenario.load import load, load_text
from verifiers.base import Verdict

FILE = Path(__file__).parents[2] / "scenarios.yaml"
COPY = FILE.parent / "examples" / "spark_job" / "copy_topic.py"
ASKS = """
    from pyspark.sql.avro.functions import to_avro
    assert open("settings.txt").read() == "the shop"
    assert spark.range(3).select(to_avro("id")).count() == len(spark.range(3).select(to_avro("id")).collect()) == 3
"""
pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


@pytest.mark.nightly
def test_a_job_whose_executors_die_before_its_rows_are_acknowledged(chaos_session):
    """Spark's stock sink writes them again, and nothing else is wrong; the fault found the job's executors."""
    file = load(FILE)

    report = chaos_session.run(file.scenario("submitted-job-executors-crashed"), file.system, "", lambda _event: None).report

    counts = {(one.verifier, one.subject): one.count for one in report.findings}
    assert report.verdict is Verdict.VALID, report.problems  # as expected: it is a control
    assert counts["duplicates", "sink"] > 0
    assert counts["gaps", "sink"] == counts["values", "sink"] == counts["offsets", "sink"] == 0
    assert [fault.effective for fault in report.faults] == [True]


@pytest.mark.nightly
def test_a_job_with_packages_and_a_folder_to_run_in(chaos_session, tmp_path):
    """Its executors have what a package brings, and its driver finds its file; both end the job if they do not."""
    started = '    spark = SparkSession.builder.appName("copy-topic").getOrCreate()\n'
    text = COPY.read_text(encoding="utf-8")
    assert started in text
    (tmp_path / "copy_topic.py").write_text(text.replace(started, started + ASKS), encoding="utf-8")
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "settings.txt").write_text("the shop", encoding="utf-8")
    pipeline = {
        "kind": "spark_submit",
        "application": "copy_topic.py",
        "arguments": ["{bootstrap}", "{source}", "{sink}", "{checkpoint}"],
        "packages": [f"org.apache.spark:spark-avro_2.13:{pyspark.__version__}"],
        "working_directory": "shop",
        "restarts": 0,
        "transactions": False,
        "reads": ["orders"],
        "sink": {"topic": "copies"},
    }
    scenario = {"name": "packages", "title": "A job with packages", "pipeline": pipeline, "workload": {"records": 4000}}
    declared = {"version": 2, "topics": {"orders": {}, "copies": {}}, "scenarios": [scenario]}
    file = load_text(json.dumps(declared), tmp_path / "scenarios.yaml")

    report = chaos_session.run(file.scenarios[0], file.system, "", lambda _event: None).report

    assert report.verdict is Verdict.VALID, report.problems


def test_where_no_job_runs(system):
    """Whatever ran before, and whether the master has noticed that it ended."""
    with pytest.raises(LookupError, match=system.spark.driver_host):
        submitted(system.spark)
