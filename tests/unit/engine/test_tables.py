"""The process that reads a table: what is started, what is waited for, and what is said if it cannot be read."""

import json
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest

from chaos.common.errors import InconclusiveError
from chaos.engine import tables
from chaos.engine.pipelines import topics_of
from chaos.engine.run_plan import RunPlan
from chaos.loader.declaration import FillSource
from chaos.scenario.pipelines.base import Tools
from chaos.scenario.pipelines.deployed import Deployed
from chaos.scenario.plan import plan
from chaos.scenario.sinks.delta import DeltaTable
from tests.unit.scenario.declared import loaded
from tests.unit.wording import raised

FOUND = {"columns": [["customer", "string"]], "version": "version 2", "rows": 7}
FILE = """\
version: 2
topics: {orders: {}}
scenarios:
  - name: a
    title: A
    pipeline:
      kind: spark_submit
      application: THIS
      arguments: ["{checkpoint}"]
      reads: [orders]
      sink: {delta: "{folder}/large"}
      identity: customer
      expected: {sql: SELECT key AS customer FROM orders}
""".replace("THIS", __file__)


@dataclass
class Reading:
    """A process that leaves what it found, or an error in its log, and has ended unless it hangs."""

    about: dict | None
    said: str = ""
    hangs: bool = False
    spec: object = None
    stopped: int = 0

    def start(self, spec):
        self.spec = spec
        spec.log.parent.mkdir(parents=True, exist_ok=True)
        spec.log.write_text(self.said)
        if self.about is not None:
            (spec.cwd / "table" / "about.json").write_text(json.dumps(self.about))
        return self

    def alive(self):
        return self.hangs

    def stop(self):
        self.stopped += 1


@dataclass
class Cluster:
    """Spark, whose executors end when they are asked for the third time."""

    asked: int = 0
    master: str = "spark://m:7077"
    driver_host: str = "127.0.0.1"
    java_options: str = ""
    class_path: str = ""
    options: dict = field(default_factory=dict)

    def executors(self):
        self.asked += 1
        return ["executor"] if self.asked < 3 else []


def system(reading):
    """A cluster of our own."""
    kafka = SimpleNamespace(bootstrap="audit:9092", cluster=SimpleNamespace(prefix="", options={}, java={}))
    found = {"bootstrap": lambda _client: "link:9092", "service_addresses": lambda _client: {}}
    return SimpleNamespace(kafka=kafka, spark=Cluster(), runtime=reading, **found)


@pytest.fixture
def run_plan(tmp_path):
    scenario = loaded(FILE).scenarios[0]
    table = DeltaTable(delta=f"{tmp_path}/large")
    job = Deployed(scenario.pipeline, Tools(spark_home="/spark"))
    topics = topics_of(scenario, "", "7")
    return RunPlan(scenario, plan(scenario, 1), tmp_path, topics, (FillSource(10, 5),), job, "spark", table=table)


def test_a_table_is_read_once_no_task_can_add_to_it(run_plan):
    """By the job's own Spark; the process is ended when it has left what it found."""
    reading = Reading(FOUND, hangs=True)
    cluster = system(reading)

    found = tables.read(run_plan, cluster)

    assert (found.columns, found.version, found.count) == ((("customer", "string"),), "version 2", 7)
    assert cluster.spark.asked == 3
    assert reading.stopped == 1
    assert json.loads((run_plan.folder / "table" / "spec.json").read_text())["identity"] == "customer"
    assert reading.spec.hosts == ("127.0.0.1",)


def test_what_an_earlier_reading_left_is_not_taken_for_this_one(run_plan):
    """A drain that failed may be observed twice."""
    (run_plan.folder / "table").mkdir()
    (run_plan.folder / "table" / "about.json").write_text(json.dumps(FOUND))

    with pytest.raises(InconclusiveError, match="Spark could not read the table"):
        tables.read(run_plan, system(Reading(None)))


@pytest.mark.parametrize(
    ("about", "said", "told"),
    [
        ({"problem": "no table at /x", "kind": "absent"}, "", "no table at /x"),
        (None, "Error: Missing application\n\tat a.B\nINFO bye\n", "logs/table.log: Error: Missing application"),
        (None, "Killed\n", "logs/table.log: Killed"),
    ],
    ids=["no table", "an error", "no error"],
)
def test_why_a_table_cannot_be_read(run_plan, about, said, told):
    """In a line, with the place of the sink in the declaration."""
    with raised(InconclusiveError, "pipeline, sink, delta: ", told):
        tables.read(run_plan, system(Reading(about, said)))


def test_a_topic_is_not_read_so(run_plan):
    """There is nothing to start."""
    assert tables.reading(replace(run_plan, table=None), system(Reading(FOUND))) is None
