"""Recognises a query that makes one row of each record, with the record's key and place, and a value from this record alone.

Spark's plan of the query decides, never its text. Spark's optimizer removes steps without effect, such as a subquery that
renames columns, or a cast of text to text. The rest must be a single projection of the topic::

    Project [key#0, upper(value#1) AS value#5, partition#2, offset#3]
    +- LogicalRDD [key#0, value#1, partition#2, offset#3, timestamp#4]

A filter, a join, an aggregate, a window, a LIMIT or an explode is another operator; a query inside an expression may see other
records; a random value is not a function of a record.
"""

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from chaos.expectation import repeatable
from chaos.expectation.base import COLUMNS

_KEPT = ("key", "partition", "offset")
_PASSED_ON = "AttributeReference"


def unread(spark: SparkSession) -> DataFrame:
    """Return a topic that Spark does not know to be empty; else it would make an empty plan."""
    return spark.createDataFrame(spark.sparkContext.emptyRDD(), ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items()))


def is_so(query: DataFrame, topic: DataFrame) -> bool:
    """Whether a query makes one row of each record.

    Args:
        topic: the view that it reads, from `unread`.
    """
    plan: Any = query._jdf.queryExecution().optimizedPlan()  # noqa: SLF001 - PySpark has no other way to it
    if _kind(plan) != "Project" or not plan.child().children().isEmpty() or not plan.subqueriesAll().isEmpty():
        return False
    passed_on = dict(filter(None, map(_passed_on, _each(plan.projectList()))))
    own = {column.name(): column.exprId().id() for column in _each(topic._jdf.queryExecution().analyzed().output())}  # noqa: SLF001
    return all(passed_on.get(name) == own[name] for name in _KEPT) and not repeatable.why_not(query)


def _passed_on(column: Any) -> tuple[str, int] | None:
    """Return the name of a column that passes on a column of the topic, and the id of that column."""
    source = column.child() if _kind(column) == "Alias" else column
    return (column.name().lower(), source.exprId().id()) if _kind(source) == _PASSED_ON else None


def _each(found: Any) -> list[Any]:
    return [found.apply(number) for number in range(found.size())]


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())
