"""Whether a query gives the same rows each time it reads the same records; if not, it cannot define an expectation.

Spark marks most of what varies (`rand`, `uuid`, `shuffle`, `monotonically_increasing_id`, `spark_partition_id`,
`input_file_name`; also with a seed, because numbers are drawn row by row). Three cases must be searched in the analyzed plan:
Spark replaces the time by a constant when it optimizes a query, draws the seed of a sample when it reads the query, and takes
arbitrary rows for a ``LIMIT`` without an order.

Easily confused with these: `first_value` and `collect_list`, which depend on the order of rows. The plan does not show whether
that order matters: all rows of a group may have the same value, or be sorted afterwards.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame

_TIMES = {
    "CurrentBatchTimestamp": "the time of the batch",
    "CurrentDate": "the current date",
    "CurrentTime": "the current time",
    "CurrentTimestamp": "the current time",
    "LocalTimestamp": "the current time",
    "Now": "the current time",
}
_KEEP_ORDER = frozenset({"Filter", "LocalLimit", "Offset", "Project", "SubqueryAlias", "View"})


def why_not(query: DataFrame) -> str:
    """Describe what varies in a query, in a clause; "" if nothing does."""
    plan: Any = query._jdf.queryExecution().analyzed()  # noqa: SLF001 - PySpark has no other way to it
    if not plan.deterministic():
        return "it uses random numbers, or depends on how Spark partitions the rows"
    nodes: Sequence[Mapping[str, Any]] = json.loads(plan.toJSON())
    for name in sorted(set(_classes(nodes))):
        if name in _TIMES:
            return f"it depends on {_TIMES[name]}"
        if name == "Sample":
            return "TABLESAMPLE takes different rows each time"
    if any(_is_any(branch) for branch in _limits(nodes)):
        return "LIMIT without ORDER BY takes arbitrary rows"
    return ""


def _classes(found: object) -> Iterator[str]:
    """Names of all classes in a plan: operators, expressions, and queries inside them."""
    if isinstance(found, Mapping):
        if isinstance(found.get("class"), str):
            yield str(found["class"]).rpartition(".")[2]
        for one in found.values():
            yield from _classes(one)
    elif isinstance(found, list):
        for one in found:
            yield from _classes(one)


def _limits(found: object) -> Iterator[Sequence[Mapping[str, Any]]]:
    """Find the operators below each limit; a plan lists every operator before its inputs."""
    if isinstance(found, list):
        for place, one in enumerate(found):
            if isinstance(one, Mapping) and str(one.get("class", "")).endswith(".GlobalLimit"):
                yield found[place + 1 :]
            yield from _limits(one)
    elif isinstance(found, Mapping):
        for one in found.values():
            yield from _limits(one)


def _is_any(below: Sequence[Mapping[str, Any]]) -> bool:
    """Whether no operator orders the rows, or reduces them to one."""
    for one in below:
        name = str(one["class"]).rpartition(".")[2]
        if name == "Sort":
            return not one["global"]
        if name == "Aggregate":
            return bool(one["groupingExpressions"])
        if name not in _KEEP_ORDER:
            return name not in {"OneRowRelation", "GlobalLimit"}
    return True
