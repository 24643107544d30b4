"""Ledgers of loaders: which records a filled topic must hold."""

from pyspark.sql import DataFrame, SparkSession

from chaos.common.errors import InconclusiveError
from chaos.engine.run_plan import Load, RunPlan
from chaos.expectation import model as models
from chaos.loader.declaration import UserLoader
from chaos.matching import row_ids, user_loader
from chaos.matching.row_ids import Numbering


def require(plan: RunPlan) -> None:
    """Refuse a run that has nothing to judge.

    Raises:
        InconclusiveError: a loader never began, or its output was not understood.
    """
    for ledger in (plan.folder / load.loader.ledger for load in plan.loads):
        if not ledger.exists():
            why = "because the loader never began, or its output was not understood; see its log"
            raise InconclusiveError(f"there is nothing to judge: {ledger} is missing, {why}")


def acknowledged(spark: SparkSession, plan: RunPlan, load: Load, lines: int) -> DataFrame | Numbering:
    """Return the records that a topic must hold, by the ledger of its loader.

    Args:
        lines: the number of lines of the user's own rows (`row_ids.lines_of`).
    """
    loader, ledger = load.loader, plan.folder / load.loader.ledger
    if isinstance(loader, UserLoader):
        return user_loader.of_source(spark, ledger, lines)
    if loader.rows is not None:
        headers = models.compares_headers(plan.scenario)
        return row_ids.of_source(spark, loader.rows, ledger, lines, headers=headers)
    return loader.expected(spark, plan.folder, load.topics.partitions)
