"""Writing the rows that a scenario declares to a file of the run's folder, before anything is sent (`chaos.loader.rows_file`).

Their kind knows how (`chaos.scenario.rows`). An error in them becomes one line, and the run is UNKNOWN.
"""

from collections.abc import Callable
from dataclasses import replace

from pyspark.sql import SparkSession

from chaos.common.errors import InconclusiveError
from chaos.engine.run_plan import Load, Loader, RunPlan
from chaos.loader import rows_file
from chaos.loader.declaration import FillSource, marked
from chaos.loader.rows_file import RowsError
from chaos.scenario.checks import too_long
from chaos.scenario.plan import scenario_seed
from chaos.scenario.rows.base import Making


def made_beforehand(plan: RunPlan) -> bool:
    """Whether the run has rows that are known before they are sent, unlike those of a user's loader."""
    return any(one.filling.rows is not None and isinstance(one.loader, FillSource) for one in plan.loads)


def with_rows(plan: RunPlan, spark: Callable[[], SparkSession]) -> RunPlan:
    """Put the rows of a plan into its folder; return the plan unchanged if integers are sent.

    Raises:
        InconclusiveError: the rows cannot be made.
    """
    if not made_beforehand(plan):
        return plan
    plan.write_down()
    loaders = tuple(_with_rows(plan, load, spark) for load in plan.loads)
    workload = plan.scenario.workload.sending(one.records for one in loaders)
    return replace(plan, scenario=plan.scenario.model_copy(update={"workload": workload}), loaders=loaders)


def _with_rows(plan: RunPlan, load: Load, spark: Callable[[], SparkSession]) -> Loader:
    """Return the loader of a topic, with its rows in their file."""
    filling, loader = load.filling, load.loader
    if filling.rows is None or not isinstance(loader, FillSource):
        return loader
    path = plan.folder / marked(rows_file.FILE, load.mark)
    place = f"workload, {f'also, {load.name}, ' if load.mark else ''}rows, {filling.rows.kind}"
    seed = scenario_seed(plan.schedule.seed, plan.scenario.name)
    making = Making(path, load.topics.partitions, filling.records, filling.wanted, seed, plan.folder, spark)
    try:
        count = filling.rows.make(making)
    except RowsError as error:
        raise InconclusiveError(f"{place}: {error}") from error
    problem = too_long(filling.model_copy(update={"records": count}))
    if problem:
        raise InconclusiveError(f"{place}: {problem}")
    return replace(loader, records=count, rows=path)
