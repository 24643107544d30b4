"""What a model demands of a workload is computed before anything is sent: errors are told then, and how much will come.

A filter lets fewer rows pass than are sent, an explode more. Triggers, the recovery after a fault and `progress` count the rows
of the sink, so they need to know when all are there. What is judged is the source as it was landed (`chaos.expectation.model`).

What a loader of the user's own sends is known when it is there: the model is only read before, and progress counts records.
"""

from collections.abc import Callable
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from chaos.common.errors import InconclusiveError
from chaos.engine.run_plan import Load, RunPlan
from chaos.expectation.base import ModelError, nothing
from chaos.expectation.model import Model, of_scenario
from chaos.loader.declaration import FillSource
from chaos.matching.row_ids import text


def has_model(plan: RunPlan) -> bool:
    """Whether what is expected is said in SQL, in Python or by a twin, and must be read by Spark."""
    return plan.pipeline is not None and _model(plan) is not None


def with_demand(plan: RunPlan, spark: Callable[[], SparkSession]) -> RunPlan:
    """The plan of a run that knows how many rows its sink will have; the same plan where it has no model.

    Raises:
        InconclusiveError: Spark cannot read or compute the model, or its rows are none.
    """
    model = _model(plan)
    if model is None:
        return plan
    plan.write_down()
    session = spark()
    sources = {topic: nothing(session) for topic in plan.scenario.pipeline.reads}
    try:
        model.require_known(session, tuple(sources))
        if plan.scenario.workload.has_user_loader:
            return plan
        way = plan.expectation.recognised(session, tuple(sources))
        if way.demands_each:
            return replace(plan, way=way)
        found = model.demanded(session, sources | {load.name: _sent(session, load) for load in plan.loads})
    except ModelError as error:
        raise InconclusiveError(model.told(error)) from error
    if not found.count:
        none = ModelError(f"it demands no row of the {plan.records} records that are sent; demand one at least")
        raise InconclusiveError(model.told(none))
    return plan if model.form.counts_records else replace(plan, outputs=found.count)


def _model(plan: RunPlan) -> Model | None:
    model = of_scenario(plan.scenario, plan.folder)
    return None if model is None or (model.said.is_copy and not model.identity) else model


def _sent(spark: SparkSession, load: Load) -> DataFrame:
    """What is sent to a topic as that will have it, if nothing else takes an offset."""
    partitions = load.topics.partitions
    path = load.loader.rows if isinstance(load.loader, FillSource) else None
    if path is None:
        columns = ("CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value")
        sent = spark.range(load.records).selectExpr(
            *columns, f"CAST(id % {partitions} AS INT) AS partition", f"id DIV {partitions} AS offset"
        )
    else:
        rows = spark.read.parquet(str(path))
        sent = rows.selectExpr(*(f"{text(name)} AS {name}" for name in ("key", "value")), "partition", "number AS offset")
    return sent.selectExpr("*", "current_timestamp() AS timestamp")
