"""The demand of a model is computed before anything is sent: its errors show early, and the number of rows is known.

A filter lets fewer rows pass than are sent, an explode more. Triggers, the recovery after a fault and `progress` count the rows
of the sink, so they need the total. The verdict rests on the landed source instead (`chaos.expectation.model`).

The records of a user's loader are unknown before: the model is only read then, and progress counts records.
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
    """Whether the expectation is SQL, Python or a twin, and must be read by Spark."""
    return plan.pipeline is not None and _model(plan) is not None


def with_demand(plan: RunPlan, spark: Callable[[], SparkSession]) -> RunPlan:
    """Add to a plan the number of rows that its sink will have; return it unchanged if it has no model.

    Raises:
        InconclusiveError: Spark cannot read or compute the model, or it demands no row.
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
        none = ModelError(f"it demands no row for the {plan.records} records of the workload; it must demand one at least")
        raise InconclusiveError(model.told(none))
    return plan if model.form.counts_records else replace(plan, outputs=found.count)


def _model(plan: RunPlan) -> Model | None:
    model = of_scenario(plan.scenario, plan.folder)
    return None if model is None or (model.said.is_copy and not model.identity) else model


def _sent(spark: SparkSession, load: Load) -> DataFrame:
    """Return the rows of a load as its topic will hold them, if nothing else takes an offset."""
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
