"""The plan of a run, complete before it begins: its topics, pipeline and loaders, and its deadlines."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from chaos.cluster.system import System
from chaos.common import files
from chaos.common.events import LOADER
from chaos.contract.base import Topic, Topics
from chaos.engine.pipelines import endpoints, loader_of, pipeline_of, topics_of
from chaos.expectation import ways
from chaos.expectation.ways import Expectation
from chaos.install.packages import NO_PACKAGES, Fetched
from chaos.loader.declaration import LEDGER, FillSource, UserLoader, marked
from chaos.scenario.model import Scenario
from chaos.scenario.pipelines.deployed import Deployed
from chaos.scenario.plan import Schedule, scenario_seed, to_json
from chaos.scenario.sinks import TableSink
from chaos.scenario.system import SystemSpec
from chaos.scenario.workload import Filling

# Deadlines of phases. They are for a standstill: a machine that is busy with other work must not reach them.
_FLOWS_WITHIN_S = 180.0
_DRAINS_WITHIN_S = 180.0
_RECOVERS_WITHIN_S = 180.0
_BEYOND_SLO_S = 30.0
_TRIGGER_SLACK_S = 180.0
_GIVES_UP_S = 180.0

Loader = FillSource | UserLoader


@dataclass(frozen=True, slots=True)
class Load:
    """One filled topic, and its loader.

    Attributes:
        name: the declared name of the topic.
        filling: the declaration of its records.
        topics: the run's topics, with this one as the only filled one.
        subject: its evidence (`chaos.scenario.model.Scenario.subjects`).
        mark: distinguishes its process and files from those of others (`Scenario.marks`).
    """

    name: str
    filling: Filling
    topics: Topics
    loader: Loader
    subject: str
    mark: str

    @property
    def records(self) -> int:
        """Number of records to send."""
        return self.loader.records

    @property
    def process(self) -> str:
        """The name of the loader's process, and of its log."""
        return f"{LOADER}{self.mark}"


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The plan of a run; all of it is known before the run begins.

    Attributes:
        folder: the run directory; it exists.
        loaders: one for each filled topic, in their order.
        pipeline: None when the loader itself is under test.
        client: the client group of the program under test.
        outputs: number of rows that the model demands of the sink; None if that is one for each record, or if progress counts
            records of the source: for a table, a state, or a user's loader.
        table: the table that the pipeline writes in place of a topic, in this run.
        spec: the declaration of the system that it runs on.
        way: the expectation of its output, if that does not follow from the scenario (`expectation`).
    """

    scenario: Scenario
    schedule: Schedule
    folder: Path
    topics: Topics
    loaders: tuple[Loader, ...]
    pipeline: Deployed | None
    client: str
    outputs: int | None = None
    table: TableSink | None = None
    spec: SystemSpec = field(default_factory=SystemSpec)
    way: Expectation | None = None

    @property
    def loads(self) -> tuple[Load, ...]:
        """Every filled topic, with its loader."""
        subjects, marks = self.scenario.subjects, self.scenario.marks
        return tuple(
            Load(name, filling, self.topics.of_one(topic), loader, subjects[name], marks[name])
            for (name, filling), topic, loader in zip(
                self.scenario.filled.items(), self.topics.filled, self.loaders, strict=True
            )
        )

    @property
    def expectation(self) -> Expectation:
        """The expectation of the output."""
        return self.way or ways.of_scenario(self.scenario, self.folder)

    @property
    def judged(self) -> tuple[Topic, ...]:
        """The topics that are landed, the filled ones first."""
        return (*self.topics.filled, self.topics.output) if self.topics.sink else self.topics.filled

    @property
    def output(self) -> Topic:
        """The topic whose growth is the progress of the run; the source if a table is written (`written`)."""
        return self.topics.output

    @property
    def records(self) -> int:
        """Number of records to send, to all topics."""
        return self.scenario.workload.total

    @property
    def demanded(self) -> int:
        """Number of rows that the output will have if no record is refused."""
        return self.records if self.outputs is None else self.outputs

    @property
    def group(self) -> str:
        """The pipeline's consumer group; empty when it has none."""
        return self.pipeline.consumer_group(self.topics) if self.pipeline else ""

    @property
    def transactional_ids(self) -> tuple[str, ...]:
        if self.pipeline is not None:
            return self.pipeline.transactional_ids(self.topics)
        return tuple(one for load in self.loads for one in load.loader.transactional_ids(load.topics))

    def write_down(self) -> None:
        """Write the plan of this run, for judging it again."""
        files.write_atomically(self.folder / "scenario.json", self.scenario.to_run())
        files.write_atomically(self.folder / "schedule.json", json.dumps(to_json(self.schedule), indent=1))

    # deadlines ------------------------------------------------------------------------------------------------------------

    @property
    def flows_within_s(self) -> float:
        """Deadline of the first output."""
        return _FLOWS_WITHIN_S

    @property
    def trigger_within_s(self) -> float:
        """Deadline of a trigger."""
        return self.scenario.workload.loading_s + (self.scenario.gives_up_after_s or _TRIGGER_SLACK_S)

    @property
    def gives_up_s(self) -> float:
        """Longest standstill of an output without faults before the run gives up."""
        return self.scenario.gives_up_after_s or _GIVES_UP_S

    @property
    def recovers_within_s(self) -> float:
        """Deadline of the recovery; longer than the allowed one, to see one that never comes."""
        slo_s, declared_s = self.scenario.recovery_slo_s, self.scenario.gives_up_after_s
        return max(declared_s, slo_s + 1) if declared_s else max(_RECOVERS_WITHIN_S, slo_s + _BEYOND_SLO_S)

    @property
    def loads_within_s(self) -> float:
        """Deadline of the loaders' ends."""
        return self.scenario.workload.loading_s + _DRAINS_WITHIN_S

    @property
    def drains_within_s(self) -> float:
        """Deadline of the drain: half an hour of faults leaves more to catch up on than half a minute."""
        return self.scenario.gives_up_after_s or _DRAINS_WITHIN_S + self.scenario.workload.loading_s / 10


def plan_run(scenario: Scenario, schedule: Schedule, system: System, folder: Path, packages: Fetched = NO_PACKAGES) -> RunPlan:
    """Name the topics after the run directory, and make the declared pipeline and loaders.

    Args:
        packages: those of the pipeline.
    """
    topics = topics_of(scenario, system.kafka.cluster.prefix, folder.name)
    pipeline = pipeline_of(scenario.pipeline, system.parts, packages)
    seed, marks = scenario_seed(schedule.seed, scenario.name), scenario.marks
    loaders = tuple(
        loader_of(filling, system.parts, seed, marked(LEDGER, marks[topic])) for topic, filling in scenario.filled.items()
    )
    client = scenario.pipeline.client
    table = table_of(pipeline, system, client, topics, folder)
    return RunPlan(scenario, schedule, folder, topics, loaders, pipeline, client, table=table)


def table_of(pipeline: Deployed | None, system: System, client: str, topics: Topics, folder: Path) -> TableSink | None:
    """Return the table that this run writes; None if it writes a topic."""
    if pipeline is None or not pipeline.writes_table:
        return None
    return pipeline.table(endpoints(system, client), topics, folder)
