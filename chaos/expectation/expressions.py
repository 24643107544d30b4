"""Expressions over one record: its identity, or the value that it demands."""

from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from chaos.expectation import repeatable


def why_not(rows: DataFrame, expression: Column, *, may_be_constant: bool = False) -> str:
    """Explain why an expression does not describe a single record, in one line; an empty text if it does.

    Args:
        rows: an empty frame with the available columns.
        may_be_constant: whether the expression may be the same for all records.
    """
    try:
        rows.where(expression.cast("string").isNotNull())  # refuses aggregates and generators
        found = rows.select(expression.cast("string"))
    except PySparkException as error:
        return _first_line(error)
    plan: Any = found._jdf.queryExecution().analyzed()  # noqa: SLF001 - PySpark has no other way to it
    if not may_be_constant and plan.deterministic() and plan.references().isEmpty():
        return "it is the same for all records"
    varies = repeatable.why_not(found)
    if varies:
        return f"it may give another value each time for the same record: {varies}."
    return ""


def why_no_sql(rows: DataFrame, sql: str) -> str:
    """Parse SQL, and check it with `why_not`."""
    try:
        expression = F.expr(f"CAST({sql} AS STRING)")
    except PySparkException as error:
        return _first_line(error)
    return why_not(rows, expression)


def _first_line(error: PySparkException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
