"""The phases of a run, each a function of what it needs. Their order, and which of them may fail, is in `chaos.engine.run`."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException
from pyspark.sql import DataFrame, SparkSession

from chaos.cluster.kafka import Kafka
from chaos.cluster.rules import RequestRules
from chaos.cluster.system import System
from chaos.common import clock, files, signals
from chaos.common.errors import InconclusiveError
from chaos.common.events import LOADER, PIPELINE, ProgressSampled
from chaos.common.history import History
from chaos.engine import standstill, triggers
from chaos.engine.batches import Job
from chaos.engine.lag import Ends, OfGroup, Positions, Rest, lag, lag_beside, rest_of, settled, to_do, told
from chaos.engine.nemesis import Nemesis
from chaos.engine.pipelines import endpoints, loader_of, pipeline_of, topics_of
from chaos.engine.processes import ManagedProcess, RunProcesses
from chaos.engine.triggers import Watch
from chaos.expectation import model as models
from chaos.expectation import ways
from chaos.expectation.base import Views, nothing, view
from chaos.expectation.ways import Expectation
from chaos.judging import landing, spark_session, statements, transaction_logs
from chaos.loader.declaration import LEDGER, FillSource, OwnLoader, beside
from chaos.matching import own_loader, row_ids, table_rows
from chaos.matching.row_ids import Numbering
from chaos.runtime.capabilities import Capability
from chaos.scenario.model import Scenario, SystemSpec
from chaos.scenario.pipelines.deployed import Deployed
from chaos.scenario.plan import Schedule, scenario_seed, to_json
from chaos.scenario.verifiers import TRANSACTIONS
from chaos.subject.base import CHECKPOINT, Topic, Topics, numbered_through
from chaos.subject.tables import Table
from verifiers.base import Bounds
from verifiers.transactions import logs

_FLOWS_WITHIN_S = 180.0  # these are for what stands still: a machine that is busy with other work must not reach them
_DRAINS_WITHIN_S = 180.0
_RECOVERS_WITHIN_S = 180.0
_BEYOND_SLO_S = 30.0
_TRIGGER_SLACK_S = 180.0
_GIVES_UP_S = 180.0
_ANSWERS_WITHIN_S = 30.0
_RESTS_S = 5.0  # of an output that has as many records as were sent
_GIVEN_UP_S = 60.0  # of one that has fewer: as long as a pipeline may stand still after a fault
_OF_OUTPUT = frozenset({"atomicity", "stability", "hanging"})  # each reads a log again, and what is under test wrote the output

_OF_DECLARATION = (KafkaError.INVALID_CONFIG, KafkaError.POLICY_VIOLATION, KafkaError.TOPIC_EXCEPTION)


Looks = Callable[[], Iterable[tuple[Any, ...]]]
Makers = Mapping[str, Looks]


@dataclass(frozen=True, slots=True)
class Load:
    """One topic that is filled, and what fills it.

    Attributes:
        name: of the topic, as it is declared.
        topics: those of the run, where this one is the source.
        subject: its evidence (`chaos.scenario.model.Scenario.subjects`).
        process: the name of the loader.
        records: how many it sends.
        refused: how many of them the brokers must refuse for good.
    """

    name: str
    topics: Topics
    loader: FillSource | OwnLoader
    subject: str
    process: str
    records: int
    refused: int = 0


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What a run is made of; all of it is known before the run begins.

    Attributes:
        folder: the run directory; it exists.
        pipeline: None when the loader itself is under test.
        client: the client group of what is under test.
        outputs: how many rows its model demands of the sink; None where that is one for each record, and where progress is
            counted in records of the source: of a table, of a state, and of what a loader of the user's own sends.
        table: what the pipeline writes in place of a topic, in this run.
        spec: of the system that it runs on.
        way: what its output is held against, where that does not follow from the scenario (`expectation`).
        more_loaders: of the topics that are filled beside the source.
    """

    scenario: Scenario
    schedule: Schedule
    folder: Path
    topics: Topics
    loader: FillSource | OwnLoader
    pipeline: Deployed | None
    client: str
    outputs: int | None = None
    table: Table | None = None
    spec: SystemSpec = field(default_factory=SystemSpec)
    way: Expectation | None = None
    more_loaders: tuple[FillSource | OwnLoader, ...] = ()

    @property
    def loads(self) -> tuple[Load, ...]:
        """Every topic that is filled; the source comes first."""
        loaders, subjects = (self.loader, *self.more_loaders), self.scenario.subjects
        filled = enumerate(zip(self.scenario.filled.items(), self.topics.inputs, loaders, strict=True))
        return tuple(
            Load(name, self.topics.of_source(topic), loader, subjects[name], _process(name, number), one.records, one.refused)
            for number, ((name, one), topic, loader) in filled
        )

    @property
    def expectation(self) -> Expectation:
        """What the output is held against."""
        return self.way or ways.of_scenario(self.scenario, self.folder)

    @property
    def counts_positions(self) -> bool:
        """Whether progress is counted in records that the pipeline has read: how many rows come of them is not known."""
        return self.expectation.counts_records

    @property
    def judged(self) -> tuple[Topic, ...]:
        """The topics that are landed: what was filled comes first."""
        return (*self.topics.inputs, self.topics.output) if self.topics.sink else self.topics.inputs

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
        return (self.pipeline or self.loader).transactional_ids(self.topics)

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
    def drains_within_s(self) -> float:
        """Half an hour of faults leaves more to catch up on than half a minute."""
        return self.scenario.gives_up_after_s or _DRAINS_WITHIN_S + self.scenario.workload.loading_s / 10


