"""Shared parts of tests of a run: a plan, and processes and brokers that are played."""

from dataclasses import dataclass, field
from types import SimpleNamespace

from chaos.contract.base import Topic, Topics
from chaos.engine.processes import RunProcesses
from chaos.engine.run_plan import RunPlan
from chaos.loader.declaration import FillSource
from chaos.scenario.model import Scenario
from chaos.scenario.plan import plan
from tests import deployed


@dataclass
class FakeProcess:
    """A process that has ended."""

    code: int = 1

    def exit_code(self):
        return self.code

    def alive(self):
        return False


@dataclass
class FakeManagedProcess:
    """A pipeline or a loader; what is done to it is written down."""

    process: FakeProcess = field(default_factory=FakeProcess)
    done: list = field(default_factory=list)

    def must_live(self):
        self.done.append("check")

    def how_it_ended(self, when):
        return f"the loader ended with 1 {when}"

    def last_errors(self):
        return "the last errors in logs/pipeline.log: KafkaError"

    def listen(self):
        self.done.append("listen")

    def stop(self):
        self.done.append("stop")


@dataclass
class FakeEnds:
    """The ends of topics; an exception is raised once."""

    ends: dict
    failures: list = field(default_factory=list)
    markers: set = field(default_factory=set)  # behind these places there is nothing else

    def offsets(self, topic, _partitions):
        if self.failures:
            raise self.failures.pop()
        return self.ends[topic]

    settled_offsets = offsets

    def has_records(self, *place):
        return place not in self.markers

    def end(self, topic, _partitions, _level):
        return sum(one.lso for one in self.ends[topic].values())

    def reads(self, _group):
        return {}


def run_plan(folder, **declared):
    """A loader under test, with a hundred records."""
    workload = {"records": 100, "rate": "1000/s"}
    scenario = Scenario(name="fake", title="fake", pipeline={"kind": "none"}, workload=workload, **declared)
    return RunPlan(
        scenario, plan(scenario, 1), folder, Topics((Topic("source", 3),), ""), (FillSource(100, 1000.0),), None, "loader"
    )


def run_processes(history, folder, pipeline=None, **loaders):
    return RunProcesses(SimpleNamespace(), history, folder, pipeline, {name: one for name, one in loaders.items() if one})


def named_plan(folder):
    """A command whose positions are in a group."""
    declared = {"kind": "command", "run": ["a"], "group": "g", "reads": ["orders"], "sink": {"topic": "kept"}}
    one = Scenario.model_validate({"name": "a", "title": "A", "pipeline": declared, "topics": {"orders": {}, "kept": {}}})
    return RunPlan(
        one,
        plan(one, 5),
        folder,
        Topics((Topic("source", 3),), "sink"),
        (FillSource(9, 1.0),),
        deployed.command(("a",), "g"),
        "app",
    )


TOPICS_OF_PIPELINE = Topics((Topic("source", 3),), "sink")
