"""The evidence of a run, phase 6: the filled topics and the output, at one moment, are landed as Parquet.

It imports more than fifteen modules: each kind of evidence has another origin, and here they become one folder.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from chaos.cluster.kafka import Kafka
from chaos.cluster.rules import RequestRules
from chaos.common.errors import InconclusiveError
from chaos.common.events import LOADER, PIPELINE
from chaos.engine import ends
from chaos.engine.processes import RunProcesses
from chaos.engine.run_plan import Load, RunPlan
from chaos.expectation import model as models
from chaos.expectation import ways
from chaos.expectation.base import Views, nothing, view
from chaos.judging import landing, spark_session, statements, transaction_logs
from chaos.judging.landing import RunLog
from chaos.loader.declaration import UserLoader
from chaos.matching import row_ids, table_rows, user_loader
from chaos.matching.row_ids import Numbering
from chaos.scenario.verifiers import TRANSACTIONS
from verifiers.base import Bounds
from verifiers.transactions import logs

_OF_OUTPUT = frozenset({"atomicity", "stability", "hanging"})  # they read the output again

Looks = Callable[[], Iterable[tuple[Any, ...]]]
Makers = Mapping[str, Looks]
"""View -> the function that makes its rows."""


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
    _require_ledgers(plan)
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
    if TRANSACTIONS in plan.scenario.verify:
        over.land_transactions(rules)


def _require_ledgers(plan: RunPlan) -> None:
    for ledger in (plan.folder / load.loader.ledger for load in plan.loads):
        if not ledger.exists():
            why = "because the loader never began, or its output was not understood; see its log"
            raise InconclusiveError(f"there is nothing to judge: {ledger} is missing, {why}")


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
    offsets: Mapping[str, Mapping[int, Bounds]]
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
            self._acknowledged(load),
            [one for one in plan.scenario.verify if plan.pipeline is None or one not in _OF_OUTPUT],
            plan.folder / load.loader.ledger,
            source_statements(plan, self.kafka, name),
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
            of_programs=sink_statements(plan, self.kafka, looks),
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

    def land_transactions(self, rules: RequestRules) -> None:
        """Land the internal topics, as far as they concern the pipeline's group, and the batches of its transactions.

        The proxies' observations of the group's readers are landed with them.

        Raises:
            InconclusiveError: the group never committed in a transaction, or a broker does not answer.
        """
        plan, kafka = self.plan, self.kafka
        asked = transaction_logs.LandingRequest(
            kafka.bootstrap, (plan.group,), kafka.cluster.options, (plan.topics.sink,), with_sources=True
        )
        try:
            found = transaction_logs.land(asked)
        except transaction_logs.NotTransactionalError as error:
            raise InconclusiveError(f"transactions: {error}") from error
        names = kafka.topic_ids([plan.topics.names[name] for name in plan.scenario.pipeline.reads])
        seen = transaction_logs.Heard(rules.starts(), rules.unfenced(), rules.produced(), rules.forgotten())
        heard = transaction_logs.heard(seen, plan.group, names)
        logs.write(self.folder / TRANSACTIONS, replace(found, **heard))

    def _topic(self, name: str, isolation: str = "read_committed") -> landing.Topic:
        headers = models.compares_headers(self.plan.scenario)
        return landing.topic_of_run(self.kafka.bootstrap, name, isolation, self.kafka.cluster.java, headers=headers)

    def _acknowledged(self, load: Load) -> DataFrame | Numbering:
        """Return the records that a topic must hold, by the ledger of its loader."""
        plan, loader, lines = self.plan, load.loader, row_ids.lines_of(self.offsets[load.topics.source])
        ledger = plan.folder / loader.ledger
        if isinstance(loader, UserLoader):
            return user_loader.of_source(self.spark, ledger, lines)
        if loader.rows is not None:
            headers = models.compares_headers(plan.scenario)
            return row_ids.of_source(self.spark, loader.rows, ledger, lines, headers=headers)
        return loader.expected(self.spark, plan.folder, load.topics.partitions)

    def _asked(self, *, anywhere: bool) -> ways.WayContext:
        lines = row_ids.lines_of(*self.offsets.values())
        return ways.WayContext(self.spark, self._views, self.plan.topics.partitions, self.reached, lines, anywhere)

    def _views(self) -> Views:
        """Return the landed topics that the pipeline reads."""
        landed = {load.name: landing.landed(self.spark, self.folder, load.subject) for load in self.plan.loads}
        empty = {topic: nothing(self.spark) for topic in self.plan.scenario.pipeline.reads}
        return empty | {topic: view(records) for topic, records in landed.items()}


# statements and commits of programs --------------------------------------------------------------------------------------

# Statements of reads are judged against the source; those of transactions against the sink. Only the needed ones are landed:
# `atomicity` leaves decisions to `outcomes`, and reports itself that one is undecided if that verifier does not run.


def source_statements(plan: RunPlan, kafka: Kafka, topic: str) -> Makers:
    """Make the views of statements about a filled topic: by the pipeline that read it or, without one, by its loader."""
    if plan.pipeline is None:
        return _told(plan, LOADER)
    asked = plan.scenario.verify
    read = partial(statements.deliveries, statements.logs(plan.folder, PIPELINE), topic)
    of_reader: Makers = {"deliveries": read} if "deliveries" in asked else {}
    commits = partial(kafka.committed, plan.group, topic)
    return {**of_reader, "commits": commits} if plan.group and "commits" in asked else of_reader


def sink_statements(plan: RunPlan, kafka: Kafka, looks: Looks | None) -> Makers:
    """Make the views of the pipeline's statements about its output, and of the looks at that during the run."""
    if looks is None:
        return _told(plan, PIPELINE)
    return {**_told(plan, PIPELINE), "looks": looks, "reached": partial(kafka.reached, plan.group, plan.topics.filled)}


def _told(plan: RunPlan, writer: str) -> Makers:
    told = partial(statements.told, statements.logs(plan.folder, writer))
    return {"told": told} if "outcomes" in plan.scenario.verify else {}