def _process(topic: str, number: int) -> str:
    """The name of a loader, and of its log."""
    return f"{LOADER}-{topic}" if number else LOADER


def plan_run(scenario: Scenario, schedule: Schedule, system: System, folder: Path, packages: Sequence[Path] = ()) -> RunPlan:
    """Name the topics after the run directory, and make the pipeline and the loaders that are declared.

    Args:
        packages: the jars of the pipeline's packages.
    """
    topics = topics_of(scenario, system.kafka.cluster.prefix, folder.name)
    pipeline = pipeline_of(scenario.pipeline, system.parts, packages)
    seed, workload = scenario_seed(schedule.seed, scenario.name), scenario.workload
    loader = loader_of(workload, system.parts, seed)
    more = tuple(loader_of(one, system.parts, seed, beside(LEDGER, one.into)) for one in workload.also)
    client = scenario.pipeline.client
    table = table_of(pipeline, system, client, topics, folder)
    return RunPlan(scenario, schedule, folder, topics, loader, pipeline, client, table=table, more_loaders=more)


def table_of(pipeline: Deployed | None, system: System, client: str, topics: Topics, folder: Path) -> Table | None:
    """The table that this run writes; None where it writes a topic."""
    if pipeline is None or not pipeline.writes_table:
        return None
    return pipeline.table(endpoints(system, client), topics, folder)


def positions_of(plan: RunPlan, system: System, of: Sequence[Topic] | None = None) -> Positions | None:
    """Asks where the pipeline is in each source partition, by its own account; None when there is nothing to ask.

    Args:
        of: these topics, numbered through; the default are all that are filled.
    """
    pipeline = plan.pipeline
    if pipeline is None or not plan.scenario.pipeline.has_positions:
        return None

    def in_topic(one: Topic) -> Mapping[int, int]:
        return pipeline.positions(endpoints(system, plan.client), plan.topics.of_source(one), plan.folder)

    def in_sources() -> Mapping[int, int]:
        return numbered_through(plan.topics.inputs if of is None else of, in_topic)

    if of is not None or not plan.group:
        return in_sources
    return OfGroup(in_sources, system.kafka, plan.group, frozenset(one.name for one in plan.topics.inputs))


def job_of(plan: RunPlan, kafka: Kafka, processes: RunProcesses) -> Job | None:
    """What triggers on batches look at; None when the pipeline is not a Spark job."""
    if Capability.CHECKPOINT not in plan.scenario.pipeline.capabilities:
        return None
    table = plan.table
    sink_ends = partial(kafka.offsets, *plan.topics.output) if table is None else partial(_versions, table)
    return Job(
        plan.folder / CHECKPOINT,
        plan.topics.source,
        partial(kafka.offsets, *plan.topics.input),
        sink_ends,
        lambda: processes.nothing_is_loaded,
        {one.name: partial(kafka.offsets, *one) for one in plan.topics.inputs[1:]},
    )


