"""The evidence of a run, phase 6: the filled topics and the output, at one moment, are landed as Parquet."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from chaos.cluster.kafka import Kafka
from chaos.cluster.rules import RequestRules
from chaos.engine import ends, ledgers, open_transactions, program_statements, transaction_evidence
from chaos.engine.processes import RunProcesses
from chaos.engine.program_statements import Looks
from chaos.engine.run_plan import Load, RunPlan
from chaos.expectation import model as models
from chaos.expectation import ways
from chaos.expectation.base import Views, nothing, view
from chaos.judging import landing, spark_session
from chaos.judging.landing import RunLog
from chaos.matching import row_ids, table_rows

_OF_OUTPUT = frozenset({"atomicity", "stability", "hanging"})  # they read the output again


def observe(
    plan: RunPlan,
    kafka: Kafka,
    spark: Callable[[], SparkSession],
    processes: RunProcesses,
    positions: ends.Positions | None,
    rules: RequestRules,
    read_table: Callable[[], table_rows.Landed] | None = None,
    looks: Looks | None = None,
) -> None:
    """Land the topics, the filled ones first: the model computes the sink's expected content from them, as they were landed.

    The processes are stopped also after a failed drain: a pipeline that went on would be ahead of its evidence.

    Args:
        looks: at the ends of the sink, while the run went on.

    Raises:
        InconclusiveError: there is no ledger, because a loader never began, or its output was not understood; or the table
            cannot be read.
    """
    processes.stop()
    ledgers.require(plan)
    if "hanging" in plan.scenario.verify:
        open_transactions.wait_until_decided(partial(open_transactions.of_output, kafka, plan.output))
    session = spark()
    offsets, reached = ends.settled(kafka, plan.judged, positions)
    spark_session.suit_logs(session, offsets.values())
    over = _Over(plan, kafka, session, offsets, reached)
    for load in plan.loads:
        over.land_filled(load)
    if read_table is not None:
        over.land_table(read_table())
    elif plan.pipeline is not None:
        over.land_sink(looks)
    transaction_evidence.land(plan, kafka, rules, over.folder)


@dataclass(frozen=True, slots=True)
class _Over:
    """A run that is over.

    Attributes:
        offsets: topic -> the ends to which each partition is read.
        reached: the positions of the pipeline at that moment.
    """

    plan: RunPlan
    kafka: Kafka
    spark: SparkSession
    offsets: ends.Offsets
    reached: Mapping[int, int]

    @property
    def folder(self) -> Path:
        return self.plan.folder / "evidence"

    def land_filled(self, load: Load) -> None:
        """Land a topic that a loader has filled, with the loader's ledger."""
        plan, name = self.plan, load.topics.source
        log = RunLog(
            load.subject,
            self.offsets[name],
            ledgers.acknowledged(self.spark, plan, load, row_ids.lines_of(self.offsets[name])),
            [one for one in plan.scenario.verify if plan.pipeline is None or one not in _OF_OUTPUT],
            plan.folder / load.loader.ledger,
            program_statements.about_source(plan, self.kafka, name),
        )
        landing.land(self.spark, self._topic(name), log, self.folder)

    def land_sink(self, looks: Looks | None) -> None:
        """Land the topic that the pipeline has written."""
        plan, name, anywhere = self.plan, self.plan.topics.sink, not self.plan.scenario.keeps_partitions
        log = RunLog(
            "sink",
            self.offsets[name],
            plan.expectation.rows(self._asked(anywhere=anywhere)),
            plan.scenario.verify,
            of_programs=program_statements.about_sink(plan, self.kafka, looks),
            positions=self.reached,
            anywhere=anywhere,
            source_partitions=plan.topics.partitions,
        )
        landing.land(self.spark, self._topic(name, plan.scenario.isolation), log, self.folder)

    def land_table(self, found: table_rows.Landed) -> None:
        """Land the table that the pipeline has written, from the rows that its own Spark has read."""
        plan = self.plan
        number = plan.expectation.read(found.columns, self._asked(anywhere=True))
        partitions, verify = plan.topics.partitions, plan.scenario.verify
        table_rows.land(self.spark, found, number, self.folder, self.reached, partitions, verify)

    def _topic(self, name: str, isolation: str = "read_committed") -> landing.Topic:
        headers = models.compares_headers(self.plan.scenario)
        return landing.topic_of_run(self.kafka.bootstrap, name, isolation, self.kafka.cluster.java, headers=headers)

    def _asked(self, *, anywhere: bool) -> ways.WayContext:
        lines = row_ids.lines_of(*self.offsets.values())
        return ways.WayContext(self.spark, self._views, self.plan.topics.partitions, self.reached, lines, anywhere)

    def _views(self) -> Views:
        """Return the landed topics that the pipeline reads."""
        landed = {load.name: landing.landed(self.spark, self.folder, load.subject) for load in self.plan.loads}
        empty = {topic: nothing(self.spark) for topic in self.plan.scenario.pipeline.reads}
        return empty | {topic: view(records) for topic, records in landed.items()}
