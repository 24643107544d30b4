"""Whether a query gives the same rows each time it is asked of the same records; what does not is no expectation.

Spark marks most of what varies (`rand`, `uuid`, `shuffle`, `monotonically_increasing_id`, `spark_partition_id`,
`input_file_name`; also with a seed, for numbers are drawn row by row). It replaces the time by a constant when it optimizes a
query, draws the seed of a sample when it reads one, and takes any rows for a ``LIMIT`` of rows that have no order: these are
looked for in the plan as it was analyzed.

Easily confused with these: `first_value` and `collect_list`, which depend on the order of rows. Whether that is known cannot be
told, as all rows of a group may have the same value, or be sorted afterwards.
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
    """What varies in it, as the end of a sentence; "" where nothing does."""
    plan: Any = query._jdf.queryExecution().analyzed()  # noqa: SLF001 - PySpark has no other way to it
    if not plan.deterministic():
        return "it draws numbers, or depends on how Spark divides the rows"
    nodes: Sequence[Mapping[str, Any]] = json.loads(plan.toJSON())
    for name in sorted(set(_classes(nodes))):
        if name in _TIMES:
            return f"it depends on {_TIMES[name]}"
        if name == "Sample":
            return "TABLESAMPLE takes other rows each time"
    if any(_is_any(branch) for branch in _limits(nodes)):
        return "LIMIT takes any of the rows where they have no ORDER BY"
    return ""


def _classes(found: object) -> Iterator[str]:
    """The names of the classes of all that is in a plan: operators, expressions, and queries in them."""
    if isinstance(found, Mapping):
        if isinstance(found.get("class"), str):
            yield str(found["class"]).rpartition(".")[2]
        for one in found.values():
            yield from _classes(one)
    elif isinstance(found, list):
        for one in found:
            yield from _classes(one)


def _limits(found: object) -> Iterator[Sequence[Mapping[str, Any]]]:
    """The operators below each limit, wherever it is; a plan is a list in which each one stands before what it reads."""
    if isinstance(found, list):
        for place, one in enumerate(found):
            if isinstance(one, Mapping) and str(one.get("class", "")).endswith(".GlobalLimit"):
                yield found[place + 1 :]
            yield from _limits(one)
    elif isinstance(found, Mapping):
        for one in found.values():
            yield from _limits(one)


def _is_any(below: Sequence[Mapping[str, Any]]) -> bool:
    """Whether nothing orders the rows, nor makes a single one of them."""
    for one in below:
        name = str(one["class"]).rpartition(".")[2]
        if name == "Sort":
            return not one["global"]
        if name == "Aggregate":
            return bool(one["groupingExpressions"])
        if name not in _KEEP_ORDER:
            return name not in {"OneRowRelation", "GlobalLimit"}
    return True