def _versions(table: Table) -> Mapping[int, Bounds]:
    """How often rows were added to a table, as if these were the offsets of a log."""
    count = table.versions()
    return {0: Bounds(0, count, count)}


def written(plan: RunPlan, kafka: Kafka, positions: Positions | None) -> Callable[[IsolationLevel], int]:
    """Asks how far the output is: a topic by its end, a table by the records of the source that the pipeline is through with.

    A table has no end that can be asked cheaply. Its rows stay when the pipeline goes back, so this number does, too.
    """
    if plan.table is None or positions is None:
        return partial(kafka.end, *plan.output)
    most = 0

    def through(_isolation: IsolationLevel) -> int:
        nonlocal most
        with suppress(OSError):  # a fault removes the checkpoint
            most = max(most, sum(positions().values()))
        return most

    return through


# the phases ------------------------------------------------------------------------------------------------------------


def write_down(plan: RunPlan) -> None:
    """What is to be done in this run, for those who judge it again."""
    files.write_atomically(plan.folder / "scenario.json", plan.scenario.to_run())
    files.write_atomically(plan.folder / "schedule.json", json.dumps(to_json(plan.schedule), indent=1))


def set_up(plan: RunPlan, system: System) -> None:
    write_down(plan)
    files.write_atomically(plan.folder / "versions.json", json.dumps(system.versions(), indent=1))
    system.wait_until_healthy()
    system.rules.begin()
    if plan.group or plan.transactional_ids:
        system.kafka.cluster.mine([*([plan.group] if plan.group else []), *plan.transactional_ids])
    if plan.group:
        system.kafka.clear_group(plan.group)
    _make_topics(plan, system.kafka)
    if plan.pipeline:
        plan.pipeline.prepare(endpoints(system, plan.client), plan.topics)


def steady(plan: RunPlan, system: System, history: History, processes: RunProcesses, nemesis: Nemesis) -> float:
    """Start services, pipeline and loaders, and return the moment when output flows, in monotonic seconds."""
    for service in system.services:
        if service.run:
            processes.start_service(service)
    if plan.pipeline:
        of_run = (endpoints(system, plan.client), plan.topics, plan.folder)
        instance = partial(plan.pipeline.command, *of_run) if plan.pipeline.declared.has_instances else None
        processes.start_pipeline(plan.pipeline.command(*of_run), instance).wait_until_started()
        nemesis.approach()
    for load in plan.loads:
        processes.start_loader(load.loader.command(endpoints(system, "loader"), load.topics, plan.folder), load.process)

    positions = positions_of(plan, system)

    def flows() -> bool:
        processes.check()
        processes.check_loaders()
        _understood(plan, positions)
        return triggers.committed(history) > 0

    seen = partial(why, plan, system.kafka, processes, positions)
    clock.wait_until(flows, within_s=_FLOWS_WITHIN_S, reason="output to flow", seen=seen)
    return clock.monotonic_s()


def inject(
    plan: RunPlan,
    watch: Watch,
    processes: RunProcesses,
    nemesis: Nemesis,
    is_through: Callable[[], bool],
    seen: Callable[[], str] = lambda: "",
) -> None:
    """Carry out the schedule; without faults, wait until the workload has passed.

    Args:
        seen: why nothing moves.

    Raises:
        StandstillError: the workload has not passed, and the output stands still.
    """

    def check() -> None:
        processes.check()
        processes.check_loaders()

    def passed() -> bool:
        check()
        return triggers.committed(watch.history) >= watch.total or is_through()

    if not plan.schedule.steps:
        longest_s = plan.scenario.workload.loading_s + 10 * plan.gives_up_s
        reason, moved = "the workload to pass through an unbroken pipeline", partial(standstill.moved, watch.history)
        with standstill.told_once():
            clock.wait_until(passed, within_s=plan.gives_up_s, reason=reason, seen=seen, left=moved, at_most_s=longest_s)
    nemesis.run(watch, check)


def heal(system: System, nemesis: Nemesis) -> None:
    with signals.deferred():
        nemesis.heal_all()
        system.rules.clear()
        system.kafka.wait_until_healthy()


