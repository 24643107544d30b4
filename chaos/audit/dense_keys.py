"""Dense keys: id ``i`` is number ``i div P`` of line ``i mod P``; whether the ids of a source are such places."""

from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation gives it

from chaos.audit.identity import Model
from chaos.audit.logs import Logs
from chaos.audit.prepared import Prepared, by_key
from verifiers.base import Evidence
from verifiers.single_scan import groups, pieces
from verifiers.single_scan.groups import Groups, Limits, decoded


def dense(logs: Logs, demanded: Model) -> Prepared:
    """Prepare the comparison by ids, as long as nothing in the source says that they are no places."""
    rows = decoded(logs.source)
    bounds = logs.fixed.sink_of(logs.fixed.partitions)
    value = demanded(F.col("value")).cast("string").alias("value")
    required = F.lit(True).alias("required")  # noqa: FBT003 - a literal of SQL
    expected = rows.select("id", "partition", value, required, F.col("offset").alias("position"))
    evidence = Evidence("sink", expected, logs.sink, bounds, logs.fixed.processed)
    otherwise = partial(by_key, logs, demanded)
    wrong = "keys are not decimal numbers"
    return Prepared(evidence, False, rows.where("id IS NULL"), wrong, otherwise=otherwise)  # noqa: FBT003 - `unique`


def dealt_in_turn(source: DataFrame, expected: Groups | None, evidence: Evidence, limits: Limits) -> bool:
    """Whether the ids of the source are places: id ``i`` is in the one partition of line ``i mod P``, and ids rise there.

    Ids that are distributed otherwise, by a hash for example, or that recur or fall, say nothing about order.

    Args:
        expected: groups of the demanded rows; None if there are too many.
        evidence: the evidence by these ids.
    """
    lines = evidence.lines
    if expected is not None:
        if groups.dealt_in_turn(expected):
            return True
        if not groups.lines_are_alone(expected):
            return False
        rise = pieces.rise(source, expected.ids(lines), lines, limits)
        if rise is not None:
            return rise
    rows = decoded(source).where("id IS NOT NULL")
    pairs = rows.selectExpr("partition", f"id % {lines} AS line").distinct().collect()
    if any(len({row[side] for row in pairs}) < len(pairs) for side in ("partition", "line")):
        return False
    before = "lag(id) OVER (PARTITION BY partition ORDER BY offset)"
    falls = rows.selectExpr(f"id <= {before} AS falls").where("falls")
    return not falls.take(1) and not rows.groupBy("id").count().where("count > 1").take(1)
