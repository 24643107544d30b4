"""One run of one scenario, from nothing to a verdict.

1. set_up   the system is healthy; topics made; the plan written down
2. steady   workload and pipeline run; output flows
3. inject   the nemesis: trigger, inject, prove, hold, heal; without faults, the workload passes through
4. heal     every injection undone, last in first out, whatever happened; the cluster is healthy, output grows again
5. drain    the workload ends; the pipeline reaches the end of its source; no transaction is open
6. observe  ends fixed; topics and ledger landed as Parquet
7. judge    verifiers read Parquet only
8. report   made from the history and the findings alone (`chaos.report.build`)

A pipeline that dies, a trigger that never comes or a drain that never ends is a problem that keeps the run from being VALID;
what can still be observed is observed and judged, for a duplicate is a duplicate in a crippled run too.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event as Flag

from confluent_kafka import IsolationLevel, KafkaException
from pyspark.sql import SparkSession

from chaos.cluster.addresses import CLIENTS
from chaos.cluster.kafka import PARTITIONS, Offsets
from chaos.cluster.system import System
from chaos.common import clock, files, signals
from chaos.common.errors import DeadlineError, InconclusiveError
from chaos.common.history import History
from chaos.engine import triggers
from chaos.engine.early_audit import EarlyAudit
from chaos.engine.nemesis import Nemesis
from chaos.engine.processes import Driver, Subject
from chaos.engine.sampler import Sampler
from chaos.engine.triggers import Watch
from chaos.faults.base import Scene
from chaos.judging import landing
from chaos.judging.judge import judge
from chaos.scenario.model import Scenario
from chaos.scenario.pipelines import CommandPipeline as DeclaredCommand
from chaos.scenario.pipelines import ConsumeTransformProducePipeline, FillSourcePipeline, SparkSquarePipeline
from chaos.scenario.plan import Schedule, to_json
from pipelines.base import Endpoints, Pipeline, Topics
from pipelines.command.pipeline import CommandPipeline
from pipelines.loader.pipeline import LEDGER, FillSource
from pipelines.spark_square.pipeline import CHECKPOINT
from pipelines.transactional.pipeline import ConsumeTransformProduce

_FLOWS_WITHIN_S = 60.0
_DRAINS_WITHIN_S = 60.0
_RECOVERS_WITHIN_S = 60.0
_SETTLES_WITHIN_S = 30.0
_TRIGGER_SLACK_S = 60.0
_PIPELINE = "pipeline"
_GROUPS = {"spark_square": "spark", "consume_transform_produce": "app", "command": "app", "fill_source": "loader"}


@dataclass(frozen=True, slots=True)
class Session:
    """What runs share.

    Attributes:
        spark: the auditor's session; starts at first call, in the background of the first scenario.
        square: makes the Spark pipeline; a test of the framework puts a mutant here.
        early: whether the output is audited while it grows, too.
    """

    system: System
    spark: Callable[[], SparkSession]
    square: Callable[..., Pipeline]
    early: bool = False


class Run:
    """One run; `execute` it once."""

    def __init__(self, scenario: Scenario, schedule: Schedule, session: Session, folder: Path, history: History) -> None:
        """Describe the run.

        Args:
            folder: the run directory; it exists.
        """
        self.scenario = scenario
        self._schedule = schedule
        self._session = session
        self._system = session.system
        self._folder = folder
        self._history = history
        suffix = folder.name
        prefix = session.system.kafka.cluster.prefix
        self._topics = Topics(f"{prefix}datasource-{suffix}", f"{prefix}datasink-{suffix}", PARTITIONS, prefix)
        self._stop = Flag()
        self._subjects: list[Subject] = []
        self._began_s = 0.0
        self._loader = _loader(scenario)
        self._pipeline = self._make_pipeline()
        ids = self._pipeline.transactional_ids(self._topics) if self._pipeline else ()
        names = {"datasource": self._topics.source, "datasink": self._topics.sink}
        scene = Scene(
            self._system,
            names,
            ids,
            Driver(history, _PIPELINE),
            client=self._client,
            group=self._pipeline.consumer_group(self._topics) if self._pipeline else "",
            pipeline=self._crashable,
            readable=self._readable,
            checkpoint=folder / CHECKPOINT if scenario.pipeline.kind == "spark_square" else None,
            positions=self._positions,
        )
        self._nemesis = Nemesis(schedule, scene, history, self._stop)

    def execute(self) -> None:
        """Run the phases; the outcome is in the history and the run directory.

        Raises:
            ChaosError: the system is not available, or cannot be observed.
            KeyboardInterrupt: the user ended it; faults are healed and processes gone.
        """
        with self._cleaned_up():
            self._phase("set_up", self._set_up)
            with self._sampler(), self._early():
                try:
                    self._tolerated("steady", self._steady)
                    self._tolerated("inject", self._inject)
                except BaseException:
                    self._phase("heal", self._heal)
                    raise
                self._tolerated("heal", self._heal_and_recover)
                self._tolerated("drain", self._drain)
            self._phase("observe", self._observe)
        self._phase("judge", self._judge)

    # the phases --------------------------------------------------------------------------------------------------------

    def _set_up(self) -> None:
        self._write("scenario.json", self.scenario.model_dump_json(indent=1, by_alias=True))
        self._write("schedule.json", json.dumps(to_json(self._schedule), indent=1))
        self._write("versions.json", json.dumps(self._system.versions(), indent=1))
        self._system.wait_until_healthy()
        self._system.rules.begin()
        if self._pipeline:
            self._system.kafka.cluster.mine([*self._groups(), *self._pipeline.transactional_ids(self._topics)])
        self._system.kafka.create(self._names(), PARTITIONS)
        if self._pipeline:
            self._pipeline.prepare(self._endpoints(self._client), self._topics)

    def _steady(self) -> None:
        if self._pipeline:
            self._start(_PIPELINE, self._pipeline, self._client).wait_for("started")
            self._nemesis.approach()
        self._start("loader", self._loader, "loader")
        clock.wait_until(self._flows, within_s=_FLOWS_WITHIN_S, reason="output to flow")
        self._began_s = clock.monotonic_s()

    def _inject(self) -> None:
        workload = self.scenario.workload
        deadline_s = workload.loading_s + _TRIGGER_SLACK_S
        if not self._schedule.steps:
            clock.wait_until(self._through, within_s=deadline_s, reason="the workload to pass through an unbroken pipeline")
        self._nemesis.run(Watch(self._history, self._began_s, workload.records, deadline_s, self._stop), self._check)

    def _heal(self) -> None:
        with signals.deferred():
            self._nemesis.heal_all()
            self._system.rules.clear()
            self._system.kafka.wait_until_healthy()

    def _heal_and_recover(self) -> None:
        """The pipeline's own time to come back belongs to the fault, not to the drain."""
        self._heal()
        before = triggers.committed(self._history)
        clock.wait_until(lambda: self._grew(before), within_s=_RECOVERS_WITHIN_S, reason="output to grow again after the heal")

    def _grew(self, before: int) -> bool:
        self._check()
        now = triggers.committed(self._history)
        alone = self._pipeline is None and not self._subjects[-1].process.alive()
        return now > before or now >= self._total or alone

    def _drain(self) -> None:
        loader = self._subjects[-1]
        clock.wait_until(lambda: not loader.process.alive(), within_s=self._loads_within_s, reason="the loader to end")
        loader.listen()
        clock.wait_until(
            self._drained, within_s=self._drains_within_s, reason="the pipeline to reach the end of its source", seen=self._lag
        )
        for subject in self._subjects:
            subject.stop()
        self._all_loaded()

    def _all_loaded(self) -> None:
        """A loader that fails leaves a smaller workload than was asked for, and the pipeline an easy life."""
        said = self._history.latest("loader", "loaded")
        sent = said.value["records"] if said else 0
        if sent < self._total:
            code = self._subjects[-1].process.exit_code()
            raise InconclusiveError(
                f"the loader ended with {code} after {sent or 'some'} of {self._total} records; see its log"
            )

    def _observe(self) -> None:
        """Source first: what the sink must hold is the model of the source as it was landed.

        Nothing runs any more, also after a drain that failed: a pipeline that goes on would be ahead of what is read of it.
        """
        for subject in self._subjects:
            subject.stop()
        kafka, folder = self._system.kafka, self._folder / "evidence"
        spark = self._session.spark()
        landing.suit(spark, self._total)
        offsets, positions = self._settled()
        land = partial(landing.land, spark, kafka.bootstrap, verify=self.scenario.verify, options=kafka.cluster.java)
        acknowledged = self._loader.expected(spark, self._folder, PARTITIONS)
        ledger = self._folder / LEDGER
        land(self._topics.source, offsets[self._topics.source], acknowledged, "source", folder, ledger=ledger)
        if self._pipeline:
            expected = self._pipeline.expected(landing.landed(spark, folder, "source"))
            isolation = self.scenario.isolation
            land(self._topics.sink, offsets[self._topics.sink], expected, "sink", folder, positions, isolation=isolation)

    def _settled(self) -> tuple[Mapping[str, Mapping[int, Offsets]], Mapping[int, int]]:
        """Ends of the topics and the pipeline's positions, of one moment: nothing was committed while they were asked for."""
        ends: Mapping[str, Mapping[int, Offsets]] = {}
        positions: Mapping[int, int] = {}

        def rest() -> bool:
            nonlocal ends, positions
            positions = self._positions() if self._pipeline else {}
            ends = {topic: self._system.kafka.settled_offsets(topic, PARTITIONS) for topic in self._names()}
            return not self._pipeline or self._positions() == positions

        clock.wait_until(rest, within_s=_SETTLES_WITHIN_S, reason="the pipeline's position to rest")
        return ends, positions

    def _judge(self) -> None:
        judge(self._session.spark(), self.scenario, self._folder)

    def _sampler(self) -> Sampler:
        kafka, source = self._system.kafka, self._topics.source
        return Sampler(kafka, self._history, source, self._output, partitions=PARTITIONS, total=self._total)

    def _early(self) -> AbstractContextManager[object]:
        if not self._session.early:
            return nullcontext()
        kafka, isolation = self._system.kafka, self.scenario.isolation
        return EarlyAudit(self._session.spark, kafka, self._history, self._output, partitions=PARTITIONS, isolation=isolation)

    # what they need ----------------------------------------------------------------------------------------------------

    @property
    def _output(self) -> str:
        return self._topics.sink if self._pipeline else self._topics.source

    @property
    def _total(self) -> int:
        return self.scenario.workload.records

    @property
    def _loads_within_s(self) -> float:
        return self.scenario.workload.loading_s + _DRAINS_WITHIN_S

    @property
    def _drains_within_s(self) -> float:
        """Half an hour of faults leaves more behind than half a minute."""
        return _DRAINS_WITHIN_S + self.scenario.workload.loading_s / 10

    def _make_pipeline(self) -> Pipeline | None:
        match self.scenario.pipeline:
            case SparkSquarePipeline() as declared:
                extra = {"speculation": True} if declared.speculation else {}
                return self._session.square(declared.delivery, declared.batch_records, **extra)
            case ConsumeTransformProducePipeline() as declared:
                return _application(declared)
            case DeclaredCommand() as declared:
                return self._command(declared)
            case FillSourcePipeline():
                return None

    def _command(self, declared: DeclaredCommand) -> Pipeline:
        parts = self._system.parts
        return CommandPipeline(
            run=declared.run,
            group=declared.group,
            model=declared.model,
            ids=declared.transactional_ids,
            java=str(parts.java),
            kafka_tools=parts.tools_class_path,
            restarts=declared.restarts,
            repeat=declared.repeat,
        )

    @property
    def _client(self) -> str:
        """The client group of what is under test."""
        return _GROUPS[self.scenario.pipeline.kind]

    def _readable(self) -> int:
        try:
            return self._system.kafka.end(self._output, PARTITIONS, IsolationLevel.READ_COMMITTED)
        except KafkaException:
            return 0

    def _crashable(self) -> Subject:
        if not self._pipeline or not self._subjects:
            raise LookupError("this scenario has no pipeline to crash")
        return self._subjects[0]

    def _names(self) -> list[str]:
        return [self._topics.source, self._topics.sink] if self._pipeline else [self._topics.source]

    def _groups(self) -> list[str]:
        group = self._pipeline.consumer_group(self._topics) if self._pipeline else ""
        return [group] if group else []

    def _endpoints(self, client: str) -> Endpoints:
        kafka, spark = self._system.kafka, self._system.spark
        return Endpoints(
            kafka=self._system.bootstrap(client),
            audit=kafka.bootstrap,
            spark_master=spark.master,
            host=spark.driver_host,
            java_options=spark.java_options,
            jars=tuple(str(jar) for jar in self._system.parts.connector_jars),
            options=kafka.cluster.options,
            java=kafka.cluster.java,
            spark_options=spark.options,
        )

    def _start(self, name: str, what: Pipeline | FillSource, client: str) -> Subject:
        assert client in CLIENTS  # noqa: S101 - a slip of ours, not of the user
        command = what.command(self._endpoints(client), self._topics, self._folder)
        subject = Subject(self._system.runtime, self._history, name, command, self._folder)
        self._subjects.append(subject)
        return subject

    def _check(self) -> None:
        """The pipeline must outlive the faults."""
        if self._pipeline and self._subjects:
            self._subjects[0].must_live()

    def _flows(self) -> bool:
        self._check()
        sample = self._history.latest("sampler", "progress")
        return sample is not None and sample.value["committed"] > 0

    def _through(self) -> bool:
        self._check()
        return triggers.committed(self._history) >= self._total

    def _drained(self) -> bool:
        self._check()
        return not self._lag()

    def _lag(self) -> dict[str, int]:
        """What is left to do, by partition; empty at the end. A broker that does not answer now is asked again."""
        try:
            return self._behind()
        except KafkaException as error:
            return {f"unknown: {error}": 1}

    def _behind(self) -> dict[str, int]:
        kafka = self._system.kafka
        source = kafka.offsets(self._topics.source, PARTITIONS)
        output = kafka.offsets(self._output, PARTITIONS)
        open_ = {
            f"open in {self._output}-{number}": ends.hw - ends.lso for number, ends in output.items() if ends.hw > ends.lso
        }
        if not self._pipeline:
            return open_
        positions = self._positions()
        behind = {number: ends.lso - positions.get(number, 0) for number, ends in source.items()}
        return open_ | {f"behind in {self._topics.source}-{number}": lag for number, lag in behind.items() if lag > 0}

    def _positions(self) -> Mapping[int, int]:
        """Where the pipeline is in each source partition, by its own account."""
        if not self._pipeline:
            raise LookupError("this scenario has no pipeline: it has no positions")
        return self._pipeline.positions(self._endpoints(self._client), self._topics, self._folder)

    def _phase(self, name: str, action: Callable[[], None]) -> None:
        self._history.record("runner", "invoke", "phase", phase=name)
        try:
            action()
        except BaseException as error:
            self._history.record("runner", "fail", "phase", phase=name, error=f"{type(error).__name__}: {error}")
            raise
        self._history.record("runner", "ok", "phase", phase=name)

    def _tolerated(self, name: str, action: Callable[[], None]) -> None:
        """A phase after whose failure there is still something to see."""
        try:
            self._phase(name, action)
        except (DeadlineError, InconclusiveError):
            return

    @contextmanager
    def _cleaned_up(self) -> Iterator[None]:
        try:
            yield
        finally:
            with signals.deferred():
                for subject in self._subjects:
                    subject.kill()
                self._system.kafka.delete(self._names())
                for group in self._groups() if self._system.kafka.cluster.prefix else ():
                    self._system.kafka.delete_group(group)
                shutil.rmtree(self._folder / "tmp", ignore_errors=True)

    def _write(self, name: str, text: str) -> None:
        files.put(self._folder / name, text)


def _application(declared: ConsumeTransformProducePipeline) -> ConsumeTransformProduce:
    return ConsumeTransformProduce(
        delivery=declared.delivery,
        workers=declared.workers,
        batch_records=declared.batch_records,
        interval_ms=round(1000 * declared.interval_s),
        transaction_failure_probability=declared.transaction_failure_probability,
        producer_per=declared.producer_per,
        auto_offset_reset=declared.auto_offset_reset,
        socket_timeout_ms=round(1000 * declared.socket_timeout_s),
        transaction_timeout_ms=round(1000 * declared.transaction_timeout_s),
        session_timeout_ms=round(1000 * declared.session_timeout_s),
    )


def _loader(scenario: Scenario) -> FillSource:
    records, rate, declared = scenario.workload.records, scenario.workload.rate_per_s, scenario.pipeline
    if not isinstance(declared, FillSourcePipeline):
        return FillSource(records, rate)
    return FillSource(records, rate, declared.idempotence, str(declared.acks), declared.batch_records, declared.in_flight)