def recover(
    plan: RunPlan,
    history: History,
    processes: RunProcesses,
    is_through: Callable[[], bool],
    seen: Callable[[], str] = lambda: "",
) -> None:
    """Wait until output grows again: the pipeline's own time to come back belongs to the fault, not to the drain.

    Where no fault was put in force, there is nothing to come back from.

    Raises:
        StandstillError: it does not grow.
    """
    before = triggers.committed(history)
    if not standstill.was_struck(history):
        return

    def grew() -> bool:
        processes.check()
        now = triggers.committed(history)
        if now > before or now >= plan.demanded:
            return True
        processes.hear_loaders()
        ended = processes.pipeline is None and processes.nothing_is_loaded
        return ended or now >= plan.demanded - triggers.refused(history) or is_through()

    with standstill.told_once():
        clock.wait_until(grew, within_s=plan.recovers_within_s, reason="output to grow again after the heal", seen=seen)


def is_through(plan: RunPlan, kafka: Kafka, processes: RunProcesses, positions: Positions | None) -> bool:
    """Whether all is loaded, and the pipeline past all of it: what it has not written by then, it has lost."""
    if positions is None or not processes.nothing_is_loaded:
        return False
    try:
        return not lag(kafka, plan.topics.inputs, plan.output, positions)
    except (KafkaException, OSError):  # a broker that does not answer now, a checkpoint that a fault has taken: not known
        return False


def drain(plan: RunPlan, kafka: Kafka, history: History, processes: RunProcesses, positions: Positions | None) -> None:
    """Wait until the loaders have ended and nothing is left to do, and end the pipeline.

    Args:
        positions: asks the pipeline for them; None when there is no pipeline, or it has none.
    """
    loads_within_s = plan.scenario.workload.loading_s + _DRAINS_WITHIN_S
    clock.wait_until(lambda: processes.nothing_is_loaded, within_s=loads_within_s, reason="the loader to end")
    for loader in processes.loaders.values():
        loader.listen()
    rest = _rest(plan, history, positions)

    def left() -> Mapping[str, int]:
        undone = lag(kafka, plan.topics.inputs, plan.output, positions)
        if rest is None or (undone and not rest.says_missing):
            return undone
        return {**undone, **_missing(plan, kafka, history, rest)}

    seen = partial(why, plan, kafka, processes, positions)
    last: Mapping[str, int] | None = None

    def drained() -> bool:
        nonlocal last
        processes.check()
        last = left()
        return not last

    reason = "the pipeline to reach the end of its source"
    try:
        unanswered = (KafkaException,)  # a broker that does not answer now is asked again
        clock.wait_until(
            drained, within_s=plan.drains_within_s, reason=reason, ignore=unanswered, seen=seen, left=lambda: to_do(last)
        )
    except InconclusiveError:  # the pipeline has ended, as a scenario may expect; it does not expect that of the loader
        _require_all_loaded(plan, history, processes)
        raise
    processes.stop()
    _require_all_loaded(plan, history, processes)


def _rest(plan: RunPlan, history: History, positions: Positions | None) -> Rest | None:
    """What tells that the output has stopped growing; None where nothing is written, and of a table, which only Spark reads."""
    if plan.pipeline is None or (positions is not None and plan.table is not None):
        return None
    usual = rest_of(history, plan.drains_within_s)
    usual.by_the_clock = plan.scenario.pipeline.timers
    if positions is not None:
        return usual
    given_up_s = max(plan.scenario.gives_up_after_s or _GIVEN_UP_S, usual.incomplete_s)
    return Rest(max(_RESTS_S, usual.incomplete_s), given_up_s, says_missing=True).within(plan.drains_within_s)


def _missing(plan: RunPlan, kafka: Kafka, history: History, rest: Rest) -> Mapping[str, int]:
    """What the output lacks, or that it still grows."""
    there, sample = kafka.end(*plan.output, IsolationLevel.READ_COMMITTED), history.latest(ProgressSampled)
    stood_s = history.age_s(ProgressSampled) if sample is not None and sample.end == there else 0.0
    rows = there if sample is None or plan.counts_positions else min(there, sample.committed)
    lacks = None if plan.counts_positions else plan.demanded - triggers.refused(history) - rows
    return rest.missing(there, lacks, stood_s)


