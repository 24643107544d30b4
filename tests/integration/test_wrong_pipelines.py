"""Pipelines that are declared wrongly, on the real system: each ends UNKNOWN, with a line that says what is wrong."""

import json
import re
import sys

import pytest

from chaos.common.errors import RuntimeUnavailableError
from chaos.engine import run_plan
from chaos.scenario.load import load_text
from chaos.scenario.system import KafkaSpec, SparkSpec, SystemSpec
from tests.integration.conftest import ROOT
from verifiers.base import Verdict

COPY = ROOT / "examples" / "command" / "copy_topic.py"
TWO_QUERIES = """\
import sys

from pyspark.sql import SparkSession

bootstrap, source, sink, checkpoint, elsewhere = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
ticks = spark.readStream.format("rate").load()
ticks.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
kafka = {"kafka.bootstrap.servers": bootstrap}
rows = spark.readStream.format("kafka").options(**kafka, subscribe=source, startingOffsets="earliest").load()
copied = rows.select("partition", "key", "value").writeStream.format("kafka").options(**kafka, topic=sink)
copied.option("checkpointLocation", elsewhere).start().awaitTermination()
"""
_SURE_S = 10.0  # for what cannot happen at all
_READ_S = 45.0  # for a program that has to start and to read on a busy machine before it is told from one that never reads
pytestmark = [pytest.mark.integration, pytest.mark.nightly, pytest.mark.timeout(900)]


def problem_of(session, folder, pipeline):
    """The one line of a run that is UNKNOWN, without the ends of the names of its topics."""
    topics = {"orders": {}, "copies": {}, "others": {}}
    declared = {"reads": ["orders"], "sink": {"topic": "copies"}, "transactions": False, **pipeline}
    workload = {"into": "orders", "records": 1000, "rate": "1000/s"}
    scenario = {"name": "wrong", "title": "A pipeline that is declared wrongly", "pipeline": declared, "workload": workload}
    file = load_text(json.dumps({"version": 2, "topics": topics, "scenarios": [scenario]}), folder / "scenarios.yaml")

    report = session.run(file.scenarios[0], file.system, "", lambda _event: None).report

    assert report.verdict is Verdict.UNKNOWN
    (problem,) = report.problems
    assert "\n" not in problem
    return re.sub(r"\b(orders|copies|others|copy)-[0-9A-Za-z-]+", r"\1", problem)


def copies(source, sink, group, script=COPY):
    """The copying program, with these arguments; it is declared as what it should be."""
    return {
        "kind": "command",
        "run": ["{python}", str(script), "{bootstrap}", source, sink, group],
        "group": "copy-{suffix}",
        "restarts": 0,
    }


def test_one_that_reads_another_topic(chaos_session, tmp_path, monkeypatch):
    """Neither positions nor output: both are named."""
    monkeypatch.setattr(run_plan, "_FLOWS_WITHIN_S", _SURE_S)

    said = problem_of(chaos_session, tmp_path, copies("{others}", "{copies}", "copy-{suffix}"))

    names = (
        "nothing of orders (by group copy) ",
        "nothing to copies; ",
        "{source}",
        "{sink}",
        "{bootstrap}",
        "logs/pipeline.log",
    )
    assert all(name in said for name in names), said


def test_one_that_writes_elsewhere(chaos_session, tmp_path, monkeypatch):
    """Its positions move, and its sink is empty."""
    monkeypatch.setattr(run_plan, "_FLOWS_WITHIN_S", _READ_S)

    said = problem_of(chaos_session, tmp_path, copies("{orders}", "{others}", "copy-{suffix}"))

    assert re.search(r" read \d+ records of orders \(by group copy\), .*nothing to copies; ", said), said
    assert all(name in said for name in ("{sink}", "logs/pipeline.log")), said


def test_one_that_commits_to_another_group(chaos_session, tmp_path, monkeypatch):
    """All of its output is there, and its group is where it was."""
    monkeypatch.setattr(run_plan, "_DRAINS_WITHIN_S", _SURE_S)
    script = tmp_path / "copy_topic.py"
    latest = '"enable.auto.commit": False'
    text = COPY.read_text(encoding="utf-8")
    assert latest in text
    script.write_text(text.replace(latest, f'{latest}, "auto.offset.reset": "earliest"'), encoding="utf-8")

    said = problem_of(chaos_session, tmp_path, copies("{orders}", "{copies}", "another-{suffix}", script))

    assert re.search(r"copies has \d+ records, .*nothing of orders \(by group copy\); ", said), said
    assert all(name in said for name in (" another group", " positions: ")), said


def test_one_whose_checkpoint_is_that_of_another_query(chaos_session, tmp_path, monkeypatch):
    """It has batches, and none of them is of this topic."""
    monkeypatch.setattr(run_plan, "_DRAINS_WITHIN_S", _SURE_S)
    (tmp_path / "job.py").write_text(TWO_QUERIES, encoding="utf-8")
    arguments = ["{bootstrap}", "{orders}", "{copies}", "{checkpoint}", "{checkpoint}-of-the-copy"]

    said = problem_of(
        chaos_session,
        tmp_path,
        {"kind": "spark_submit", "application": "job.py", "arguments": arguments, "restarts": 0},
    )

    assert re.search(r"copies has \d+ records, .*nothing of orders .*checkpoint\); ", said), said
    assert all(name in said for name in (" another query", "{source}", "{checkpoint}", "positions: ")), said


@pytest.mark.parametrize("restarts", [0, 1])
def test_one_that_dies_at_once(chaos_session, tmp_path, restarts):
    """However often it is started again; what it said last is told."""
    script = "raise SystemExit('the option --kafkaa is not known')"
    dies = {"kind": "command", "run": [sys.executable, "-c", script], "group": "copy-{suffix}", "restarts": restarts}

    said = problem_of(chaos_session, tmp_path, dies)

    assert "the pipeline ended with 1 " in said
    assert said.endswith("the last line of logs/pipeline.log: the option --kafkaa is not known")


@pytest.mark.parametrize(
    ("system", "said"),
    [
        (SystemSpec(kafka=KafkaSpec(version="3.99.0")), "system.kafka.version 3.99.0: Maven Central has no org.apache.kafka:"),
        (SystemSpec(spark=SparkSpec(version="3.5.99")), "system.spark.version 3.5.99: Maven Central has no org.apache.spark:"),
    ],
)
def test_a_version_that_no_registry_has(chaos_session, system, said):
    """It is told before anything is started."""
    with pytest.raises(RuntimeUnavailableError) as caught:
        chaos_session.system(system)

    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)
