"""What a run is made of: its topics, pipeline and loaders, and how long it waits. All of it is known before the run begins."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from chaos.cluster.system import System
from chaos.common import files
from chaos.common.events import LOADER
from chaos.contract.base import Topic, Topics
from chaos.engine.pipelines import endpoints, loader_of, pipeline_of, topics_of
from chaos.expectation import ways
from chaos.expectation.ways import Expectation
from chaos.loader.declaration import LEDGER, FillSource, UserLoader, marked
from chaos.scenario.model import Filling, Scenario, SystemSpec
from chaos.scenario.pipelines.deployed import Deployed
from chaos.scenario.plan import Schedule, scenario_seed, to_json
from chaos.scenario.sinks import TableSink

# How long a phase waits. These are for what stands still: a machine that is busy with other work must not reach them.
_FLOWS_WITHIN_S = 180.0
_DRAINS_WITHIN_S = 180.0
_RECOVERS_WITHIN_S = 180.0
_BEYOND_SLO_S = 30.0
_TRIGGER_SLACK_S = 180.0
_GIVES_UP_S = 180.0

Loader = FillSource | UserLoader


@dataclass(frozen=True, slots=True)
class Load:
    """One topic that is filled, and what fills it.

    Attributes:
        name: of the topic, as it is declared.
        filling: the declaration of what is sent.
        topics: those of the run, where no other is filled.
        subject: its evidence (`chaos.scenario.model.Scenario.subjects`).
        mark: what tells its process and files from those of others (`Scenario.marks`).
    """

    name: str
    filling: Filling
    topics: Topics
    loader: Loader
    subject: str
    mark: str

    @property
    def records(self) -> int:
        """How many are sent."""
        return self.loader.records

    @property
    def process(self) -> str:
        """The name of the loader's process, and of its log."""
        return f"{LOADER}{self.mark}"


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What a run is made of; all of it is known before the run begins.

    Attributes:
        folder: the run directory; it exists.
        loaders: one for each topic that is filled, in their order.
        pipeline: None when the loader itself is under test.
        client: the client group of what is under test.
        outputs: how many rows its model demands of the sink; None where that is one for each record, and where progress is
            counted in records of the source: of a table, of a state, and of what a loader of the user's own sends.
        table: what the pipeline writes in place of a topic, in this run.
        spec: of the system that it runs on.
        way: what its output is held against, where that does not follow from the scenario (`expectation`).
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
        """Every topic that is filled."""
        subjects, marks = self.scenario.subjects, self.scenario.marks
        return tuple(
            Load(name, filling, self.topics.of_one(topic), loader, subjects[name], marks[name])
            for (name, filling), topic, loader in zip(
                self.scenario.filled.items(), self.topics.filled, self.loaders, strict=True
            )
        )

    @property
    def expectation(self) -> Expectation:
        """What the output is held against."""
        return self.way or ways.of_scenario(self.scenario, self.folder)

    @property
    def judged(self) -> tuple[Topic, ...]:
        """The topics that are landed: what was filled comes first."""
        return (*self.topics.filled, self.topics.output) if self.topics.sink else self.topics.filled

    @property
    def output(self) -> Topic:
        """The topic whose growth is the progress of the run; the source where a table is written (`written`)."""
        return self.topics.output

    @property
    def records(self) -> int:
        """How many are sent, to all topics."""
        return self.scenario.workload.total

    @property
    def demanded(self) -> int:
        """How many rows the output will have, if no record is refused."""
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
        """Write what is to be done in this run, for those who judge it again."""
        files.write_atomically(self.folder / "scenario.json", self.scenario.to_run())
        files.write_atomically(self.folder / "schedule.json", json.dumps(to_json(self.schedule), indent=1))

    # how long it waits ----------------------------------------------------------------------------------------------------

    @property
    def flows_within_s(self) -> float:
        """How long the first output is waited for."""
        return _FLOWS_WITHIN_S

    @property
    def trigger_within_s(self) -> float:
        """How long a trigger is waited for."""
        return self.scenario.workload.loading_s + (self.scenario.gives_up_after_s or _TRIGGER_SLACK_S)

    @property
    def gives_up_s(self) -> float:
        """How long an output without faults may stand still until it is no longer waited for."""
        return self.scenario.gives_up_after_s or _GIVES_UP_S

    @property
    def recovers_within_s(self) -> float:
        """Longer than a recovery is allowed to take, so that one that never comes is seen as such."""
        slo_s, declared_s = self.scenario.recovery_slo_s, self.scenario.gives_up_after_s
        return max(declared_s, slo_s + 1) if declared_s else max(_RECOVERS_WITHIN_S, slo_s + _BEYOND_SLO_S)

    @property
    def loads_within_s(self) -> float:
        """How long the loaders may take to end."""
        return self.scenario.workload.loading_s + _DRAINS_WITHIN_S

    @property
    def drains_within_s(self) -> float:
        """Half an hour of faults leaves more to catch up on than half a minute."""
        return self.scenario.gives_up_after_s or _DRAINS_WITHIN_S + self.scenario.workload.loading_s / 10


def plan_run(scenario: Scenario, schedule: Schedule, system: System, folder: Path, packages: Sequence[Path] = ()) -> RunPlan:
    """Name the topics after the run directory, and make the pipeline and the loaders that are declared.

    Args:
        packages: the jars of the pipeline's packages.
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
    """The table that this run writes; None where it writes a topic."""
    if pipeline is None or not pipeline.writes_table:
        return None
    return pipeline.table(endpoints(system, client), topics, folder)