def _require_all_loaded(plan: RunPlan, history: History, processes: RunProcesses) -> None:
    for load in plan.loads:
        require_all_loaded(history, processes.loaders.get(load.process), load.records, load.process, refused=load.refused)


def observe(  # noqa: PLR0913 - all that is landed
    plan: RunPlan,
    kafka: Kafka,
    spark: Callable[[], SparkSession],
    processes: RunProcesses,
    positions: Positions | None,
    rules: RequestRules,
    read_table: Callable[[], table_rows.Landed] | None = None,
    looks: Looks | None = None,
) -> None:
    """Land the topics. What was filled comes first: what the sink must hold is the model of that, as it was landed.

    The processes are stopped also after a drain that failed: a pipeline that went on would be ahead of what is read of it.

    Raises:
        InconclusiveError: there is no ledger, because a loader never began, or what it said is not understood; or the table
            cannot be read.
    """
    processes.stop()
    for ledger in (plan.folder / load.loader.ledger for load in plan.loads):
        if not ledger.exists():
            why = "because the loader never began, or what it said was not understood; see its log"
            raise InconclusiveError(f"there is nothing to judge: {ledger} is missing, {why}")
    session, folder = spark(), plan.folder / "evidence"
    offsets, reached = settled(kafka, plan.judged, _of_output(kafka, positions))
    spark_session.suit_logs(session, offsets.values())
    headers = models.compares_headers(plan.scenario)
    land = partial(landing.land, session, kafka.bootstrap, options=kafka.cluster.java, headers=headers)
    verify = plan.scenario.verify
    lines = row_ids.lines_of(*offsets.values())
    for load in plan.loads:
        _land_filled(plan, load, kafka, session, offsets[load.topics.source], land)
    if read_table is not None:
        _land_table(plan, session, read_table(), reached, lines)
    elif plan.pipeline:
        anywhere = not plan.scenario.keeps_partitions
        expected = plan.expectation.rows(_asked(plan, session, reached, lines, anywhere=anywhere))
        isolation = plan.scenario.isolation
        sink, ends = plan.topics.sink, offsets[plan.topics.sink]
        _, of_sink = of_programs(plan, kafka, looks=looks)
        routing: Any = {"anywhere": anywhere, "source_partitions": plan.topics.partitions}
        land(sink, ends, expected, "sink", folder, reached, verify, isolation=isolation, of_programs=of_sink, **routing)
    if TRANSACTIONS in verify:
        _land_transactions(plan, kafka, rules, folder / TRANSACTIONS)


def _of_output(kafka: Kafka, positions: Positions | None) -> Positions | None:
    """The positions, unless the pipeline has records between it and its output that it has read and not written."""
    asked = partial(lag_beside, kafka, positions)
    between = clock.wait_until(
        lambda: (asked(),), within_s=_ANSWERS_WITHIN_S, reason="the topics between", ignore=(KafkaException,)
    )
    return None if between[0] else positions


def _land_filled(
    plan: RunPlan, load: Load, kafka: Kafka, spark: SparkSession, ends: Mapping[int, Bounds], land: Callable[..., None]
) -> None:
    """Land a topic that a loader has filled, with the loader's ledger."""
    asked = [name for name in plan.scenario.verify if not plan.pipeline or name not in _OF_OUTPUT]
    acknowledged, ledger = _acknowledged(plan, load, spark, row_ids.lines_of(ends)), plan.folder / load.loader.ledger
    of_source, _ = of_programs(plan, kafka, load.topics)
    words: Any = {"verify": asked, "ledger": ledger, "of_programs": of_source}
    land(load.topics.source, ends, acknowledged, load.subject, plan.folder / "evidence", **words)


def _land_transactions(plan: RunPlan, kafka: Kafka, rules: RequestRules, place: Path) -> None:
    """The internal topics, as far as they tell of the pipeline's group, and the batches of what its transactions wrote.

    With them goes what the proxies have seen of the group's readers.

    Raises:
        InconclusiveError: the group never committed in a transaction, or a broker does not answer.
    """
    words = (kafka.bootstrap, (plan.group,), kafka.cluster.options, (plan.topics.sink,))
    try:
        found = transaction_logs.land(transaction_logs.Asked(*words, with_sources=True))
    except transaction_logs.NotTransactionalError as error:
        raise InconclusiveError(f"transactions: {error}") from error
    names = kafka.topic_ids([plan.topics.names[name] for name in plan.scenario.pipeline.reads])
    seen = transaction_logs.Heard(rules.starts(), rules.unfenced(), rules.produced(), rules.forgotten())
    heard = transaction_logs.heard(seen, plan.group, names)
    logs.write(place, replace(found, **heard))


def _land_table(plan: RunPlan, spark: SparkSession, found: table_rows.Landed, reached: Mapping[int, int], lines: int) -> None:
    number = plan.expectation.of_table(found.columns, _asked(plan, spark, reached, lines, anywhere=True))
    table_rows.land(spark, found, number, plan.folder / "evidence", reached, plan.topics.partitions, plan.scenario.verify)


def _asked(plan: RunPlan, spark: SparkSession, reached: Mapping[int, int], lines: int, *, anywhere: bool) -> ways.Asked:
    pipeline, subject = plan.pipeline, plan.loads[0].subject
    assert pipeline is not None  # noqa: S101 - nothing is asked of what it writes where there is none

    def by_name() -> DataFrame:
        return pipeline.expected(landing.landed(spark, plan.folder / "evidence", subject))

    return ways.Asked(spark, partial(_views, plan, spark), by_name, reached, lines, anywhere)


def _views(plan: RunPlan, spark: SparkSession) -> Views:
    """What the pipeline reads, as it was landed."""
    landed = {load.name: landing.landed(spark, plan.folder / "evidence", load.subject) for load in plan.loads}
    empty = {topic: nothing(spark) for topic in plan.scenario.pipeline.reads}
    return empty | {topic: view(records) for topic, records in landed.items()}


def _acknowledged(plan: RunPlan, load: Load, spark: SparkSession, lines: int) -> DataFrame | Numbering:
    """What a topic must hold, by the ledger of its loader."""
    loader = load.loader
    ledger = plan.folder / loader.ledger
    if isinstance(loader, OwnLoader):
        return own_loader.of_source(spark, ledger, lines)
    if loader.rows is not None:
        return row_ids.of_source(spark, loader.rows, ledger, lines, headers=models.compares_headers(plan.scenario))
    return loader.expected(spark, plan.folder, load.topics.partitions)


def _make_topics(plan: RunPlan, kafka: Kafka) -> None:
    """Those that are alike at once, so that most runs wait only once for replicas in sync."""
    alike: dict[str, list[str]] = {}
    for name in plan.topics.names:
        alike.setdefault(plan.scenario.topics[name].model_dump_json(), []).append(name)
    for names in alike.values():
        spec = plan.scenario.topics[names[0]]
        try:
            kafka.create([plan.topics.names[name] for name in names], spec.partitions, spec.config)
        except KafkaException as error:
            if error.args[0].code() not in _OF_DECLARATION:
                raise
            what = f"topics, {', '.join(names)}: the brokers refuse this declaration: {error.args[0].str()}"
            raise InconclusiveError(f"{what}; mend it in the scenarios file") from error


# what they ask ---------------------------------------------------------------------------------------------------------


def require_all_loaded(
    history: History, loader: ManagedProcess | None, records: int, name: str = LOADER, *, refused: int = 0
) -> None:
    """Refuse another workload than was asked for: the pipeline had an easier life than the scenario declares.

    Raises:
        InconclusiveError: the loader failed, or was never started; or another number of records was refused.
    """
    if loader is None:
        raise InconclusiveError("the loader was never started, because the pipeline did not start")
    loaded = history.last_said(name, "loaded")
    sent = loaded.content["records"] if loaded else 0
    if sent < records or (loaded and loaded.content.get("failed")):
        raise InconclusiveError(loader.how_it_ended(f"after {sent or 'some'} of {records} records"))
    counted = int(loaded.content.get("refused", 0)) if loaded else 0
    if counted != refused:
        why = loaded.content.get("why", "") if loaded else ""
        raise InconclusiveError(
            f"the {name}: {counted} of {records} records were refused for good{f' ({why})' if why else ''}, and the workload "
            f"declares refused: {refused}; see `fail` in its ledger, and declare as many as are meant to be refused"
        )


def of_programs(
    plan: RunPlan, kafka: Kafka, topics: Topics | None = None, *, looks: Looks | None = None
) -> tuple[Makers, Makers]:
    """What the programs say or commit, of the source and of the sink: view -> what makes its rows.

    Args:
        topics: another topic that is filled is the source in these.
        looks: at the ends of the sink, while the run went on.

    What the pipeline read is judged against what it read it from, the source; its transactions wrote the sink. Only what is
    asked is here: `atomicity` leaves to `outcomes` what that decides, and says itself that it is undecided where nobody asks.
    """
    of_loader, of_pipeline = (statements.logs(plan.folder, name) for name in (LOADER, PIPELINE))
    asked = plan.scenario.verify
    transactions = partial(statements.told, of_pipeline if plan.pipeline else of_loader)
    of_writer: Makers = {"told": transactions} if "outcomes" in asked else {}
    if plan.pipeline is None:
        return of_writer, {}
    source = (topics or plan.topics).source
    read = partial(statements.deliveries, of_pipeline, source)
    of_reader: Makers = {"deliveries": read} if "deliveries" in asked else {}
    commits = partial(kafka.committed, plan.group, source)
    of_group: Makers = {"commits": commits} if plan.group and "commits" in asked else {}
    if looks is None:
        return {**of_reader, **of_group}, of_writer
    reached = partial(kafka.reached, plan.group, plan.topics.inputs)
    return {**of_reader, **of_group}, {**of_writer, "looks": looks, "reached": reached}


def _understood(plan: RunPlan, positions: Positions | None) -> None:
    """Raise at once where a checkpoint has a format that nobody knows, which would be waited for in vain.

    Raises:
        InconclusiveError: it has.
    """
    if positions is not None and not plan.group:
        with suppress(OSError):  # a fault removes it
            positions()


def why(plan: RunPlan, kafka: Kafka, processes: RunProcesses, positions: Positions | None) -> str:
    """What is behind, what brokers and positions say of it, and the pipeline's own error, as far as that is known now."""
    try:
        behind = told(lag(kafka, plan.topics.inputs, plan.output, positions))
    except (KafkaException, OSError) as error:
        behind = f"how far it is behind is not known: {error}"
    return "; ".join(filter(None, (behind, standstill_of(plan, kafka, positions), processes.error_of_pipeline())))


def standstill_of(plan: RunPlan, kafka: Ends, positions: Positions | None) -> str:
    """Why output does not flow, or does not end, as far as that can be seen now."""
    try:
        seen = _seen(plan, kafka, positions)
    except KafkaException as error:
        return f"how far the pipeline is cannot be told: {error}"
    if plan.pipeline is None:
        return f"{seen.written} records are in {seen.source}"
    if plan.table is not None:
        return standstill.of_table(seen.source, plan.table.place, seen.written, seen.read or 0)
    return standstill.why(seen)


def is_elsewhere(plan: RunPlan, kafka: Ends, positions: Positions | None) -> bool:
    """Whether the pipeline writes to another topic, or its positions are in another place, as far as that can be seen now."""
    if plan.pipeline is None or plan.table is not None:
        return False
    try:
        return standstill.is_elsewhere(_seen(plan, kafka, positions))
    except KafkaException:
        return False


def _seen(plan: RunPlan, kafka: Ends, positions: Positions | None) -> standstill.Seen:
    counts = {
        one: sum(ends.hw - ends.low for ends in kafka.offsets(*one).values()) for one in (*plan.topics.inputs, plan.output)
    }
    sent, names = sum(counts[one] for one in plan.topics.inputs), " and ".join(one.name for one in plan.topics.inputs)
    read = None if positions is None else sum(positions().values())
    return standstill.Seen(names, plan.topics.sink, sent, counts[plan.output], read, plan.group)


def readable(end: Callable[[IsolationLevel], int]) -> int:
    """The read_committed end of an output (`written`); 0 when the brokers do not tell it now."""
    try:
        return end(IsolationLevel.READ_COMMITTED)
    except KafkaException:
        return 0
